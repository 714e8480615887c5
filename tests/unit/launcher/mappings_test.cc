// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/mappings.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/base/proc_files.h"

namespace tbprof {
namespace {

TEST(TakeMapsLine, Lines_AreTakenInOrder) {
  constexpr char kMaps[] =
      "nonsense\n"
      "\n"
      "00400000-00401000 ---p 00000000 08:01 12 /usr/bin/x\n"
      "7ffd00000000-7ffd00002000 rw-p 00000000 00:00 0                          [stack]\n"
      "ffffffffff600000-ffffffffff601000 --xp 00000abc 00:00 0";
  std::string_view maps = kMaps;
  auto line = TakeMapsLine(&maps);
  ASSERT_TRUE(line.has_value());
  EXPECT_EQ(line->start, 0x400000u);
  EXPECT_FALSE(line->readable);
  EXPECT_FALSE(line->executable);
  EXPECT_EQ(line->path, "/usr/bin/x");
  line = TakeMapsLine(&maps);
  ASSERT_TRUE(line.has_value());
  EXPECT_TRUE(line->readable);
  EXPECT_EQ(line->inode, 0u);
  EXPECT_EQ(line->path, "[stack]");
  line = TakeMapsLine(&maps);
  ASSERT_TRUE(line.has_value());
  EXPECT_EQ(line->end, 0xffffffffff601000u);
  EXPECT_EQ(line->offset, 0xabcu);
  EXPECT_TRUE(line->executable);
  EXPECT_EQ(line->path, "");
  EXPECT_FALSE(TakeMapsLine(&maps).has_value());
}

TEST(TakeMapsLine, CutOrInvalidLine_IsSkipped) {
  const std::string whole = "00400000-00401000 r-xp 00000000 08:01 12";
  for (size_t size = 0; size < whole.size() - 1; ++size) {
    const std::string cut = whole.substr(0, size);
    std::string_view maps = cut;
    EXPECT_FALSE(TakeMapsLine(&maps).has_value()) << cut;
  }
  for (const char* text : {"5000-4000 r-xp 0 08:01 1 /a", "-5000 r-xp 0 08:01 1 /a", "4000-5000 r 0 08:01 1 /a",
                           "4000-11111111111111111 r-xp 0 08:01 1 /a", "4000-5000 r-xp 0 08:01 x /a", "  \n \n"}) {
    std::string_view maps = text;
    EXPECT_FALSE(TakeMapsLine(&maps).has_value()) << text;
    EXPECT_TRUE(maps.empty()) << text;
  }
}

TEST(ParseCodeMappings, TextOfMaps_GivesExecutableFiles) {
  const auto mappings = ParseCodeMappings(
      "00400000-00401000 r--p 00000000 08:01 12 /usr/bin/x\n"
      "00401000-00402000 r-xp 00001000 08:01 12 /usr/bin/x\n"
      "7f0000000000-7f0000001000 r-xp 00000000 00:00 0 \n"
      "7f0000002000-7f0000003000 r-xp 00002000 08:01 13 /lib/a b.so (deleted)\n"
      "7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0 [vdso]\n"
      "nonsense\n"
      "5000-4000 r-xp 00000000 08:01 14 /backwards\n");
  ASSERT_EQ(mappings.size(), 2u);
  EXPECT_EQ(mappings[0].start, 0x401000u);
  EXPECT_EQ(mappings[0].end, 0x402000u);
  EXPECT_EQ(mappings[0].offset, 0x1000u);
  EXPECT_EQ(mappings[0].inode, 12u);
  EXPECT_EQ(mappings[0].path, "/usr/bin/x");
  EXPECT_EQ(mappings[1].path, "/lib/a b.so (deleted)");
}

TEST(ParseMappedFiles, SeveralMappings_FileIsListedOnce) {
  const auto files = ParseMappedFiles(
      "55550000-55560000 r--p 00000000 fe:01 123 /usr/bin/a file\n"
      "55560000-55570000 r-xp 00010000 fe:01 123 /usr/bin/a file\n"
      "7f000000-7f001000 rw-p 00000000 00:00 0 [heap]\n"
      "nonsense\n"
      "7f100000-7f101000 r-xp 00002000 fe:01 9 /lib/b.so");
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].path, "/usr/bin/a file");
  EXPECT_EQ(files[0].start, 0x55550000u);
  EXPECT_EQ(files[1].offset, 0x2000u);
}

TEST(OpenablePath, OwnProgram_IsFoundByItsInode) {
  int error = 0;
  const std::string maps = ReadProcFile("/proc/self/maps", &error);
  struct stat program = {};
  ASSERT_EQ(stat("/proc/self/exe", &program), 0);
  for (const FileMapping& file : ParseMappedFiles(maps)) {
    if (file.inode != program.st_ino) continue;
    EXPECT_EQ(OpenablePath(file, {"/no such file", "/proc", PathInRoot(getpid(), file)}), PathInRoot(getpid(), file));
    EXPECT_EQ(OpenablePath(file, {"/proc/self/exe"}), "/proc/self/exe");
    EXPECT_EQ(OpenablePath(file, {"/proc"}), "");
    return;
  }
  GTEST_SKIP() << "the mappings have other inodes than the files here";
}

}  // namespace
}  // namespace tbprof
