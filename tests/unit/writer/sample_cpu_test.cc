// SPDX-License-Identifier: Apache-2.0
//
// Samples show whether a thread ran; the kernel's counts show how long it ran.
#include "writer/convert/sample_cpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tbprof {
namespace {

constexpr int64_t kMs = 1'000'000'000;  // picoseconds

// Samples 10 ms apart, the thread ran in `on_cpu` of them.
PythonRun MakeRun(int64_t from_ms, uint32_t samples, uint32_t stack, uint32_t on_cpu) {
  PythonRun run;
  run.from_ps = run.first_ps = from_ms * kMs;
  run.to_ps = (from_ms + 10 * samples) * kMs;
  run.last_ps = run.to_ps - 10 * kMs;
  run.period_ps = 10 * kMs;
  run.stack = stack;
  run.samples = samples;
  run.on_cpu = on_cpu;
  run.cpu_ps = run.period_ps * on_cpu;
  return run;
}

Timeline Make(const std::vector<PythonRun>& runs, const std::vector<UsagePoint>& points) {
  Timeline timeline;
  PythonThread& thread = timeline.python.threads.emplace_back();
  thread.thread = 3;
  thread.runs = runs;
  for (const PythonRun& run : runs) {
    PythonTally tally;
    tally.stack = run.stack;
    tally.samples = run.samples;
    tally.on_cpu = run.on_cpu;
    tally.wall_ps = run.to_ps - run.from_ps;
    tally.on_cpu_ps = run.cpu_ps;
    thread.tallies.push_back(tally);
  }
  if (!points.empty()) timeline.usage = {{3, points}};
  MeasureCpuOfSamples(&timeline);
  return timeline;
}

int64_t CpuMs(const Timeline& timeline, size_t run) { return timeline.python.threads[0].runs[run].cpu_ps / kMs; }
int64_t TallyMs(const Timeline& timeline, size_t tally) {
  return timeline.python.threads[0].tallies[tally].on_cpu_ps / kMs;
}

TEST(MeasureCpuOfSamples, ThreadThatWakesForAMoment_HasWhatTheKernelCounted) {
  // The thread ran in each sample, but only for 30 ms in one second.
  const Timeline timeline = Make({MakeRun(0, 100, 1, 100)}, {{0, 0}, {500 * kMs, 15 * kMs}, {1000 * kMs, 30 * kMs}});
  EXPECT_EQ(CpuMs(timeline, 0), 30);
  EXPECT_EQ(TallyMs(timeline, 0), 30);
}

TEST(MeasureCpuOfSamples, RunInWhichItDidNotRun_HasNone) {
  const Timeline timeline =
      Make({MakeRun(0, 10, 1, 0), MakeRun(100, 10, 2, 10)}, {{0, 50 * kMs}, {200 * kMs, 130 * kMs}});
  EXPECT_EQ(CpuMs(timeline, 0), 0);
  EXPECT_EQ(CpuMs(timeline, 1), 80);
}

TEST(MeasureCpuOfSamples, OutsideOfThePoints_SamplesCount) {
  const Timeline timeline = Make({MakeRun(0, 20, 1, 20)}, {{0, 0}, {100 * kMs, 40 * kMs}});
  EXPECT_EQ(CpuMs(timeline, 0), 140) << "40 by the kernel, and ten samples behind the last point";
  EXPECT_EQ(CpuMs(Make({MakeRun(0, 20, 1, 20)}, {}), 0), 200) << "nothing is known of the thread";
}

TEST(MeasureCpuOfSamples, UnequalDistances_LoseNothing) {
  std::vector<PythonRun> runs;
  for (const int64_t length_ms : {5, 15, 8, 12, 11, 9, 14, 6, 10, 10}) {
    const int64_t from_ps = runs.empty() ? 0 : runs.back().to_ps;
    PythonRun run = MakeRun(0, 1, static_cast<uint32_t>(runs.size() + 1), 1);
    run.from_ps = from_ps;
    run.to_ps = from_ps + length_ms * kMs;
    run.cpu_ps = length_ms * kMs;
    runs.push_back(run);
  }
  const Timeline timeline = Make(runs, {{0, 0}, {50 * kMs, 50 * kMs}, {100 * kMs, 100 * kMs}});
  int64_t cpu_ms = 0, tallies_ms = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    cpu_ms += CpuMs(timeline, i);
    tallies_ms += TallyMs(timeline, i);
  }
  EXPECT_EQ(cpu_ms, 100);
  EXPECT_EQ(tallies_ms, 100);
}

TEST(MeasureCpuOfSamples, MoreThanTheTime_IsTheTime) {
  const Timeline timeline = Make({MakeRun(0, 5, 1, 5), MakeRun(50, 5, 2, 1)}, {{0, 0}, {100 * kMs, 100 * kMs}});
  EXPECT_EQ(CpuMs(timeline, 0), 50);
  EXPECT_LE(CpuMs(timeline, 1), 50);
  EXPECT_LE(TallyMs(timeline, 0), 50);
}

// A loop that computes for 10 ms and sleeps for 10 ms: when a sample is taken in the sleep, the thread has run since
// the sample before.
Timeline MakeLoop(bool samples_of_work) {
  Timeline timeline;
  timeline.threads.resize(4);
  EventType& sleep = timeline.types.emplace_back();
  sleep.name = "nanosleep";
  sleep.family = EventFamily::kSleep;
  PythonThread& thread = timeline.python.threads.emplace_back();
  thread.thread = 3;
  std::vector<UsagePoint> points = {{0, 0}};
  for (int64_t ms = 0; ms < 1000; ms += 20) {
    Event& event = timeline.threads[3].events.emplace_back();
    event.start_ps = (ms + 10) * kMs;
    event.duration_ps = 10 * kMs;
    thread.runs.push_back(MakeRun(ms, 1, samples_of_work ? 1 : 2, 1));
    thread.runs.push_back(MakeRun(ms + 10, 1, 2, 1));
    thread.runs[thread.runs.size() - 2].first_ps += (samples_of_work ? 5 : 15) * kMs;
    thread.runs.back().first_ps += 5 * kMs;
    for (PythonRun& run : thread.runs) run.last_ps = run.first_ps;
    points.push_back({(ms + 20) * kMs, (ms + 20) / 2 * kMs});
  }
  timeline.usage = {{3, points}};
  MeasureCpuOfSamples(&timeline);
  return timeline;
}

int64_t CpuOfStackMs(const Timeline& timeline, uint32_t stack) {
  int64_t cpu_ps = 0;
  for (const PythonRun& run : timeline.python.threads[0].runs) cpu_ps += run.stack == stack ? run.cpu_ps : 0;
  return cpu_ps / kMs;
}

TEST(MeasureCpuOfSamples, SleepsBetweenWork_HaveNone) {
  const Timeline timeline = MakeLoop(/*samples_of_work=*/true);
  EXPECT_EQ(CpuOfStackMs(timeline, 1), 500);
  EXPECT_EQ(CpuOfStackMs(timeline, 2), 0);
}

TEST(MeasureCpuOfSamples, SleepsAlone_LoseNothing) {
  EXPECT_EQ(CpuOfStackMs(MakeLoop(/*samples_of_work=*/false), 2), 500);
}

TEST(MeasureCpuOfSamples, WindowWithSamplesOfSleepOnly_BelongsToTheNext) {
  Timeline timeline;
  timeline.threads.resize(4);
  timeline.types.emplace_back().family = EventFamily::kSleep;
  Event& event = timeline.threads[3].events.emplace_back();
  event.start_ps = 10 * kMs;
  event.duration_ps = 40 * kMs;
  PythonThread& thread = timeline.python.threads.emplace_back();
  thread.thread = 3;
  thread.runs = {MakeRun(0, 5, 1, 1), MakeRun(50, 5, 2, 5)};
  thread.runs[0].first_ps = 20 * kMs;
  timeline.usage = {{3, {{0, 0}, {50 * kMs, 10 * kMs}, {100 * kMs, 30 * kMs}}}};
  MeasureCpuOfSamples(&timeline);
  EXPECT_EQ(CpuOfStackMs(timeline, 1), 0);
  EXPECT_EQ(CpuOfStackMs(timeline, 2), 30);
}

// A thread that wakes for a moment between two samples "ran", but the kernel says where it is blocked.
TEST(SampleCpu, BlockedSamples_AreOffTheCpu) {
  Timeline timeline;
  PythonThread& thread = timeline.python.threads.emplace_back();
  thread.thread = 3;
  thread.runs = {MakeRun(0, 10, 1, 10), MakeRun(100, 10, 2, 10), MakeRun(200, 10, 3, 10)};
  ThreadBlocked& blocked = timeline.blocked.emplace_back();
  blocked.thread = 3;
  const auto add = [&](int64_t first_ms, int64_t last_ms, uint32_t samples) {
    BlockedRun& run = blocked.runs.emplace_back();
    run.first_ps = first_ms * kMs;
    run.last_ps = last_ms * kMs;
    run.samples = samples;
  };
  add(0, 90, 10);
  add(110, 110, 1);
  add(130, 150, 3);
  CountBlockedAsOffCpu(&timeline);
  EXPECT_EQ(thread.runs[0].on_cpu, 0u);
  EXPECT_EQ(thread.runs[1].on_cpu, 6u);
  EXPECT_EQ(thread.runs[2].on_cpu, 10u);
}

}  // namespace
}  // namespace tbprof
