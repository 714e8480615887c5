// SPDX-License-Identifier: Apache-2.0
//
// The spool: the reader returns all that was written. If the file is damaged, it returns all undamaged frames.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "tests/unit/writer/spool_maker.h"
#include "writer/base/crc32c.h"

namespace tbprof {
namespace {

struct ReadBack {
  struct One {
    FrameType type;
    uint32_t segment;
    std::string payload;
    bool operator==(const One&) const = default;
  };
  std::vector<One> frames;
  uint64_t damaged = 0;
  bool truncated = false;
  bool opened = false;
};

ReadBack Read(const std::string& path, uint64_t limit = 0) {
  ReadBack back;
  auto reader = SpoolReader::Open(path, {limit});
  if (!reader.ok()) return back;
  back.opened = true;
  Frame frame;
  while ((*reader)->Next(&frame)) back.frames.push_back({frame.type, frame.segment, std::string(frame.payload)});
  EXPECT_FALSE((*reader)->Next(&frame)) << "the end stays the end";
  back.damaged = (*reader)->damaged_bytes();
  back.truncated = (*reader)->truncated();
  EXPECT_LE((*reader)->position(), std::max<uint64_t>((*reader)->size(), sizeof(SpoolHeader)));
  return back;
}

ReadBack ReadBytes(const std::string& bytes, uint64_t limit = 0) {
  const TemporaryPath file("spool");
  file.Write(bytes);
  return Read(file.path(), limit);
}

std::string SmallSpool() {
  SpoolMaker spool;
  spool.Session().Segment(1, {{"read"}}).Process(1, 1, 100, 10).Thread(1, 1, 1, 100, 10);
  spool.Chunk(1, 1, 1).Span(0, 20, 5).Span(0, 30, 5).EndChunk().Raw(FrameType::kNote, 0, "odd").End(100);
  return spool.Bytes();
}

// File offsets at which frames end.
std::vector<size_t> Borders(const std::string& bytes) {
  std::vector<size_t> borders = {sizeof(SpoolHeader)};
  while (borders.back() < bytes.size()) {
    FrameHeader header;
    memcpy(&header, &bytes[borders.back()], sizeof(header));
    borders.push_back(borders.back() + sizeof(header) + (header.payload_bytes + 7) / 8 * 8);
  }
  return borders;
}

TEST(Spool, PayloadsOfEachSize_AreReadBack) {
  FrameBuffer buffer(0);
  std::mt19937 random(1);
  std::vector<std::string> payloads;
  for (size_t size = 0; size < 100; ++size) payloads.emplace_back(size, static_cast<char>(size));
  for (const size_t size : {1000u, 65536u, (1u << 20) - 24, 1u << 20, (1u << 20) + 1, 3u << 20, kMaxFramePayload}) {
    std::string payload(size, '\0');
    for (size_t i = 0; i < size; i += 97) payload[i] = static_cast<char>(random());
    payloads.push_back(payload);
  }
  const SpoolHeader header = MakeSpoolHeader();
  for (size_t i = 0; i < payloads.size(); ++i) {
    buffer.Append(FrameType::kNote, static_cast<uint32_t>(i), payloads[i].data(), payloads[i].size());
    EXPECT_EQ(buffer.size() % 8, 0u);
  }
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
  bytes.append(reinterpret_cast<const char*>(buffer.bytes().data()), buffer.size());
  const ReadBack back = ReadBytes(bytes);
  ASSERT_EQ(back.frames.size(), payloads.size());
  for (size_t i = 0; i < payloads.size(); ++i) {
    EXPECT_EQ(back.frames[i].segment, i);
    EXPECT_TRUE(back.frames[i].payload == payloads[i]) << i;
  }
  EXPECT_EQ(back.damaged, 0u);
  EXPECT_FALSE(back.truncated);
}

TEST(Spool, Rewind_ReadsTheSameFrames) {
  const TemporaryPath file("spool");
  file.Write(SmallSpool());
  auto reader = SpoolReader::Open(file.path());
  ASSERT_TRUE(reader.ok());
  Frame frame;
  for (int round = 0; round < 3; ++round) {
    int frames = 0;
    while ((*reader)->Next(&frame)) ++frames;
    EXPECT_EQ(frames, 9);
    EXPECT_EQ((*reader)->position(), (*reader)->size());
    ASSERT_TRUE((*reader)->Rewind().ok());
  }
}

TEST(Spool, TruncatedAtEachByte_WholeFramesAreRead) {
  const std::string whole = SmallSpool();
  const std::vector<size_t> borders = Borders(whole);
  const ReadBack full = ReadBytes(whole);
  ASSERT_EQ(full.frames.size() + 1, borders.size());
  for (size_t length = 0; length < whole.size(); ++length) {
    const ReadBack back = ReadBytes(whole.substr(0, length));
    EXPECT_EQ(back.opened, length >= sizeof(SpoolHeader));
    if (!back.opened) continue;
    size_t expected = 0;
    while (borders[expected + 1] <= length) ++expected;
    ASSERT_EQ(back.frames.size(), expected) << length;
    for (size_t i = 0; i < expected; ++i) EXPECT_EQ(back.frames[i], full.frames[i]);
    EXPECT_EQ(back.truncated, borders[expected] != length) << length;
    EXPECT_EQ(back.damaged, length - borders[expected]) << length;
  }
}

TEST(Spool, SizeLimit_IsATruncation) {
  const std::string whole = SmallSpool();
  const std::vector<size_t> borders = Borders(whole);
  const TemporaryPath file("spool");
  file.Write(whole);
  for (uint64_t limit = 1; limit < whole.size() + 100; ++limit) {
    const ReadBack back = Read(file.path(), limit);
    ASSERT_TRUE(back.opened);
    size_t expected = 0;
    while (expected + 1 < borders.size() && borders[expected + 1] <= limit) ++expected;
    EXPECT_EQ(back.frames.size(), expected) << limit;
  }
  EXPECT_EQ(Read(file.path(), 0).frames.size(), borders.size() - 1);
}

TEST(Spool, FlippedBit_LosesOneFrame) {
  const std::string whole = SmallSpool();
  const std::vector<size_t> borders = Borders(whole);
  const ReadBack full = ReadBytes(whole);
  for (size_t at = sizeof(SpoolHeader); at < whole.size(); ++at) {
    size_t hit = 0;
    while (borders[hit + 1] <= at) ++hit;
    FrameHeader header;
    memcpy(&header, &whole[borders[hit]], sizeof(header));
    const bool padding = at >= borders[hit] + sizeof(header) + header.payload_bytes;
    for (int bit = 0; bit < 8; bit += padding ? 8 : 1) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << bit));
      const ReadBack back = ReadBytes(bytes);
      std::vector<ReadBack::One> expected = full.frames;
      // A changed padding byte behind a payload does no harm.
      if (!padding) expected.erase(expected.begin() + static_cast<ptrdiff_t>(hit));
      ASSERT_TRUE(back.frames == expected) << at << " bit " << bit;
      EXPECT_EQ(back.damaged, padding ? 0 : borders[hit + 1] - borders[hit]) << at << " bit " << bit;
    }
  }
}

TEST(Spool, HolesOfZerosAndNoise_OtherFramesAreRead) {
  std::mt19937 random(9);
  const std::string whole = SmallSpool();
  for (int round = 0; round < 2000; ++round) {
    std::string bytes = whole;
    const size_t from = sizeof(SpoolHeader) + random() % (bytes.size() - sizeof(SpoolHeader));
    const size_t length = 1 + random() % 200;
    for (size_t i = from; i < std::min(bytes.size(), from + length); ++i) {
      bytes[i] = round % 2 == 0 ? 0 : static_cast<char>(random());
    }
    const ReadBack back = ReadBytes(bytes);
    const ReadBack full = ReadBytes(whole);
    // Every frame that does not touch the hole is there.
    const std::vector<size_t> borders = Borders(whole);
    size_t found = 0;
    for (size_t i = 0; i + 1 < borders.size(); ++i) {
      if (borders[i] < from + length && borders[i + 1] > from) {
        if (found < back.frames.size() && back.frames[found] == full.frames[i]) ++found;  // a zero over a zero
        continue;
      }
      ASSERT_LT(found, back.frames.size()) << round;
      ASSERT_TRUE(back.frames[found] == full.frames[i]) << round;
      ++found;
    }
    EXPECT_EQ(found, back.frames.size());
  }
}

TEST(Spool, NoiseBetweenFrames_IsSkipped) {
  const std::string whole = SmallSpool();
  const std::vector<size_t> borders = Borders(whole);
  for (size_t i = 0; i < borders.size(); ++i) {
    for (const size_t size : {8u, 16u, 24u, 4096u, 3u << 20}) {
      std::string bytes = whole;
      bytes.insert(borders[i], std::string(size, '\x5a'));
      const ReadBack back = ReadBytes(bytes);
      EXPECT_EQ(back.frames.size(), borders.size() - 1) << i << " " << size;
      EXPECT_EQ(back.damaged, size) << i << " " << size;
    }
  }
}

// A header with a valid checksum, and a size beyond the limit of a frame or beyond the end of the file.
TEST(Spool, OversizedPayloadLength_IsSkipped) {
  const std::string whole = SmallSpool();
  for (const uint32_t size : {kMaxFramePayload + 1, 0x7fffffffu, 0xfffffff8u, 0xffffffffu}) {
    FrameHeader header{kFrameMagic, FrameType::kNote, 0, 0, size, 0, 0};
    header.header_crc = Crc32c(0, &header, offsetof(FrameHeader, header_crc));
    std::string bytes = whole;
    bytes.insert(sizeof(SpoolHeader), std::string(reinterpret_cast<const char*>(&header), sizeof(header)));
    const ReadBack back = ReadBytes(bytes);
    EXPECT_EQ(back.frames.size(), 9u) << size;
    EXPECT_EQ(back.damaged, sizeof(header)) << size;
  }
}

TEST(Spool, FramesInsideADamagedFrame_AreFound) {
  FrameBuffer inner(0);
  inner.Append(FrameType::kNote, 7, "inner", 5);
  SpoolMaker spool;
  spool.Raw(FrameType::kNote, 1, std::string(reinterpret_cast<const char*>(inner.bytes().data()), inner.size()));
  spool.Raw(FrameType::kNote, 2, "behind");
  std::string bytes = spool.Bytes();
  EXPECT_EQ(ReadBytes(bytes).frames.size(), 2u) << "a payload is not looked into";
  bytes[sizeof(SpoolHeader)] ^= 1;
  const ReadBack back = ReadBytes(bytes);
  ASSERT_EQ(back.frames.size(), 2u);
  EXPECT_EQ(back.frames[0].payload, "inner");
  EXPECT_EQ(back.damaged, sizeof(FrameHeader));
}

TEST(Spool, OtherFiles_AreRefused) {
  EXPECT_FALSE(SpoolReader::Open("/nonexistent/spool").ok());
  EXPECT_FALSE(ReadBytes("").opened);
  EXPECT_FALSE(ReadBytes("TBPSPOL1").opened);
  EXPECT_FALSE(ReadBytes(std::string(4096, '\0')).opened);
  EXPECT_FALSE(ReadBytes(std::string(4096, 'x')).opened);
  std::string other = SmallSpool();
  other[8] = static_cast<char>(kSpoolVersion + 1);
  const TemporaryPath file("spool");
  file.Write(other);
  const auto reader = SpoolReader::Open(file.path());
  ASSERT_FALSE(reader.ok());
  EXPECT_EQ(reader.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(reader.status().message().find("is a spool of version"), std::string::npos) << reader.status();
  EXPECT_FALSE(SpoolReader::Open("/dev/null").ok());
  EXPECT_FALSE(SpoolReader::Open("/dev/zero").ok());
  EXPECT_FALSE(SpoolReader::Open("/tmp").ok());
}

TEST(Spool, HeaderAlone_HasNoFrames) {
  const SpoolHeader header = MakeSpoolHeader();
  const ReadBack back = ReadBytes(std::string(reinterpret_cast<const char*>(&header), sizeof(header)));
  EXPECT_TRUE(back.opened);
  EXPECT_TRUE(back.frames.empty());
  EXPECT_FALSE(back.truncated);
  EXPECT_EQ(back.damaged, 0u);
}

TEST(Spool, Fifo_IsRefusedAtOnce) {
  const TemporaryPath fifo("fifo");
  ASSERT_EQ(mkfifo(fifo.path().c_str(), 0600), 0);
  alarm(20);
  EXPECT_FALSE(SpoolReader::Open(fifo.path()).ok());
  alarm(0);
}

// A reader of a growing file, such as in a capture during a run, reads only whole frames.
TEST(Spool, FileThatGrowsAndShrinks_WholeFramesAreRead) {
  const std::string whole = SmallSpool();
  const TemporaryPath file("spool");
  file.Write(whole);
  auto reader = SpoolReader::Open(file.path());
  ASSERT_TRUE(reader.ok());
  Frame frame;
  ASSERT_TRUE((*reader)->Next(&frame));
  file.Write(whole + whole.substr(sizeof(SpoolHeader)));
  int frames = 1;
  while ((*reader)->Next(&frame)) ++frames;
  EXPECT_EQ(frames, 9) << "as long as it was when it was opened";
  ASSERT_TRUE((*reader)->Rewind().ok());
  ASSERT_EQ(truncate(file.path().c_str(), sizeof(SpoolHeader)), 0);
  EXPECT_FALSE((*reader)->Next(&frame)) << "cut under our hands";
}

TEST(Spool, RandomBytesBehindAHeader_AreSkipped) {
  std::mt19937 random(4);
  const std::string small = SmallSpool();
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = small.substr(0, sizeof(SpoolHeader));
    while (bytes.size() < 2000) {
      if (random() % 3 == 0) {
        const size_t at = sizeof(SpoolHeader) + random() % (small.size() - sizeof(SpoolHeader)) / 8 * 8;
        bytes += small.substr(std::min(at, small.size()), random() % 100);
      } else {
        for (uint32_t i = random() % 50; i > 0; --i) bytes += static_cast<char>(random());
      }
    }
    ReadBytes(bytes);
  }
}

}  // namespace
}  // namespace tbprof
