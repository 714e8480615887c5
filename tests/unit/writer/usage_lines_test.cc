// SPDX-License-Identifier: Apache-2.0
//
// CPU usage of threads, from a spool to the timeline. Ticks are nanoseconds.
#include "writer/convert/thread_usage.h"

#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/writer/spool_maker.h"

namespace tbprof {
namespace {

using testing::ElementsAre;

constexpr uint64_t kMs = 1'000'000;

// A process with a main thread, from 1 ms on.
SpoolMaker Program() {
  SpoolMaker spool;
  spool.Session(kMs).Segment(1, {{"read", kFamilyIo, ObjectRole::kDescriptor, ResultRole::kBytes}});
  spool.Process(1, 1, 100, kMs).Thread(1, 1, 1, 100, kMs);
  spool.Chunk(1, 1, 1).Info(ProcessInfoKey::kExecutable, "/bin/program").Span(0, 20 * kMs, 30 * kMs).EndChunk();
  return spool;
}

ThreadUsageRow Row(uint64_t ms, uint64_t cpu_ms, uint64_t delay_ms, uint32_t faults = 0, int32_t tid = 100) {
  return {ms * kMs, cpu_ms * kMs, delay_ms * kMs, tid, faults, 0, 0};
}

Timeline BuildGood(const SpoolMaker& spool, const TimelineRequest& request = {}) {
  auto timeline = spool.Build(request);
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  return timeline.ok() ? *std::move(timeline) : Timeline();
}

// `at: cpu+delay faults`, in milliseconds.
std::vector<std::string> PointsOf(const Timeline& timeline, size_t i = 0) {
  std::vector<std::string> out;
  if (i >= timeline.usage.size()) return out;
  const auto ms = [](int64_t ps) { return std::to_string((ps + 500'000'000) / 1'000'000'000); };
  for (const UsagePoint& point : timeline.usage[i].points) {
    out.push_back(ms(point.at_ps) + ": " + ms(point.cpu_ps) + "+" + ms(point.run_delay_ps) + " " +
                  std::to_string(point.major_faults));
  }
  return out;
}

TEST(ThreadUsage, RowsOfAThread_BecomeItsPoints) {
  SpoolMaker spool = Program();
  spool.ThreadUsage(1, 1, {Row(101, 50, 5), Row(201, 120, 9, 3)}).ThreadUsage(1, 1, {Row(301, 130, 50, 3)});
  const Timeline timeline = BuildGood(spool.End(1000 * kMs));
  EXPECT_THAT(PointsOf(timeline), ElementsAre("100: 50+5 0", "200: 120+9 3", "300: 130+50 3"));
  const ThreadUsage* const usage = timeline.UsageOfThread(timeline.usage.at(0).thread);
  ASSERT_NE(usage, nullptr);
  EXPECT_EQ(timeline.threads[usage->thread].tid, 100);
  EXPECT_EQ(timeline.UsageOfThread(usage->thread + 1), nullptr);
  EXPECT_EQ(timeline.corrupt_records, 0u);
}

// `at+length: kind samples fd`, in milliseconds.
std::vector<std::string> BlockedOf(const Timeline& timeline) {
  std::vector<std::string> out;
  const auto ms = [](int64_t ps) { return std::to_string((ps + 500'000'000) / 1'000'000'000); };
  for (const ThreadBlocked& thread : timeline.blocked) {
    for (const BlockedRun& run : thread.runs) {
      out.push_back(ms(run.first_ps) + "+" + ms(run.last_ps - run.first_ps) + ": " +
                    std::to_string(static_cast<int>(run.kind)) + " " + std::to_string(run.samples) + " " +
                    std::to_string(run.fd));
    }
  }
  return out;
}

TEST(ThreadBlocked, Rows_AreCutToTheWindowAndInOrder) {
  SpoolMaker spool = Program();
  spool.Window(1, WindowEvent::kOpened, 200 * kMs).Window(1, WindowEvent::kClosed, 400 * kMs);
  const auto row = [](uint64_t from, uint64_t to, uint32_t samples, BlockedIn kind, int32_t fd) {
    return ThreadBlockedRow{from * kMs, to * kMs, 100, samples, fd, kind, 0};
  };
  spool.ThreadBlocked(1, 1, {row(300, 310, 2, BlockedIn::kFile, 5), row(50, 90, 5, BlockedIn::kFutex, -1)});
  spool.ThreadBlocked(1, 1, {row(150, 250, 11, BlockedIn::kSleep, -1), row(390, 390, 1, BlockedIn::kPipe, 6)});
  // Invalid rows: unknown kind, end before start, no samples.
  ThreadBlockedRow bad = row(300, 310, 2, BlockedIn::kFile, 5);
  bad.kind = static_cast<BlockedIn>(kBlockedKinds);
  spool.ThreadBlocked(1, 1, {bad, row(310, 300, 2, BlockedIn::kFile, 5), row(300, 310, 0, BlockedIn::kFile, 5)});
  TimelineRequest request;
  request.window = 1;
  const Timeline timeline = BuildGood(spool.End(1000 * kMs), request);
  EXPECT_THAT(BlockedOf(timeline), ElementsAre("0+50: 9 5 -1", "100+10: 2 2 5", "190+0: 3 1 6"));
  ASSERT_EQ(timeline.blocked.size(), 1u);
  EXPECT_NE(timeline.BlockedOfThread(timeline.blocked[0].thread), nullptr);
  EXPECT_EQ(timeline.BlockedOfThread(timeline.blocked[0].thread + 1), nullptr);
  EXPECT_EQ(timeline.corrupt_records, 3u);
}

TEST(BlockedCalls, Rows_HaveTheirCall) {
  SpoolMaker spool = Program();
  BlockedCallRow row = {};
  row.first_ticks = 100 * kMs;
  row.last_ticks = 200 * kMs;
  row.tid = 100;
  row.samples = 11;
  row.fd = -1;
  row.kind = BlockedIn::kFutex;
  row.call = 203;
  row.futex = 0x7f00;
  row.holder = 100;
  row.goes_on = 1;
  spool.BlockedCalls(1, 1, {row});
  const Timeline timeline = BuildGood(spool.End(1000 * kMs));
  EXPECT_THAT(BlockedOf(timeline), ElementsAre("99+100: 6 11 -1"));
  const BlockedRun& run = timeline.blocked.at(0).runs.at(0);
  EXPECT_EQ(run.call, 203);
  EXPECT_EQ(run.futex, 0x7f00u);
  EXPECT_EQ(run.holder, UINT32_MAX) << "the call is not known to be one of a mutex";
  EXPECT_TRUE(run.goes_on);
  EXPECT_EQ(run.site, 0u);
}

TEST(ThreadUsage, RowsBeyondTheWindow_EndAtItsBorders) {
  SpoolMaker spool = Program();
  spool.Window(1, WindowEvent::kOpened, 200 * kMs).Window(1, WindowEvent::kClosed, 400 * kMs);
  spool.ThreadUsage(
      1, 1, {Row(50, 10, 0), Row(100, 20, 0, 1), Row(300, 220, 40, 2), Row(500, 320, 60, 7), Row(900, 420, 60, 7)});
  TimelineRequest request;
  request.window = 1;
  EXPECT_THAT(PointsOf(BuildGood(spool.End(1000 * kMs), request)),
              ElementsAre("0: 120+20 1", "100: 220+40 2", "200: 270+50 2"));
}

// Other ranks are in profiles of their own, but take CPUs from this one.
TEST(ThreadUsage, RowsOfProcessesThatAreNotShown_AreSummed) {
  SpoolMaker spool = Program();
  spool.Window(1, WindowEvent::kOpened, 200 * kMs).Window(1, WindowEvent::kClosed, 400 * kMs);
  spool.ThreadUsage(2, 1, {Row(310, 150, 30), Row(210, 100, 10), Row(500, 900, 90), Row(210, 7, 0, 0, 101)});
  spool.ThreadUsage(2, 2, {Row(100, 0, 0), Row(220, 20, 0), Row(390, 30, 5)});
  // The tid is another thread's by then.
  spool.ThreadUsage(2, 3, {Row(220, 500, 0), Row(390, 3, 5)});
  TimelineRequest request;
  request.window = 1;
  const Timeline timeline = BuildGood(spool.End(1000 * kMs), request);
  EXPECT_TRUE(timeline.usage.empty());
  EXPECT_EQ(timeline.cpu_of_others.cpu_ps, int64_t{60} * 1'000'000'000);
  EXPECT_EQ(timeline.cpu_of_others.run_delay_ps, int64_t{25} * 1'000'000'000);
}

TEST(ThreadUsage, TwoReadersOfAThread_MakeOneLineThatRises) {
  SpoolMaker spool = Program();
  spool.ThreadUsage(1, 1, {Row(101, 50, 5), Row(201, 120, 9)});
  spool.ThreadUsage(1, 1, {Row(101, 50, 5), Row(151, 90, 5), Row(202, 119, 9), Row(251, 130, 9)});
  EXPECT_THAT(PointsOf(BuildGood(spool.End(1000 * kMs))),
              ElementsAre("100: 50+5 0", "150: 90+5 0", "200: 120+9 0", "250: 130+9 0"));
}

TEST(ThreadUsage, RowsOfAnUnknownThread_MakeNoLine) {
  SpoolMaker spool = Program();
  spool.ThreadUsage(1, 1, {Row(101, 50, 5, 0, 777)}).ThreadUsage(1, 9, {Row(101, 50, 5)});
  const Timeline timeline = BuildGood(spool.End(1000 * kMs));
  EXPECT_TRUE(timeline.usage.empty());
  EXPECT_EQ(timeline.threads.size(), 1u);
}

TEST(ThreadUsage, UnknownThreadWithSamples_HasItsPoints) {
  SpoolMaker spool = Program();
  spool.NativeNodes(1, 1, {{1, 0, 0x1000}}).NativeSamples(1, 1, {{100 * kMs, 777, 1, 10'000, 0}});
  spool.ThreadUsage(1, 1, {Row(101, 50, 5, 0, 777)});
  const Timeline timeline = BuildGood(spool.End(1000 * kMs));
  ASSERT_EQ(timeline.usage.size(), 1u);
  EXPECT_EQ(timeline.threads[timeline.usage[0].thread].name, "thread 777");
}

TEST(ThreadUsage, RowsThatCannotBe_AreCounted) {
  SpoolMaker spool = Program();
  spool.ThreadUsage(1, 1, {Row(101, 50, 5, 0, 0), {0, 1, 1, 100, 0, 0, 0}, {UINT64_MAX, 1, 1, 100, 0, 0, 0}});
  spool.Raw(FrameType::kThreadUsage, 1, "short").Raw(FrameType::kCpuLimits, 1, "short");
  spool.ThreadUsage(1, 0, {Row(101, 50, 5)});
  spool.CpuLimits(1, {kMs, 1, -1, -1, 0, 0, 0}).CpuLimits(1, {kMs, 1, 1, 5, 0, 0, 0});
  const Timeline timeline = BuildGood(spool.End(1000 * kMs));
  EXPECT_EQ(timeline.corrupt_records, 8u);
  EXPECT_TRUE(timeline.usage.empty());
}

TEST(ThreadUsage, MorePointsThanTheLimit_AreThinnedEvenly) {
  constexpr uint64_t kRows = 100'000, kPerFrame = 4000;
  SpoolMaker spool = Program();
  for (uint64_t frame = 0; frame < 12 * kRows / kPerFrame; ++frame) {
    std::vector<ThreadUsageRow> rows;
    for (uint64_t i = 0; i < kPerFrame; ++i) {
      const uint64_t at = 10 + 50 * (frame * kPerFrame + i);
      rows.push_back(Row(at, at / 2, at / 4));
    }
    spool.ThreadUsage(1, 1, rows);
  }
  const Timeline timeline = BuildGood(spool.End((12 * kRows * 50 + 1000) * kMs));
  ASSERT_EQ(timeline.usage.size(), 1u);
  const std::vector<UsagePoint>& points = timeline.usage[0].points;
  EXPECT_LE(points.size(), kMostUsagePoints);
  EXPECT_GE(points.size(), kMostUsagePoints / 4);
  int64_t longest = 0;
  for (size_t i = 1; i < points.size(); ++i) longest = std::max(longest, points[i].at_ps - points[i - 1].at_ps);
  EXPECT_LE(longest, 200'000'000'000);
  // The first and the last stay.
  EXPECT_EQ(points.front().cpu_ps, 5'000'000'000);
  EXPECT_EQ(points.back().cpu_ps, static_cast<int64_t>(10 + 50 * (12 * kRows - 1)) / 2 * 1'000'000'000);
}

TEST(ThreadUsage, RandomRows_MakePointsThatRiseWithinTheWindow) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    SpoolMaker spool = Program();
    spool.Window(1, WindowEvent::kOpened, 200 * kMs).Window(1, WindowEvent::kClosed, 400 * kMs);
    const auto number = [&](uint64_t most) { return random() % 8 == 0 ? random() : random() % most; };
    for (int frame = 0; frame < 5; ++frame) {
      std::vector<ThreadUsageRow> rows;
      for (uint64_t i = random() % 30; i > 0; --i) {
        rows.push_back({number(600 * kMs), number(kMs), number(kMs), random() % 3 == 0 ? 777 : 100,
                        static_cast<uint32_t>(number(5)), 0, 0});
      }
      spool.ThreadUsage(1, 1, rows);
      spool.CpuLimits(1, {number(600 * kMs), 1, static_cast<int32_t>(number(5)), static_cast<int64_t>(number(9)) - 2,
                          static_cast<int64_t>(number(9)), static_cast<int64_t>(number(9)) - 1, number(9)});
    }
    TimelineRequest request;
    request.window = round % 2;
    const Timeline timeline = BuildGood(spool.End(1000 * kMs), request);
    EXPECT_GE(timeline.cpu_limits.throttled_ps, -1);
    for (const ThreadUsage& usage : timeline.usage) {
      ASSERT_LT(usage.thread, timeline.threads.size());
      UsagePoint before;
      for (const UsagePoint& point : usage.points) {
        EXPECT_GE(point.at_ps, before.at_ps);
        EXPECT_LE(point.at_ps, timeline.duration_ps);
        EXPECT_GE(point.cpu_ps, before.cpu_ps);
        EXPECT_GE(point.run_delay_ps, before.run_delay_ps);
        EXPECT_GE(point.major_faults, before.major_faults);
        before = point;
      }
    }
  }
}

TEST(CpuLimits, OfTheCommand_AreThoseOfTheWindow) {
  SpoolMaker spool = Program();
  spool.Window(1, WindowEvent::kOpened, 200 * kMs).Window(1, WindowEvent::kClosed, 400 * kMs);
  spool.CpuLimits(1, {10 * kMs, 1, 4, 150'000, 100'000, 1000, 1});
  spool.CpuLimits(1, {190 * kMs, 1, 2, 150'000, 100'000, 3000, 2});
  spool.CpuLimits(1, {300 * kMs, 1, 2, 150'000, 100'000, 3500, 3});
  spool.CpuLimits(1, {410 * kMs, 1, 2, 150'000, 100'000, 4000, 4});
  spool.CpuLimits(1, {900 * kMs, 1, 2, 150'000, 100'000, 9000, 4});
  spool.End(1000 * kMs);
  TimelineRequest request;
  const Timeline whole = BuildGood(spool, request);
  EXPECT_EQ(whole.cpu_limits.cpus_allowed, 2) << "for most of the time";
  EXPECT_EQ(whole.cpu_limits.cpus_before, 4);
  EXPECT_DOUBLE_EQ(whole.cpu_limits.quota_cpus, 1.5);
  EXPECT_EQ(whole.cpu_limits.throttled_ps, 8'000'000'000);
  request.window = 1;
  const Timeline part = BuildGood(spool, request);
  EXPECT_EQ(part.cpu_limits.cpus_allowed, 2);
  EXPECT_EQ(part.cpu_limits.cpus_before, 4);
  EXPECT_EQ(part.cpu_limits.throttled_ps, 1'000'000'000);
}

// They are read when the window has opened, and then now and then.
TEST(CpuLimits, ChangeBeforeACapture_IsThatOfTheCapture) {
  SpoolMaker spool = Program();
  spool.Window(1, WindowEvent::kOpened, 200 * kMs).Window(1, WindowEvent::kClosed, 400 * kMs);
  spool.CpuLimits(1, {10 * kMs, 1, 2, -1, 0, -1, 0});
  spool.CpuLimits(1, {205 * kMs, 1, 1, -1, 0, -1, 0});
  spool.End(1000 * kMs);
  TimelineRequest request;
  request.window = 1;
  const Timeline part = BuildGood(spool, request);
  EXPECT_EQ(part.cpu_limits.cpus_allowed, 1);
  EXPECT_EQ(part.cpu_limits.cpus_before, 2);
}

TEST(CpuLimits, WhatIsNotKnown_IsNotZero) {
  const Timeline nothing = BuildGood(Program().End(1000 * kMs));
  EXPECT_EQ(nothing.cpu_limits.cpus_allowed, 0);
  EXPECT_LT(nothing.cpu_limits.quota_cpus, 0);
  EXPECT_EQ(nothing.cpu_limits.throttled_ps, -1);
  SpoolMaker spool = Program();
  spool.CpuLimits(1, {10 * kMs, 1, 4, -2, 0, -1, 0});
  const Timeline some = BuildGood(spool.End(1000 * kMs));
  EXPECT_EQ(some.cpu_limits.cpus_allowed, 4);
  EXPECT_EQ(some.cpu_limits.cpus_before, 0);
  EXPECT_LT(some.cpu_limits.quota_cpus, 0);
  EXPECT_EQ(some.cpu_limits.throttled_ps, -1);
}

}  // namespace
}  // namespace tbprof
