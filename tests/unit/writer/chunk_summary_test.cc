// SPDX-License-Identifier: Apache-2.0
// Summaries of chunks give the same facts as the chunks themselves, and damage to skipped chunks is still detected.
#include "writer/spool/chunk_summary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "spool_maker.h"
#include "writer/spool/spool_facts.h"

namespace tbprof {
namespace {

constexpr uint16_t kExecve = 2;
const std::vector<OperationRow> kRows = {{"read"}, {"sem_timedwait", kFamilyLock}, {"execve", kFamilyProcess}};

SpoolMaker One() {
  SpoolMaker spool;
  spool.Session().Segment(1, kRows).Process(1, 1, 100, 500).Thread(1, 1, 1, 100, 500);
  return spool;
}

// A record of any kind.
void AddRecord(std::mt19937* random, SpoolMaker* spool) {
  const auto up = [random](uint32_t limit) { return (*random)() % limit; };
  const uint64_t at = 1000 + up(100'000);
  switch (up(40)) {
    case 0:
      spool->ThreadStart(at, 7, 1, at - 5);
      break;
    case 1:
      spool->ThreadName(at, "worker");
      break;
    case 2:
      spool->Add(RecordKind::kPad, PadRecord{});
      break;
    case 3: {
      ChunkBeginRecord begin{};
      begin.pid = begin.tid = static_cast<int32_t>(1 + up(9));
      begin.ticks = at;
      spool->Add(RecordKind::kChunkBegin, begin);
      break;
    }
    case 4:
      spool->Span(kExecve, at, 5, 0, -1, ENOENT);
      break;
    case 5:
      spool->Add(static_cast<RecordKind>(200), PadRecord{});
      break;
    case 6:
      spool->Add(RecordKind::kGpuKernel, PadRecord{});  // too short
      break;
    case 7:
      spool->GpuClock(at, at);
      break;
    case 8:
      spool->GpuName(GpuNameKind::kKernel, 3, "gemm");
      break;
    case 9:
      spool->Span(0, UINT64_MAX - 3, 100);  // ends before it begins
      break;
    case 10:
      spool->Span(0, uint64_t{1} << 60, 5);  // corrupt
      break;
    case 11:
      spool->Span(static_cast<uint16_t>(60'000 + up(9)), at, 5, 0, -1, 1);
      break;
    case 12:
    case 13:
      spool->Sample(at, 512, 0x4000);
      break;
    case 14:
    case 15:
      spool->Add(RecordKind::kAllocation, AllocationRecord{});
      break;
    case 16:
    case 17: {
      TensorMemoryRecord report{};
      report.ticks = at;
      spool->Add(RecordKind::kTensorMemory, report);
      break;
    }
    case 18:
      spool->GraphNode(at, 7);
      break;
    case 19:
      spool->Kernel(1, 7, 3, at, at + 9, 5).Copy(1, 9, GpuCopyKind::kHostToDevice, 4096, at, at + 20, 7);
      break;
    case 20:
      spool->Api(211, 100, at, 30, 5).GpuSpan(GpuSpanKind::kSynchronization, 3, at, at + 40);
      break;
    case 21:
      spool->GpuMemory(1, GpuMemoryOperation::kAllocation, 0x9000, 4096, at, 2)
          .GpuUnified(GpuUnifiedKind::kToDevice, 1, 4096, at, at + 7);
      break;
    case 22:
    case 23:
    case 24: {
      AnnotationRecord range{};
      range.ticks = at;
      spool->Add(RecordKind::kAnnotation, range);
      break;
    }
    default:
      spool->Span(static_cast<uint16_t>(up(2)), at, up(500), up(3) == 0 ? uint64_t{1} << 60 : 5, up(2) == 0 ? -1 : 3,
                  up(3) == 0 ? ETIMEDOUT : 0);
  }
}

// All facts of chunks, in a fixed order.
std::string TextOf(const SpoolFacts& facts) {
  std::string text = "records " + std::to_string(facts.records) + " corrupt " + std::to_string(facts.corrupt_records) +
                     " unknown " + std::to_string(facts.unknown_records) + " lost " +
                     std::to_string(facts.lost_records) + " last " + std::to_string(facts.last_ticks) + "\n";
  const auto add = [&text](const char* what, const auto&... values) {
    text += what;
    ((text += " " + std::to_string(values)), ...);
    text += "\n";
  };
  for (const auto& [identity, thread] : facts.threads) {
    add("thread", identity.segment, identity.serial, thread.process_serial, thread.tid, thread.start_ticks,
        thread.last_ticks, thread.spans);
  }
  for (const auto& [identity, process] : facts.processes) {
    add("process", identity.segment, identity.serial, process.pid, process.start_ticks);
  }
  for (const auto& [identity, gpu] : facts.gpus) add("gpu", identity.segment, identity.serial);
  for (const auto& [number, segment] : facts.segments) add("segment", number, segment.chunks_used, segment.slots);
  for (const ExecReturn& exec : facts.exec_returns) add("exec", exec.thread.serial, exec.ticks);
  return text;
}

SpoolFacts Facts(const std::string& bytes, bool pass_over) {
  const TemporaryPath file("spool");
  file.Write(bytes);
  SpoolFacts facts;
  auto reader = SpoolReader::Open(file.path());
  EXPECT_TRUE(reader.ok());
  EXPECT_TRUE(ReadSpoolFacts(
                  reader->get(), 0, [](uint64_t) {}, &facts, pass_over)
                  .ok());
  return facts;
}

size_t PassedOver(const std::string& bytes) {
  const TemporaryPath file("spool");
  file.Write(bytes);
  auto reader = SpoolReader::Open(file.path());
  EXPECT_TRUE(reader.ok());
  (*reader)->PassOver([](uint32_t, const ChunkSummary&) { return true; });
  Frame frame;
  size_t passed = 0;
  while ((*reader)->Next(&frame)) passed += frame.summary != nullptr;
  return passed;
}

TEST(ChunkSummary, RandomChunks_FactsEqualThoseOfTheRecords) {
  size_t passed = 0;
  for (uint32_t seed = 0; seed < 600; ++seed) {
    std::mt19937 random(seed);
    SpoolMaker spool = One();
    for (uint32_t chunk = 0; chunk < 20; ++chunk) {
      spool.Chunk(1, 1 + chunk % 2, 1 + chunk % 3, chunk % 5 == 0 ? 2 : 0).Taken(200'000);
      for (uint32_t records = random() % (chunk % 4 == 0 ? 3000 : 12); records > 0; --records) {
        if (chunk % 2 == 0) {
          spool.Span(1, 1000 + records, 5, 7, -1, ETIMEDOUT);
        } else {
          AddRecord(&random, &spool);
        }
      }
      spool.EndChunk();
    }
    const std::string bytes = spool.Bytes();
    ASSERT_EQ(TextOf(Facts(bytes, true)), TextOf(Facts(bytes, false))) << seed;
    passed += PassedOver(bytes);
  }
  EXPECT_GT(passed, 600u * 10);
}

TEST(ChunkSummary, FailedExec_ChunkIsReadWhole) {
  SpoolMaker spool = One();
  spool.Chunk(1, 1, 1).Span(kExecve, 2000, 5, 0, -1, ENOENT).EndChunk();
  EXPECT_EQ(PassedOver(spool.Bytes()), 1u);
  ASSERT_EQ(Facts(spool.Bytes(), true).exec_returns.size(), 1u);
}

// Damages each byte of a skipped frame, and bytes behind it.
TEST(ChunkSummary, DamageInASkippedFrame_IsDetected) {
  SpoolMaker spool = One();
  const size_t begin = spool.Bytes().size();
  spool.Chunk(1, 1, 1);
  for (uint64_t i = 0; i < 20; ++i) spool.Span(0, 2000 + 10 * i, 5);
  spool.EndChunk();
  const size_t end = spool.Bytes().size();
  spool.Chunk(1, 1, 1).Span(0, 3000, 5).EndChunk().End(4000);
  const std::string bytes = spool.Bytes();
  const auto build = [](const std::string& file_bytes) {
    const TemporaryPath file("spool");
    file.Write(file_bytes);
    TimelineRequest request;
    request.spool = file.path();
    return BuildTimeline(request, [](uint64_t, uint64_t) {});
  };
  ASSERT_EQ(build(bytes)->records, 21u);
  for (size_t at = begin; at < end; ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    const auto timeline = build(damaged);
    ASSERT_TRUE(timeline.ok());
    EXPECT_EQ(timeline->records, 1u) << at;
    EXPECT_TRUE(std::ranges::any_of(timeline->warnings, [](const std::string& warning) {
      return warning.find("bytes of the spool are unreadable") != std::string::npos;
    })) << at;
  }
  for (size_t size = begin; size <= end; ++size) {
    const auto timeline = build(bytes.substr(0, size));
    ASSERT_TRUE(timeline.ok());
    EXPECT_EQ(timeline->records, size == end ? 20u : 0u) << size;
  }
}

}  // namespace
}  // namespace tbprof
