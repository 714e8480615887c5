// SPDX-License-Identifier: Apache-2.0
//
// The memory of processes as the kernel counts it, from a spool to sentences. Ticks are nanoseconds.
#include "writer/convert/resident_memory.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/writer/spool_maker.h"
#include "writer/outputs/memory_text.h"

namespace tbprof {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint64_t kMs = 1'000'000, kMiB = 1 << 20;

SpoolMaker Program() {
  SpoolMaker spool;
  spool.Session(kMs).Segment(1, {{"read", kFamilyIo, ObjectRole::kDescriptor, ResultRole::kBytes}});
  spool.Process(1, 1, 100, 2 * kMs).Thread(1, 1, 1, 100, 2 * kMs);
  spool.Chunk(1, 1, 1).Info(ProcessInfoKey::kExecutable, "/bin/program").Span(0, 20 * kMs, 30 * kMs).EndChunk();
  return spool;
}

Timeline BuildGood(const SpoolMaker& spool) {
  auto timeline = spool.Build({});
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  return timeline.ok() ? *std::move(timeline) : Timeline();
}

// In MiB; 100 MiB of files are resident besides.
ResidentRow Row(uint64_t ms, uint64_t anonymous, uint64_t shared = 0) {
  return {ms * kMs, anonymous * kMiB, 100 * kMiB, shared * kMiB, 0, (anonymous + shared + 100) * kMiB};
}

// For twenty seconds, every 100 ms; with a heap of 1 MiB, or of what `heap` says.
template <typename Level, typename Heap>
Timeline Recorded(Level&& level, Heap&& heap) {
  SpoolMaker spool = Program();
  for (uint64_t i = 0; i < 200; ++i) {
    if (const int64_t bytes = heap(i); bytes > 0) spool.Counters(1, 1, 40 * kMs + i * 100 * kMs, bytes);
  }
  std::vector<ResidentRow> rows;
  for (uint64_t i = 0; i < 200; ++i) rows.push_back(level(i));
  spool.Resident(1, 1, rows);
  return BuildGood(spool.End(20'100 * kMs));
}
template <typename Level>
Timeline Recorded(Level&& level) {
  return Recorded(level, [](uint64_t) { return int64_t{1 << 20}; });
}

TEST(ResidentMemory, Rows_BecomePointsAPeakAndATrack) {
  SpoolMaker spool = Program();
  spool.Resident(1, 1, {Row(101, 50), Row(201, 300, 30)}).Resident(1, 1, {Row(301, 200)});
  const Timeline timeline = BuildGood(spool.End(1000 * kMs));
  const ResidentMemory& resident = timeline.processes.at(0).resident;
  ASSERT_EQ(resident.points.size(), 3u);
  EXPECT_EQ(resident.peak_bytes, static_cast<int64_t>(430 * kMiB));
  EXPECT_EQ(resident.highest.own_bytes(), static_cast<int64_t>(330 * kMiB));
  EXPECT_EQ(resident.highest.at_ps, 200'000'000'000);
  EXPECT_EQ(resident.grows, std::nullopt) << "three readings in a second are no evidence";
  ASSERT_EQ(timeline.counters.size(), 1u);
  EXPECT_EQ(timeline.counters[0].name, kResidentTrack);
  EXPECT_EQ(timeline.counters[0].samples[1].value, 430.0 * kMiB) << "files included, as top shows it";
}

TEST(ResidentMemory, GrowthThatNoHeapExplains_IsNamed) {
  const MemoryText text = MemoryOf(Recorded([](uint64_t i) { return Row(50 + i * 100, 50 + 2 * i); }));
  ASSERT_EQ(text.growth.size(), 2u);
  EXPECT_THAT(text.growth[0], HasSubstr("resident memory grows by 3"));
  EXPECT_THAT(text.growth[0], HasSubstr(" beyond the heap"));
  EXPECT_THAT(text.growth[1], HasSubstr("mmap, stacks"));
  ASSERT_EQ(text.levels.size(), 2u) << "the heap's peak comes first";
  EXPECT_THAT(text.levels[1], HasSubstr("448 MiB resident at 19.9 s, 447 MiB of it beyond the heap"));
}

// A replay buffer: a block is allocated, and written in the course of the program.
TEST(ResidentMemory, BlockThatIsWrittenLater_DoesNotGrowBeyondTheHeap) {
  const Timeline timeline =
      Recorded([](uint64_t i) { return Row(50 + i * 100, 50 + i); }, [](uint64_t) { return int64_t{400} << 20; });
  const MemoryText text = MemoryOf(timeline);
  EXPECT_THAT(text.growth, IsEmpty());
  EXPECT_EQ(text.levels.size(), 1u) << text.levels.back();
  EXPECT_EQ(timeline.processes.at(0).resident.grows, true) << "the kernel gives it memory all the same";
}

TEST(ResidentMemory, LargeBlockThatTheKernelTakesBackSlowly_IsNotBeyondTheHeap) {
  const MemoryText text = MemoryOf(Recorded([](uint64_t i) { return Row(50 + i * 100, i < 105 ? 450 : 50); },
                                            [](uint64_t i) { return int64_t{i < 100 ? 400 : 1} << 20; }));
  EXPECT_EQ(text.levels.size(), 1u) << text.levels.back();
}

TEST(ResidentMemory, LateGrowthWithoutSteps_IsAnotherPartOfTheWork) {
  const Timeline timeline = Recorded([](uint64_t i) { return Row(50 + i * 100, 50 + (i < 120 ? 0 : i - 120)); });
  EXPECT_EQ(timeline.processes.at(0).resident.grows, std::nullopt);
  EXPECT_THAT(MemoryOf(timeline).growth, IsEmpty());
}

TEST(ResidentMemory, HeapThatIsNotRecorded_ExplainsNothing) {
  const MemoryText text =
      MemoryOf(Recorded([](uint64_t i) { return Row(50 + i * 100, 50 + i); }, [](uint64_t) { return int64_t{0}; }));
  EXPECT_THAT(text.growth, IsEmpty());
  EXPECT_THAT(text.levels, IsEmpty());
}

TEST(ResidentMemory, GrowthOfSharedMemory_IsCalledThat) {
  const MemoryText text = MemoryOf(Recorded([](uint64_t i) { return Row(50 + i * 100, 50, i); }));
  ASSERT_EQ(text.growth.size(), 2u);
  EXPECT_THAT(text.growth[1], HasSubstr("shared memory"));
}

TEST(ResidentMemory, MemoryThatStays_IsNoGrowth) {
  const MemoryText text = MemoryOf(Recorded([](uint64_t i) { return Row(50 + i * 100, 50 + i % 7); }));
  EXPECT_THAT(text.growth, IsEmpty());
  EXPECT_EQ(text.levels.size(), 1u) << "56 MiB beyond the heap are what many programs have";
}

TEST(ResidentMemory, RowsThatCannotBe_AreCounted) {
  SpoolMaker spool = Program();
  ResidentRow huge = Row(101, 1), untimed = Row(101, 1);
  huge.shared_bytes = UINT64_MAX;
  untimed.ticks = 0;
  spool.Resident(1, 1, {huge, untimed}).Raw(FrameType::kResidentMemory, 1, "short");
  const Timeline timeline = BuildGood(spool.End(1000 * kMs));
  EXPECT_EQ(timeline.corrupt_records, 3u);
  EXPECT_THAT(timeline.processes.at(0).resident.points, IsEmpty());
}

TEST(ResidentMemory, OfSeveralRanks_TheOneThatGrowsIsNamed) {
  Timeline timeline;
  timeline.by_rank.resize(3);
  for (int rank = 0; rank < 3; ++rank) {
    RankReport& report = timeline.by_rank[static_cast<size_t>(rank)];
    report.rank = rank;
    report.heap_peak_bytes = 100 - rank;
    report.memory = {"peak " + std::to_string(rank)};
  }
  EXPECT_THAT(MemoryOfRanks(timeline).levels, ElementsAre("rank 0: peak 0"));
  timeline.by_rank[1].memory_growth = {"grows by 1 MiB a step"};
  EXPECT_THAT(MemoryOfRanks(timeline).growth, ElementsAre("rank 1: grows by 1 MiB a step"));
  EXPECT_THAT(MemoryOfRanks(timeline).levels, ElementsAre("rank 1: peak 1"));
}

}  // namespace
}  // namespace tbprof
