// SPDX-License-Identifier: Apache-2.0
#include "writer/logdir/event_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/unit/writer/event_maker.h"
#include "writer/base/file_window.h"
#include "writer/outputs/xspace_skim.h"

namespace tbprof {
namespace {

using namespace event_maker;

class File {
 public:
  explicit File(const std::string& content) : fd_(memfd_create("events", MFD_CLOEXEC)), size_(content.size()) {
    EXPECT_EQ(write(fd_, content.data(), content.size()), static_cast<ssize_t>(content.size()));
  }
  ~File() { close(fd_); }
  int fd() const { return fd_; }
  uint64_t size() const { return size_; }

 private:
  int fd_;
  uint64_t size_;
};

EventFileFacts Read(const std::string& content, const EventFileLimits& limits = {}) {
  const File file(content);
  return ReadEventFile(file.fd(), file.size(), limits);
}

using End = EventFileFacts::End;

// Bytes written by TensorFlow's writer.
TEST(EventFile, FileOfTensorFlowsWriter_IsRead) {
  const std::string hex = "1800000000000000a37f4b2209000010c15bc0da411a0d627261696e2e4576656e743a32a3e0d0ef";
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  const EventFileFacts facts = Read(bytes);
  EXPECT_EQ(facts.end, End::kClean);
  EXPECT_EQ(facts.records, 1u);
  EXPECT_EQ(facts.versions, 1u);
  EXPECT_DOUBLE_EQ(facts.first_wall, 1795256068.25);
}

TEST(EventFile, TagsStepsAndTimes_AreCounted) {
  std::string file = Version();
  for (uint64_t step = 5; step < 105; ++step) file += Scalar("loss", step, static_cast<double>(step));
  file += Scalar("accuracy", 7, 200);
  const EventFileFacts facts = Read(file);
  EXPECT_EQ(facts.end, End::kClean);
  EXPECT_EQ(facts.end_offset, file.size());
  EXPECT_EQ(facts.records, 102u);
  EXPECT_EQ(facts.summaries, 101u);
  ASSERT_EQ(facts.tags.size(), 2u);
  const TagFacts& loss = facts.tags.at("loss");
  EXPECT_EQ(loss.points, 100u);
  EXPECT_EQ(loss.lowest_step, 5);
  EXPECT_EQ(loss.highest_step, 104);
  EXPECT_FALSE(loss.goes_back);
  EXPECT_EQ(facts.first_value, 5);
  EXPECT_EQ(facts.last_value, 200);
  EXPECT_EQ(facts.first_wall, 1);
}

TEST(EventFile, StepsThatGoBack_AreReported) {
  const EventFileFacts facts = Read(Scalar("a", 1) + Scalar("a", 900) + Scalar("a", 3) + Scalar("a", 2));
  const TagFacts& tag = facts.tags.at("a");
  EXPECT_TRUE(tag.goes_back);
  EXPECT_EQ(tag.back_from, 900);
  EXPECT_EQ(tag.back_to, 3);
}

TEST(EventFile, RecordCutAnywhere_IsTruncated) {
  const std::string whole = Version() + Scalar("a", 1);
  const std::string last = Scalar("a", 2);
  for (size_t cut = 1; cut < last.size(); ++cut) {
    const EventFileFacts facts = Read(whole + last.substr(0, cut));
    EXPECT_EQ(facts.end, End::kTruncated) << cut;
    EXPECT_EQ(facts.end_offset, whole.size()) << cut;
    EXPECT_EQ(facts.records, 2u) << cut;
  }
}

TEST(EventFile, FlippedBit_EndsTheReading) {
  const std::string first = Version();
  const std::string middle = Scalar("a", 1);
  const std::string file = first + middle + Scalar("a", 2);
  for (size_t at = first.size(); at < first.size() + middle.size(); ++at) {
    std::string broken = file;
    broken[at] = static_cast<char>(broken[at] ^ 0x10);
    const EventFileFacts facts = Read(broken);
    EXPECT_EQ(facts.end, End::kCorrupt) << at;
    EXPECT_EQ(facts.end_offset, first.size()) << at;
    EXPECT_FALSE(facts.cause.empty());
    EXPECT_EQ(facts.records, 1u);
  }
}

TEST(EventFile, HostileLengths_AreCorruptOrTruncated) {
  for (const uint64_t length :
       {~uint64_t{0}, ~uint64_t{0} - 12, uint64_t{1} << 63, uint64_t{1} << 40, uint64_t{1} << 31}) {
    std::string file = Raw(length);
    file += Raw(MaskedCrc32c(file));
    const EventFileFacts facts = Read(Version() + file + "some more bytes behind it");
    EXPECT_EQ(facts.end, length > uint64_t{1} << 31 ? End::kCorrupt : End::kTruncated) << length;
    EXPECT_EQ(facts.end_offset, Version().size());
  }
}

TEST(EventFile, RecordThatIsNoEvent_IsCorrupt) {
  for (const std::string& data :
       {std::string("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), std::string("\x07"), Field(5, "\x0a\x7f"),
        std::string("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), std::string("\x09\x01")}) {
    EXPECT_EQ(Read(Version() + Record(data)).end, End::kCorrupt);
  }
  EXPECT_EQ(Read(Record("")).end, End::kClean);  // the empty message
}

TEST(EventFile, KindsOfRecords_AreCounted) {
  EXPECT_EQ(Read(Record(Event(1, 0, Field(4, "graph")))).graphs, 1u);
  EXPECT_EQ(Read(Record(Event(1, 0, Field(9, "meta")))).graphs, 1u);
  EXPECT_EQ(Read(Record(Event(1, 0, Field(5, "")))).summaries, 0u);  // a summary without a value
  EXPECT_FALSE(Read(Version()).HasValues());
  const EventFileFacts bad = Read(Record(Event(std::numeric_limits<double>::quiet_NaN(), 1, Field(5, Value("a")))));
  EXPECT_EQ(bad.bad_times, 1u);
  EXPECT_FALSE(bad.HasValues());
  EXPECT_EQ(bad.end, End::kClean);
}

TEST(EventFile, HugeValue_IsReadInParts) {
  const std::string image(5 << 20, 'x');
  const EventFileFacts facts = Read(Record(Event(3, 4, Field(5, Value("image", Field(4, image))))) + Scalar("b", 1));
  EXPECT_EQ(facts.end, End::kClean);
  EXPECT_EQ(facts.records, 2u);
  EXPECT_EQ(facts.tags.at("image").last_step, 4);
  std::string broken = Record(Event(3, 4, Field(5, Value("image", Field(4, image)))));
  broken[4 << 20] = 'y';
  EXPECT_EQ(Read(broken).end, End::kCorrupt);
}

TEST(EventFile, LargeFile_BothEndsAreRead) {
  std::string file = Version();
  for (uint64_t step = 1; step <= 20000; ++step) file += Scalar("loss", step);
  EventFileLimits limits;
  limits.whole = 64 << 10;
  limits.part = 16 << 10;
  const EventFileFacts facts = Read(file, limits);
  EXPECT_EQ(facts.end, End::kClean);
  EXPECT_EQ(facts.tags.at("loss").first_step, 1);
  EXPECT_EQ(facts.tags.at("loss").last_step, 20000);
  EXPECT_FALSE(facts.tags.at("loss").goes_back);
  EXPECT_GT(facts.bytes_skipped, file.size() / 2);
  EXPECT_LT(facts.bytes_read, file.size() / 2);

  // Both are detected: a truncated end, and a corrupt beginning.
  EXPECT_EQ(Read(file.substr(0, file.size() - 3), limits).end, End::kTruncated);
  std::string broken = file;
  broken[1000] = static_cast<char>(broken[1000] ^ 1);
  EXPECT_EQ(Read(broken, limits).end, End::kCorrupt);
  // The end has no bytes that could be a record.
  std::string noise = file + std::string(64 << 10, 'z');
  EXPECT_EQ(Read(noise, limits).tags.at("loss").first_step, 1);
}

// Each length in the file looks valid, as if a megabyte followed.
TEST(EventFile, SearchForARecord_IsBounded) {
  EventFileLimits limits;
  limits.whole = 1 << 20;
  limits.part = 8 << 20;
  std::string file = Record(Event(3, 4, Field(5, Value("image", Field(4, std::string(9 << 20, 'x'))))));
  std::string header = Raw(uint64_t{1 << 20});
  header += Raw(MaskedCrc32c(header));
  for (size_t at = 0; at < limits.part; at += header.size()) file += header;
  const EventFileFacts facts = Read(file, limits);
  EXPECT_EQ(facts.records, 1u);
  EXPECT_GT(facts.bytes_skipped, limits.part - 100);
  EXPECT_LT(facts.bytes_read, 8 * limits.part);
}

TEST(EventFile, ManyTags_AreBounded) {
  std::string file;
  for (int i = 0; i < 100; ++i) file += Scalar("tag" + std::to_string(i), 1);
  EventFileLimits limits;
  limits.tags = 10;
  const EventFileFacts facts = Read(file, limits);
  EXPECT_EQ(facts.tags.size(), 10u);
  EXPECT_TRUE(facts.tags_cut);
  EXPECT_EQ(Read(Scalar(std::string(10000, 't'), 1)).tags.begin()->first.size(), 256u);
}

TEST(EventFile, UnreadableFile_IsReportedWithItsError) {
  const int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const EventFileFacts facts = ReadEventFile(fd, 1000, EventFileLimits());
  close(fd);
  EXPECT_EQ(facts.end, End::kUnreadable);
  EXPECT_EQ(facts.error, EISDIR);
}

TEST(EventFile, FileName_GivesItsWriter) {
  EXPECT_EQ(EventFileWriter("events.out.tfevents.1700000000.node1.1234.0"), "node1.1234");
  EXPECT_EQ(EventFileWriter("events.out.tfevents.1700000000.node1.1234.0.v2"), "node1.1234");
  EXPECT_EQ(EventFileWriter("events.out.tfevents.1700000000.node1.example.com.1234.0"), "node1.example.com.1234");
  EXPECT_EQ(EventFileWriter("events.out.tfevents.1700000000.10.0.0.1.1234.0"), "10.0.0.1.1234");
  EXPECT_EQ(EventFileWriter("events.out.tfevents.1700000000.node1"), "node1");
  EXPECT_EQ(EventFileWriter("my_tfevents_copy"), "");
  EXPECT_EQ(EventFileWriter("tfevents."), "");
}

// ---- XspaceFacts

XspaceFacts Skim(const std::string& content) {
  const File file(content);
  return SkimXspace(file.fd(), file.size());
}

std::string Named(int field, const std::string& name) { return Field(field, Field(2, Field(2, name))); }

TEST(XspaceSkim, PlanesAndMessages_AreReported) {
  const std::string event = Field(3, Field(2, "thread") + Field(4, "\x08\x01"));
  const XspaceFacts facts = Skim(Plane("/host:CPU", event + event) + Plane("/device:GPU:0", Field(3, "")) +
                                 Field(2, "e1") + Field(2, "e2") + Field(3, "w") + Field(4, "host"));
  EXPECT_TRUE(facts.parsed) << facts.cause;
  EXPECT_EQ(facts.planes, 2u);
  EXPECT_EQ(facts.lines, 3u);
  EXPECT_TRUE(facts.has_events);
  EXPECT_TRUE(facts.has_gpu);
  EXPECT_EQ(facts.errors, (std::vector<std::string>{"e1", "e2"}));
  EXPECT_EQ(facts.warnings, std::vector<std::string>{"w"});
  EXPECT_EQ(facts.hostnames, std::vector<std::string>{"host"});
  EXPECT_FALSE(Skim(Plane("/host:CPU", Field(3, Field(2, "thread")))).has_events);
  EXPECT_TRUE(Skim("").parsed);
}

TEST(XspaceSkim, NamesThatToolsNeed_AreFound) {
  EXPECT_TRUE(Skim(Plane("/host:metadata", Named(5, "Hlo Proto"))).has_hlo);
  EXPECT_FALSE(Skim(Plane("/host:CPU", Named(5, "Hlo Proto"))).has_hlo);
  EXPECT_TRUE(Skim(Plane("/device:TPU:0", Named(5, "counter_value"))).has_counters);
  EXPECT_TRUE(Skim(Plane("/host:CPU", Named(4, "MegaScale: x"))).has_megascale);
  // The name may come last.
  EXPECT_TRUE(Skim(Field(1, Named(5, "Hlo Proto") + Field(2, "/host:metadata"))).has_hlo);
}

TEST(XspaceSkim, CutFile_IsTruncatedAndNoiseIsNot) {
  const std::string whole = Plane("/host:CPU", Field(3, std::string(1000, 'x'))) + Field(2, "error");
  EXPECT_FALSE(Skim(whole.substr(0, 10)).parsed);
  size_t truncated = 0;
  for (size_t cut = 1; cut < whole.size(); ++cut) {
    const XspaceFacts facts = Skim(whole.substr(0, cut));
    truncated += facts.truncated;
    EXPECT_TRUE(facts.parsed || !facts.cause.empty()) << cut;
  }
  EXPECT_GE(truncated, whole.size() - 4);  // except for the border between two fields
  const XspaceFacts noise = Skim(std::string(100, '\xff'));
  EXPECT_FALSE(noise.parsed);
  EXPECT_FALSE(noise.truncated);
  // A length that goes beyond its plane, but not beyond the file.
  const XspaceFacts inner = Skim(Field(1, "\x12\x7fx") + Field(2, std::string(300, 'e')));
  EXPECT_FALSE(inner.parsed);
  EXPECT_FALSE(inner.truncated);
}

TEST(XspaceSkim, ManyFields_AreBounded) {
  std::string fields;
  for (int i = 0; i < 2'000'000; ++i) fields += std::string("\x12\x00", 2);
  const XspaceFacts facts = Skim(fields);
  EXPECT_TRUE(facts.cut);
  EXPECT_TRUE(facts.parsed);
  EXPECT_LE(facts.errors.size(), 16u);
}

TEST(FieldReader, CutMessage_BeginningIsReturned) {
  const std::string message = Field(1, "tag") + Field(8, std::string(100, 'x'));
  FieldReader reader(std::string_view(message).substr(0, 20), message.size());
  ASSERT_TRUE(reader.Next());
  EXPECT_EQ(reader.bytes(), "tag");
  ASSERT_TRUE(reader.Next());
  EXPECT_EQ(reader.length(), 100u);
  EXPECT_EQ(reader.bytes().size(), 13u);
  EXPECT_FALSE(reader.Next());
  EXPECT_FALSE(reader.malformed());
}

}  // namespace
}  // namespace tbprof
