// SPDX-License-Identifier: Apache-2.0
#include "launcher/check/file_content.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>

#include "tests/unit/writer/event_maker.h"
#include "writer/outputs/xspace_skim.h"

namespace tbprof {
namespace {

using namespace event_maker;
using namespace std::string_literals;

class File {
 public:
  explicit File(const std::string& content) : size_(content.size()) {
    char name[] = "/tmp/file_content.XXXXXX";
    fd_ = mkstemp(name);
    unlink(name);
    EXPECT_EQ(pwrite(fd_, content.data(), content.size(), 0), static_cast<ssize_t>(content.size()));
  }
  ~File() { close(fd_); }
  FileDamage Damage() const { return FindDamage(fd_, size_); }
  bool HoldsNuls() const { return HoldsNulBlock(fd_, size_); }
  std::string EventFault() const { return FindEventFault(fd_, size_); }
  bool Parses() const { return SkimXspace(fd_, size_).parsed; }

 private:
  int fd_ = -1;
  uint64_t size_ = 0;
};

std::string Repeated(const std::string& text, size_t count) {
  std::string all;
  while (count-- > 0) all += text;
  return all;
}

// A profile with events of over 16 KiB.
std::string LargeProfile() { return Plane("/host:CPU", Field(3, Repeated(Field(4, "\x08\x01\x10\x05"), 4000))); }

TEST(FileContent, MagicNumbers_GiveTheContent) {
  EXPECT_EQ(ContentByMagic("\x1f\x8b\x08"), FileContent::kGzip);
  EXPECT_EQ(ContentByMagic("BZh91AY"), FileContent::kBzip2);
  EXPECT_EQ(ContentByMagic("\xfd"
                           "7zXZ\0\0"s),
            FileContent::kXz);
  EXPECT_EQ(ContentByMagic("\x28\xb5\x2f\xfd"), FileContent::kZstd);
  EXPECT_EQ(ContentByMagic("PK\x03\x04"), FileContent::kZip);
  EXPECT_EQ(ContentByMagic(std::string(257, 'a') + "ustar"), FileContent::kTar);
  EXPECT_EQ(ContentByMagic("\0\5\26\7\0\2"s), FileContent::kAppleDouble);
  EXPECT_EQ(ContentByMagic("\n <!DOCTYPE html>"), FileContent::kWebPage);
  EXPECT_EQ(ContentByMagic("{\"schemaVersion\": 1,"), FileContent::kChromeTrace);
  EXPECT_EQ(ContentByMagic("{\"model\": 1}"), FileContent::kOther);
  EXPECT_EQ(ContentByMagic(Profile()), FileContent::kOther);
  EXPECT_EQ(ContentByMagic(""), FileContent::kOther);
}

TEST(FileContent, ArchiveNames_GiveTheStem) {
  EXPECT_EQ(ArchiveStem("job.tar.gz"), "job");
  EXPECT_EQ(ArchiveStem("job.1.TGZ"), "job.1");
  EXPECT_EQ(ArchiveStem("job.gz"), "job.gz");
  EXPECT_FALSE(IsArchiveName(".zip"));
}

TEST(FileDamage, Damage_EachKind_IsDetected) {
  EXPECT_EQ(File(std::string(20000, '\0')).Damage(), FileDamage::kNuls);
  EXPECT_EQ(File(Profile() + std::string(100, '\0')).Damage(), FileDamage::kNulPart);
  std::string hole = LargeProfile();
  hole.replace(4096, 4096, 4096, '\0');
  EXPECT_EQ(File(hole).Damage(), FileDamage::kNulPart);
  std::string lines;
  for (const char c : LargeProfile() + LargeProfile()) lines += c == '\n' ? "\r\n"s : std::string(1, c);
  EXPECT_EQ(File(lines).Damage(), FileDamage::kCrLf);
  EXPECT_EQ(File("\x0a\x05" + Repeated("\xEF\xBF\xBD", 10)).Damage(), FileDamage::kReplacedBytes);
  EXPECT_EQ(File("one\r\ntwo\r\n").Damage(), FileDamage::kNone);  // a text
  EXPECT_EQ(File(Profile()).Damage(), FileDamage::kNone);
  EXPECT_EQ(File("").Damage(), FileDamage::kNone);
}

TEST(EventFault, NulsAmongEvents_AreAFault_InDataTheyAreNone) {
  std::string hole = LargeProfile();
  EXPECT_EQ(File(hole).EventFault(), "");
  hole.replace(4096, 4096, 4096, '\0');
  EXPECT_TRUE(File(hole).Parses());  // the check skips events by their length
  EXPECT_TRUE(File(hole).HoldsNuls());
  EXPECT_NE(File(hole).EventFault(), "");
  // A stat of a plane: the program's constants.
  const std::string data = Plane("/host:metadata", Field(6, "\x08\x01" + Field(6, std::string(20000, '\0'))));
  EXPECT_TRUE(File(data).HoldsNuls());
  EXPECT_EQ(File(data).EventFault(), "");
}

}  // namespace
}  // namespace tbprof
