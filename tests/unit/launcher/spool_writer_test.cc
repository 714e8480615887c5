// SPDX-License-Identifier: Apache-2.0
//
// The spool in parts: which parts are dropped and when, what is kept of them, and full disks.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "launcher/session/spool_writer.h"
#include "tests/unit/writer/spool_maker.h"
#include "writer/spool/spool_facts.h"

namespace tbprof {
namespace {

constexpr uint64_t kSession = 77;
constexpr uint32_t kSpansPerBlock = 100;

// The frames of a spool as the drain passes them to the writer.
FrameBuffer AsDrained(SpoolWriter* writer, const SpoolMaker& maker) {
  const std::string bytes = maker.Bytes().substr(sizeof(SpoolHeader));
  FrameBuffer frames(bytes.size());
  ForEachFrame({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, [&](const FrameHeader& header,
                                                                                   const uint8_t* frame, size_t) {
    const uint8_t* const payload = frame + sizeof(header);
    memcpy(frames.Begin(header.type, header.segment, header.payload_bytes), payload, header.payload_bytes);
    RecordCounts counts;
    ChunkSummary summary;
    const uint16_t flags =
        header.type == FrameType::kChunk ? writer->CountRecords({payload, header.payload_bytes}, &counts, &summary) : 0;
    writer->Add(counts);
    frames.Seal(flags & kFrameFacts);
  });
  return frames;
}

class SpoolWriterTest : public testing::Test {
 protected:
  SpoolWriterTest() : directory_("spool_writer") { mkdir(directory_.path().c_str(), 0700); }
  std::string path() const { return directory_.path() + "/x.spool"; }

  ScopedFd MainFile() const {
    ScopedFd fd(open(path().c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    const SpoolHeader header = MakeSpoolHeader(kSession);
    EXPECT_EQ(write(fd.get(), &header, sizeof(header)), static_cast<ssize_t>(sizeof(header)));
    return fd;
  }
  SpoolPlan Plan() const {
    SpoolPlan plan;
    plan.path = path();
    plan.part_bytes = 64u << 10;
    plan.parts_at_once = true;
    plan.session = kSession;
    return plan;
  }

  // A block as the drain passes it: a name and kSpansPerBlock spans of one tick, drained from `ticks` to ticks + 10.
  static void WriteBlock(SpoolWriter* writer, uint64_t ticks, uint64_t span_ticks = 1) {
    SpoolMaker maker;
    maker.Chunk(1, 1, 1).ThreadName(ticks, "worker");
    // The object is so large that the span needs the longer record.
    for (uint32_t i = 0; i < kSpansPerBlock; ++i) {
      maker.Span(3, ticks, span_ticks, uint64_t{1} << 60, 0, 0, 0x4000 + i % 2);
    }
    maker.EndChunk();
    writer->Write(AsDrained(writer, maker).bytes(), kSpansPerBlock + 1, ticks, ticks + 10);
  }

  struct Contents {
    uint64_t spans = 0, names = 0, total_calls = 0, total_ticks = 0;
    uint32_t totals_drops = 0;
    std::set<uint32_t> parts, begun, dropped;
    std::vector<GapFact> gaps;
    uint64_t damaged = 0;
    uint32_t missing = 0;
  };
  Contents Read(const SpoolExtent& extent = {}) const {
    Contents contents;
    auto reader = SpoolReader::Open(path(), extent);
    EXPECT_TRUE(reader.ok()) << reader.status();
    if (!reader.ok()) return contents;
    Frame frame;
    while ((*reader)->Next(&frame)) {
      PartFact part;
      GapFact gap;
      if (frame.part != 0) contents.parts.insert(frame.part);
      if (frame.type == FrameType::kPart && frame.Read(&part)) contents.begun.insert(part.part);
      if (frame.type == FrameType::kDropped && frame.Read(&part)) contents.dropped.insert(part.part);
      if (frame.type == FrameType::kGap && frame.Read(&gap)) contents.gaps.push_back(gap);
      if (frame.type == FrameType::kTotals) {
        TotalsFact fact;
        EXPECT_TRUE(frame.Read(&fact));
        if (fact.drops < contents.totals_drops) continue;
        contents.totals_drops = fact.drops;
        contents.total_calls = contents.total_ticks = 0;
        for (uint32_t i = 0; i < fact.rows; ++i) {
          TotalRow row;
          memcpy(&row, frame.payload.data() + sizeof(fact) + i * sizeof(row), sizeof(row));
          contents.total_calls += row.calls;
          contents.total_ticks += row.ticks;
        }
      }
      if (frame.type != FrameType::kChunk && frame.type != FrameType::kKept) continue;
      ChunkFact chunk;
      uint64_t corrupt = 0;
      EXPECT_TRUE(ForEachRecord(frame, &chunk, &corrupt, [&](const RecordView& record) {
        if (IsSpan(record.tag.kind)) ++contents.spans;
        if (record.tag.kind == RecordKind::kThreadName && frame.part == 0) ++contents.names;
      }));
      EXPECT_EQ(corrupt, 0u);
    }
    contents.damaged = (*reader)->damaged_bytes();
    contents.missing = (*reader)->missing_parts();
    return contents;
  }
  uint64_t BytesOnDisk() const {
    uint64_t bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator(directory_.path())) bytes += entry.file_size();
    return bytes;
  }

  TemporaryPath directory_;
};

TEST_F(SpoolWriterTest, ShortRun_IsOneFile) {
  SpoolPlan plan = Plan();
  plan.parts_at_once = false;
  SpoolWriter writer(MainFile(), plan);
  for (uint64_t i = 0; i < 5; ++i) WriteBlock(&writer, i * 10);
  EXPECT_TRUE(FindParts(path()).empty());
  const Contents contents = Read();
  EXPECT_EQ(contents.spans, 5 * kSpansPerBlock);
  EXPECT_EQ(contents.names, 5u);
  EXPECT_EQ(writer.spans(), 5 * kSpansPerBlock);
}

TEST_F(SpoolWriterTest, LongRun_ContinuesInParts) {
  SpoolPlan plan = Plan();
  plan.parts_at_once = false;
  plan.long_ticks = 50;
  SpoolWriter writer(MainFile(), plan);
  for (uint64_t i = 0; i < 100; ++i) WriteBlock(&writer, i * 10, i % 2 == 0 ? 49 : 50);
  const Contents contents = Read();
  EXPECT_GT(contents.parts.size(), 5u);
  EXPECT_EQ(contents.spans, 100 * kSpansPerBlock);
  EXPECT_EQ(contents.names, 100u) << "each once in the main file, wherever its chunk is";
  EXPECT_EQ(contents.damaged, 0u);
  EXPECT_EQ(writer.spans(), 100 * kSpansPerBlock);
  EXPECT_EQ(writer.long_spans(), 50 * kSpansPerBlock);
  EXPECT_EQ(writer.total_bytes() + sizeof(SpoolHeader), BytesOnDisk());
  for (const uint32_t part : FindParts(path())) {
    EXPECT_LE(std::filesystem::file_size(PartPath(path(), part)), plan.part_bytes + 20000);
  }
  RemoveSpoolFiles(path());
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
}

TEST_F(SpoolWriterTest, SlidingWindow_LastTicksStayAndRestIsCounted) {
  SpoolWriter writer(MainFile(), Plan());
  Retention retention;
  retention.everything = false;
  retention.totals = true;
  retention.sliding_ticks = 800;
  writer.SetRetention(retention);
  constexpr uint64_t kBlocks = 1000;
  size_t most_parts = 0;
  for (uint64_t i = 0; i < kBlocks; ++i) {
    WriteBlock(&writer, i * 10);
    writer.Tidy(i * 10 + 10);
    most_parts = std::max(most_parts, FindParts(path()).size());
  }
  EXPECT_LE(most_parts, 12u) << "eighths of the window, and the two at its ends";
  const Contents contents = Read();
  EXPECT_EQ(contents.spans + contents.total_calls, kBlocks * kSpansPerBlock);
  EXPECT_EQ(contents.total_ticks, contents.total_calls);
  EXPECT_EQ(contents.totals_drops, contents.dropped.size());
  EXPECT_EQ(contents.names, kBlocks);
  EXPECT_GE(contents.spans, 80u * kSpansPerBlock);
  EXPECT_LE(contents.spans, 110u * kSpansPerBlock);
  EXPECT_EQ(contents.missing, 0u);
  EXPECT_TRUE(contents.gaps.empty());
}

TEST_F(SpoolWriterTest, Range_StaysWhileItIsNeeded) {
  SpoolWriter writer(MainFile(), Plan());
  Retention nothing;
  nothing.everything = false;
  writer.SetRetention(nothing);
  WriteBlock(&writer, 100);
  EXPECT_TRUE(FindParts(path()).empty()) << "wanted by nobody";
  EXPECT_EQ(writer.records_not_kept(), 0u);
  Retention capture = nothing;
  capture.ranges.push_back({200, UINT64_MAX, true});
  writer.SetRetention(capture);
  WriteBlock(&writer, 200);
  WriteBlock(&writer, 300);
  writer.Rotate();
  writer.Tidy(1000);
  const SpoolExtent extent = writer.ExtentOf(200, 310);
  EXPECT_EQ(extent.first_part, 1u);
  EXPECT_EQ(Read(extent).spans, 2 * kSpansPerBlock);
  // A conversion has the extent open, and another capture continues.
  auto reader = SpoolReader::Open(path(), extent);
  ASSERT_TRUE(reader.ok());
  capture.ranges[0].to = 320;
  writer.SetRetention(capture);
  writer.Tidy(2000);
  EXPECT_EQ(FindParts(path()).size(), 1u);
  writer.SetRetention(nothing);
  writer.Tidy(2000);
  EXPECT_TRUE(FindParts(path()).empty());
  const Contents after = Read();
  EXPECT_EQ(after.spans, 0u);
  EXPECT_EQ(after.missing, 0u);
  EXPECT_EQ(after.dropped, std::set<uint32_t>({1}));
  EXPECT_EQ(writer.ExtentOf(200, 310).last_part, 0u);
  // A part that is dropped while a reader has it open is reported as missing, not as a failure.
  Frame frame;
  while ((*reader)->Next(&frame)) {
  }
  EXPECT_EQ((*reader)->missing_parts(), 1u);
}

TEST_F(SpoolWriterTest, OverTheLimit_OldestPartsAreDropped) {
  SpoolPlan plan = Plan();
  plan.limit = 512u << 10;
  SpoolWriter writer(MainFile(), plan);
  Retention retention;
  retention.everything = false;
  retention.totals = true;
  retention.sliding_ticks = 1'000'000'000;
  writer.SetRetention(retention);
  for (uint64_t i = 0; i < 500; ++i) {
    WriteBlock(&writer, i * 10);
    EXPECT_LE(BytesOnDisk(), plan.limit + 16384) << i;
  }
  const Contents contents = Read();
  EXPECT_EQ(contents.spans + contents.total_calls, 500u * kSpansPerBlock);
  EXPECT_GT(contents.dropped.size(), 5u);
  EXPECT_EQ(writer.records_not_kept(), 0u);
}

TEST_F(SpoolWriterTest, OverTheLimitKeepingEverything_BeginningStays) {
  SpoolPlan plan = Plan();
  plan.limit = 512u << 10;
  plan.reserve = 128u << 10;
  SpoolWriter writer(MainFile(), plan);
  for (uint64_t i = 0; i < 200; ++i) WriteBlock(&writer, i * 10);
  const uint64_t stopped = writer.stopped_ticks();
  ASSERT_NE(stopped, UINT64_MAX);
  EXPECT_TRUE(writer.full());
  EXPECT_LE(writer.total_bytes(), plan.limit - plan.reserve + 20000) << "and the facts of what was not kept";
  // Only a capture may use the reserve; the run's own recording does not continue behind its gap.
  Retention capture;
  capture.ranges.push_back({3000, UINT64_MAX, true});
  writer.SetRetention(capture);
  for (uint64_t i = 300; i < 305; ++i) WriteBlock(&writer, i * 10);
  EXPECT_EQ(writer.stopped_ticks(), stopped);
  writer.Finish();
  const Contents contents = Read();
  EXPECT_EQ(contents.spans, (stopped / 10 + 5) * kSpansPerBlock);
  ASSERT_EQ(contents.gaps.size(), 1u);
  EXPECT_EQ(contents.gaps[0].first_ticks, stopped);
  EXPECT_EQ(contents.gaps[0].records, writer.records_not_kept());
  EXPECT_EQ(contents.gaps[0].cause, GapCause::kLimit);
  EXPECT_EQ(writer.records_not_kept() * kSpansPerBlock / (kSpansPerBlock + 1) + contents.spans, 205u * kSpansPerBlock);
}

TEST_F(SpoolWriterTest, SplitRun_Continues) {
  SpoolPlan plan = Plan();
  plan.parts_at_once = false;
  plan.limit = 1024u << 10;
  plan.reserve = 256u << 10;
  plan.split_bytes = 640u << 10;
  plan.split_sliding_ticks = 1'000'000;
  SpoolWriter writer(MainFile(), plan);
  Retention retention;
  retention.totals = true;
  writer.SetRetention(retention);
  constexpr uint64_t kBlocks = 500;
  for (uint64_t i = 0; i < kBlocks; ++i) {
    WriteBlock(&writer, i * 10);
    writer.Tidy(i * 10 + 10);
    EXPECT_LE(BytesOnDisk(), plan.limit + 16384) << i;
  }
  EXPECT_EQ(writer.records_not_kept(), 0u);
  EXPECT_EQ(writer.stopped_ticks(), UINT64_MAX);
  ASSERT_NE(writer.split_ticks(), UINT64_MAX);
  EXPECT_GT(writer.split_ticks(), 500u);
  const Contents contents = Read();
  EXPECT_EQ(contents.spans + contents.total_calls, kBlocks * kSpansPerBlock);
  for (uint32_t part = 1; part < *contents.dropped.begin(); ++part) {
    EXPECT_EQ(contents.parts.count(part), 1u) << "what there was at the split stays";
  }
}

TEST_F(SpoolWriterTest, FullDisk_OldestPartsAreDropped) {
  if (mount("none", directory_.path().c_str(), "tmpfs", 0, "size=1m") != 0) GTEST_SKIP() << "cannot mount";
  {
    SpoolWriter writer(MainFile(), Plan());
    Retention retention;
    retention.everything = false;
    retention.totals = true;
    retention.sliding_ticks = 1'000'000'000;
    writer.SetRetention(retention);
    for (uint64_t i = 0; i < 500; ++i) WriteBlock(&writer, i * 10);
    writer.Finish();
    EXPECT_EQ(writer.write_error(), ENOSPC);
    const Contents contents = Read();
    EXPECT_EQ(contents.damaged, 0u);
    EXPECT_GT(contents.spans, 50u * kSpansPerBlock);
    EXPECT_GT(contents.dropped.size(), 5u);
    // The last block was written: recording goes on.
    EXPECT_EQ(writer.records_not_kept(), 0u);
  }
  EXPECT_EQ(umount2(directory_.path().c_str(), MNT_DETACH), 0);
}

// Wherever a launcher is killed, every span is either in a part or in the totals, never in both.
TEST_F(SpoolWriterTest, KilledWhileDropping_EachSpanCountsOnce) {
  SpoolWriter writer(MainFile(), Plan());
  for (uint64_t i = 0; i < 60; ++i) WriteBlock(&writer, i * 10);
  writer.Rotate();
  // A kill inside Drop: the totals are written, their frame is not.
  const std::vector<uint32_t> parts = FindParts(path());
  ASSERT_GT(parts.size(), 2u);
  const uint64_t main_bytes = std::filesystem::file_size(path());
  std::filesystem::copy_file(PartPath(path(), 1), directory_.path() + "/saved");
  Retention retention;
  retention.everything = false;
  retention.totals = true;
  retention.ranges.push_back({150, UINT64_MAX, true});
  writer.SetRetention(retention);
  writer.Tidy(10000);
  ASSERT_EQ(FindParts(path()).front(), 2u);
  std::filesystem::rename(directory_.path() + "/saved", PartPath(path(), 1));
  SpoolFacts facts;
  const auto read = [&](uint64_t bytes) {
    facts = SpoolFacts();
    auto reader = SpoolReader::Open(path(), {bytes});
    ASSERT_TRUE(reader.ok());
    (void)ReadSpoolFacts(
        reader->get(), 0, [](uint64_t) {}, &facts);  // no session frame here
  };
  const auto calls = [&] {
    uint64_t sum = 0;
    for (const TotalRow& row : facts.totals) sum += row.calls;
    return sum;
  };
  read(main_bytes);
  EXPECT_EQ(calls(), 0u);
  EXPECT_EQ(facts.records, 60u * (kSpansPerBlock + 1));
  // The frame is written, and the file of the part is not yet unlinked.
  read(0);
  EXPECT_GT(calls(), 0u);
  EXPECT_EQ(facts.records / (kSpansPerBlock + 1) * kSpansPerBlock + calls(), 60u * kSpansPerBlock);
}

// No frame follows the records: the launcher was killed, and its last clock pair is one second old.
TEST_F(SpoolWriterTest, KilledWithRecordsInAPart_HaveTheirTime) {
  SpoolWriter writer(MainFile(), Plan());
  SpoolMaker maker;
  maker.Chunk(1, 1, 1).Taken(900);
  AnnotationRecord mark{};
  for (mark.ticks = 100; mark.ticks < 800; mark.ticks += 100) maker.Add(RecordKind::kAnnotation, mark);
  maker.EndChunk().Chunk(1, 1, 2).Taken(5000).Kernel(1, 7, 3, 1000, 2000, 5).EndChunk();
  writer.Write(AsDrained(&writer, maker).bytes(), 8, 100, 5000);
  ASSERT_EQ(FindParts(path()).size(), 1u);
  SpoolFacts facts;
  auto reader = SpoolReader::Open(path());
  ASSERT_TRUE(reader.ok());
  (void)ReadSpoolFacts(
      reader->get(), 0, [](uint64_t) {}, &facts);  // no session frame here
  EXPECT_EQ(facts.last_ticks, 5000u);
  EXPECT_EQ((facts.threads[{1, 1}].spans), 7u);
  EXPECT_EQ((facts.threads[{1, 1}].last_ticks), 700u);
}

// Every GPU record is in a part or in the totals; facts of the GPU stay in the main file.
TEST_F(SpoolWriterTest, GpuRecordsOfDroppedParts_AreCounted) {
  SpoolWriter writer(MainFile(), Plan());
  constexpr uint64_t kBlocks = 40, kKernels = 50;
  for (uint64_t i = 0; i < kBlocks; ++i) {
    SpoolMaker maker;
    maker.Chunk(1, 1, 2);
    if (i == 0) maker.GpuName(GpuNameKind::kKernel, 3, "_Z4gemmv").GpuDevice(1);
    for (uint64_t k = 0; k < kKernels; ++k) {
      const uint64_t at = 1000 * (i * kKernels + k + 1);
      maker.Kernel(1, 7, 3, at, at + 100 + i, 5).Kernel(1, 8, 4, at + 50, at + 150, 6);
      maker.Copy(1, 9, GpuCopyKind::kHostToDevice, 4096, at, at + 20, 7).Api(211, 100, at, 30, 5);
      maker.Api(307, 100, at, 10, 5, true);
      maker.GpuSpan(GpuSpanKind::kSynchronization, 3, at, at + 40)
          .GpuSpan(GpuSpanKind::kSynchronization, 2, at, at + 1)
          .GpuUnified(GpuUnifiedKind::kToDevice, 1, 4096, at, at + 7)
          .GpuUnified(GpuUnifiedKind::kHostFault, kNoDevice, 0x1234, at, 0);
      maker.GpuSpan(GpuSpanKind::kGraph, 0, at + 500, at + 510).Kernel(1, 7, 3, 0, 0, 8).Kernel(1, 7, 3, at, 0, 9);
    }
    maker.EndChunk();
    writer.Write(AsDrained(&writer, maker).bytes(), 10 * kKernels, i * 10, i * 10 + 5);
  }
  writer.Rotate();
  const auto read = [&] {
    GpuTotals kept;
    SpoolFacts facts;
    auto reader = SpoolReader::Open(path());
    EXPECT_TRUE(reader.ok());
    Frame frame;
    while ((*reader)->Next(&frame)) {
      if (frame.type != FrameType::kChunk) continue;
      ChunkFact chunk;
      uint64_t corrupt = 0;
      ForEachRecord(frame, &chunk, &corrupt,
                    [&](const RecordView& record) { kept.Add(frame.segment, chunk.process_serial, record); });
    }
    EXPECT_TRUE((*reader)->Rewind().ok());
    (void)ReadSpoolFacts(
        reader->get(), 0, [](uint64_t) {}, &facts);  // no session frame here
    EXPECT_EQ(facts.gpus.size(), 1u);
    for (const auto& [identity, gpu] : facts.gpus) {
      EXPECT_NE(gpu.Name(GpuNameKind::kKernel, 3), nullptr);
      EXPECT_EQ(gpu.devices.size(), 1u);
    }
    using Numbers = std::array<uint64_t, 6>;
    std::map<std::tuple<GpuTotalKind, uint16_t, uint32_t>, Numbers> sums;
    for (const std::vector<GpuTotalRow>& rows : {kept.Rows(), facts.gpu_totals}) {
      for (const GpuTotalRow& row : rows) {
        Numbers& sum = sums[{row.kind, row.device, row.id}];
        const Numbers more = {row.calls, row.bytes, row.ns, 0, row.untimed, row.unfinished};
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
        sum[3] = std::max(sum[3], row.longest);
      }
    }
    return std::make_pair(sums, facts.gpu_totals.size());
  };
  const auto [before, rows_before] = read();
  EXPECT_EQ(rows_before, 0u);
  ASSERT_EQ(before.size(), 11u);
  const auto& unified = before.at({GpuTotalKind::kUnifiedMemory, 1, 1});
  EXPECT_EQ(unified[1], kBlocks * kKernels * 4096);
  EXPECT_EQ(unified[2], kBlocks * kKernels * 7);
  EXPECT_EQ(before.at({GpuTotalKind::kUnifiedMemory, kNoDevice, 3})[0], kBlocks * kKernels);
  EXPECT_EQ(before.at({GpuTotalKind::kUnifiedMemory, kNoDevice, 3})[1], 0u) << "an instruction is no number of bytes";
  const auto& gemm = before.at({GpuTotalKind::kKernel, 1, 3});
  EXPECT_EQ(gemm[0], 2 * kBlocks * kKernels);
  EXPECT_EQ(gemm[3], 100 + kBlocks - 1);
  EXPECT_EQ(gemm[4], kBlocks * kKernels) << "without time stamps";
  EXPECT_EQ(gemm[5], kBlocks * kKernels) << "without an end";
  EXPECT_EQ(before.at({GpuTotalKind::kCopy, 1, 1})[1], kBlocks * kKernels * 4096);
  EXPECT_EQ(before.at({GpuTotalKind::kWait, 0, 1})[0], kBlocks * kKernels) << "a stream that waits is no thread";
  EXPECT_EQ(before.at({GpuTotalKind::kCall, 0, 307 | 1 << 16})[2], kBlocks * kKernels * 10);
  Retention retention;
  retention.everything = false;
  retention.totals = true;
  retention.ranges.push_back({200, UINT64_MAX, true});
  writer.SetRetention(retention);
  writer.Tidy(10000);
  EXPECT_GT(writer.parts_dropped(), 5u);
  const auto [after, rows_after] = read();
  EXPECT_EQ(rows_after, before.size());
  EXPECT_EQ(after, before);
}

// Device memory is carried over even if nothing else of dropped parts is counted: the flight recorder's memory counter
// begins with the bytes in use.
class DroppedDeviceMemory : public SpoolWriterTest, public testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(WithTotals, DroppedDeviceMemory, testing::Bool());

TEST_P(DroppedDeviceMemory, BytesInUse_AreKept) {
  SpoolWriter writer(MainFile(), Plan());
  constexpr uint64_t kBlocks = 60;
  for (uint64_t i = 0; i < kBlocks; ++i) {
    SpoolMaker maker;
    maker.Chunk(1, 1, 2);
    if (i == 0) maker.GpuName(GpuNameKind::kKernel, 3, "_Z4gemmv").GpuDevice(1);
    maker.GpuMemory(1, GpuMemoryOperation::kAllocation, 0x1000 + i, 4096, 1000 * (i + 1));
    if (i >= 10) maker.GpuMemory(1, GpuMemoryOperation::kRelease, 0x1000 + i - 10, 0, 1000 * (i + 1) + 1);
    maker.GpuMemory(1, GpuMemoryOperation::kAllocation, 0x9000 + i, 4096, 1000 * (i + 1), 2);  // pinned
    for (int k = 0; k < 300; ++k) maker.Kernel(1, 7, 3, 1000 * (i + 1), 1000 * (i + 1) + 100, 5);
    maker.EndChunk();
    writer.Write(AsDrained(&writer, maker).bytes(), 300, i * 10, i * 10 + 5);
  }
  const auto read = [&] {
    SpoolFacts facts;
    auto reader = SpoolReader::Open(path());
    EXPECT_TRUE(reader.ok());
    Frame frame;
    uint64_t corrupt = 0;
    std::vector<std::pair<uint64_t, uint64_t>> changes;
    const auto add = [&](const GpuMemoryRecord& memory) {
      if (memory.memory_kind != 2) changes.emplace_back(memory.time, memory.address);
    };
    while ((*reader)->Next(&frame)) {
      ChunkFact chunk;
      if (frame.type != FrameType::kChunk) continue;
      ForEachRecord(frame, &chunk, &corrupt, [&](const RecordView& record) {
        GpuMemoryRecord memory;
        if (record.tag.kind == RecordKind::kGpuMemory && record.Read(&memory)) add(memory);
      });
    }
    EXPECT_TRUE((*reader)->Rewind().ok());
    (void)ReadSpoolFacts(
        reader->get(), 0, [](uint64_t) {}, &facts);
    for (const GpuMemoryRow& row : facts.gpu_memory) {
      EXPECT_EQ(row.memory.tag.aux, 1);
      add(row.memory);
    }
    std::sort(changes.begin(), changes.end());
    return changes;
  };
  const auto before = read();
  EXPECT_EQ(before.size(), 2 * kBlocks - 10);
  Retention retention;
  retention.everything = false;
  retention.totals = GetParam();
  retention.ranges.push_back({500, UINT64_MAX, true});
  writer.SetRetention(retention);
  writer.Tidy(10000);
  EXPECT_GT(writer.parts_dropped(), 3u);
  EXPECT_EQ(read(), before);
}

// What makes room for facts is read before it is removed.
TEST_F(SpoolWriterTest, FullDisk_DeviceMemoryInUseIsKept) {
  if (mount("none", directory_.path().c_str(), "tmpfs", 0, "size=1m") != 0) GTEST_SKIP() << "cannot mount";
  constexpr uint64_t kBlocks = 400, kInUse = 10;
  {
    SpoolWriter writer(MainFile(), Plan());
    Retention retention;
    retention.everything = false;
    retention.sliding_ticks = 1'000'000'000;
    writer.SetRetention(retention);
    for (uint64_t i = 0; i < kBlocks; ++i) {
      SpoolMaker maker;
      maker.Chunk(1, 1, 2);
      if (i == 0) maker.GpuName(GpuNameKind::kKernel, 3, "_Z4gemmv").GpuDevice(1);
      // Facts fill the disk, too.
      maker.ThreadName(i * 10, std::string(60, 'n'));
      maker.GpuMemory(1, GpuMemoryOperation::kAllocation, 0x1000 + i, 4096, 1000 * (i + 1));
      if (i >= kInUse) {
        maker.GpuMemory(1, GpuMemoryOperation::kRelease, 0x1000 + i - kInUse, 0, 1000 * (i + 1) + 1);
      }
      for (int k = 0; k < 100; ++k) maker.Kernel(1, 7, 3, 1000 * (i + 1), 1000 * (i + 1) + 100, 5);
      maker.EndChunk();
      writer.Write(AsDrained(&writer, maker).bytes(), 100, i * 10, i * 10 + 5);
    }
    writer.Finish();
    EXPECT_EQ(writer.write_error(), ENOSPC);
    EXPECT_GT(writer.parts_dropped(), 5u);
  }
  std::set<uint64_t> in_use;
  const auto take = [&](const GpuMemoryRecord& memory) {
    if (memory.operation == GpuMemoryOperation::kAllocation) in_use.insert(memory.address);
    if (memory.operation == GpuMemoryOperation::kRelease) in_use.erase(memory.address);
  };
  auto reader = SpoolReader::Open(path());
  ASSERT_TRUE(reader.ok());
  SpoolFacts facts;
  (void)ReadSpoolFacts(
      reader->get(), 0, [](uint64_t) {}, &facts);
  for (const GpuMemoryRow& row : facts.gpu_memory) take(row.memory);
  ASSERT_TRUE((*reader)->Rewind().ok());
  Frame frame;
  uint64_t corrupt = 0;
  while ((*reader)->Next(&frame)) {
    ChunkFact chunk;
    if (frame.type != FrameType::kChunk) continue;
    ForEachRecord(frame, &chunk, &corrupt, [&](const RecordView& record) {
      GpuMemoryRecord memory;
      if (record.tag.kind == RecordKind::kGpuMemory && record.Read(&memory)) take(memory);
    });
  }
  EXPECT_EQ(in_use.size(), kInUse);
  EXPECT_EQ(*in_use.rbegin(), 0x1000 + kBlocks - 1);
  EXPECT_EQ(facts.gpu_memory_left_out, 0u);
  EXPECT_EQ(umount2(directory_.path().c_str(), MNT_DETACH), 0);
}

// The oldest memory that is no longer in use is forgotten first, so that the bytes in use stay right.
TEST(GpuTotals, OldDeviceMemory_IsForgotten) {
  GpuTotals totals;
  const auto add = [&](GpuMemoryOperation operation, uint64_t address, uint64_t time) {
    GpuMemoryRecord memory{};
    memory.tag.kind = RecordKind::kGpuMemory;
    memory.time = time;
    memory.address = address;
    memory.bytes = 1;
    memory.operation = operation;
    memory.memory_kind = 3;
    totals.AddMemory(1, 1, RecordView{memory.tag, reinterpret_cast<const uint8_t*>(&memory), sizeof(memory)});
  };
  for (uint64_t i = 0; i < 100; ++i) add(GpuMemoryOperation::kAllocation, 1'000'000 + i, i);
  for (uint64_t i = 0; i < 10 * GpuTotals::kMostMemory; ++i) {
    add(GpuMemoryOperation::kAllocation, i, 1000 + 2 * i);
    add(GpuMemoryOperation::kRelease, i, 1001 + 2 * i);
  }
  EXPECT_LE(totals.memory().size(), GpuTotals::kMostMemory);
  EXPECT_EQ(totals.memory_left_out(), 0u);
  std::set<uint64_t> live;
  for (const GpuMemoryRow& row : totals.memory()) {
    if (row.memory.operation == GpuMemoryOperation::kAllocation) {
      live.insert(row.memory.address);
    } else {
      EXPECT_EQ(live.erase(row.memory.address), 1u);
    }
  }
  EXPECT_EQ(live.size(), 100u);
  for (uint64_t i = 0; i < 2 * GpuTotals::kMostMemory; ++i) add(GpuMemoryOperation::kAllocation, 9'000'000 + i, i);
  EXPECT_GT(totals.memory_left_out(), GpuTotals::kMostMemory);
}

TEST(GpuTotals, ManyKernels_AreSummedAsOthers) {
  GpuTotals totals;
  uint64_t taken = 0;
  for (uint32_t name = 1; name <= 3 * GpuTotals::kMostRows; ++name) {
    GpuKernelRecord kernel{};
    kernel.tag.kind = RecordKind::kGpuKernel;
    kernel.start = 1000 + 10 * name;
    kernel.end = kernel.start + 4;
    kernel.name = name;
    RecordView view{kernel.tag, reinterpret_cast<const uint8_t*>(&kernel), sizeof(kernel)};
    totals.Add(1, 1, view);
    ++taken;
  }
  uint64_t calls = 0, others = 0, busy = 0;
  const std::vector<GpuTotalRow> rows = totals.Rows();
  for (const GpuTotalRow& row : rows) {
    calls += row.calls;
    if (row.kind == GpuTotalKind::kKernel && row.id == 0) others = row.calls;
    if (row.kind == GpuTotalKind::kBusy) busy = row.ns;
  }
  EXPECT_LE(rows.size(), GpuTotals::kMostRows + 2);
  EXPECT_EQ(calls, taken);
  EXPECT_EQ(others, taken - GpuTotals::kMostRows);
  EXPECT_EQ(busy, 4 * taken);
}

TEST_F(SpoolWriterTest, PartOfAnotherSession_IsNotRead) {
  SpoolWriter writer(MainFile(), Plan());
  for (uint64_t i = 0; i < 60; ++i) WriteBlock(&writer, i * 10);
  const Contents whole = Read();
  const std::string second = PartPath(path(), 2);
  SpoolHeader header = MakeSpoolHeader(kSession + 1, 2);
  {
    const ScopedFd fd(open(second.c_str(), O_WRONLY | O_CLOEXEC));
    ASSERT_EQ(pwrite(fd.get(), &header, sizeof(header), 0), static_cast<ssize_t>(sizeof(header)));
  }
  Contents contents = Read();
  EXPECT_EQ(contents.missing, 1u);
  EXPECT_LT(contents.spans, whole.spans);
  EXPECT_GT(contents.spans, 0u);
  // The same for a part that is no regular file, or is truncated within its header. A part that was never begun does no
  // harm.
  unlink(second.c_str());
  ASSERT_EQ(mkfifo(second.c_str(), 0600), 0);
  EXPECT_EQ(Read().missing, 1u);
  unlink(second.c_str());
  ASSERT_EQ(symlink("/dev/zero", second.c_str()), 0);
  EXPECT_EQ(Read().missing, 1u);
  unlink(second.c_str());
  { const ScopedFd fd(open(second.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)); }
  EXPECT_EQ(Read().missing, 1u);
  unlink(second.c_str());
  contents = Read();
  EXPECT_EQ(contents.missing, 1u) << "begun, not dropped, not there";
  { const ScopedFd fd(open((path() + ".abcdef").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)); }
  EXPECT_EQ(Read().spans, contents.spans);
}

}  // namespace
}  // namespace tbprof
