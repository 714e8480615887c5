// SPDX-License-Identifier: Apache-2.0
// Garbage collection, CPU time and the wait for a CPU of Python programs, beside their own clocks.
#include <sched.h>
#include <unistd.h>

#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <vector>

#include "harness.h"
#include "python_commands.h"
#include "writer/convert/timeline_builder.h"

namespace tbprof::integration {
namespace {

// Half of the time of work() is spent in collections that follow 300,000 lists.
constexpr const char* kCollects = R"(
import gc, os, sys, time

def work(keep):
    collecting = 0.0
    begin = time.thread_time()
    while time.thread_time() - begin < 3:
        before = time.thread_time()
        gc.collect()
        behind = time.thread_time()
        collecting += behind - before
        while time.thread_time() < 2 * behind - before:
            pass
    return collecting / (time.thread_time() - begin)

gc.disable()
keep = [[] for _ in range(300000)]
for each in keep: each.append(each)
print(work(keep), flush=True)
)";

// Waits for its CPU beside two others, then prints what the kernel has counted.
constexpr const char* kStarves = R"(
import subprocess, sys, time
loops = [subprocess.Popen([sys.executable, '-c', 'while True: pass']) for _ in range(2)]
end = time.perf_counter() + 3
while time.perf_counter() < end:
    pass
for loop in loops: loop.kill()
for loop in loops: loop.wait()
with open('/proc/self/schedstat') as counts: print(counts.read(), flush=True)
)";

struct Recorded {
  RunResult run;
  std::unique_ptr<TemporaryDirectory> spools = std::make_unique<TemporaryDirectory>();
  Timeline timeline;
};

Recorded Record(const std::vector<std::string>& command, const std::string& rate) {
  Recorded recorded;
  RunOptions options;
  options.tbprof = {"--sample-rate=" + rate, "--keep-spool", "--spool-dir=" + recorded.spools->path()};
  recorded.run = RunUnderTbprof(command, options);
  EXPECT_EQ(recorded.run.status, 0) << recorded.run.AllSaid();
  const std::vector<std::string> files = FilesBelow(recorded.spools->path(), ".spool");
  EXPECT_EQ(files.size(), 1u);
  if (files.empty()) return recorded;
  TimelineRequest request;
  request.spool = files[0];
  auto timeline = BuildTimeline(request, [](uint64_t, uint64_t) {});
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  if (timeline.ok()) recorded.timeline = *std::move(timeline);
  return recorded;
}

uint32_t MainThread(const Timeline& timeline) {
  for (uint32_t i = 0; i < timeline.threads.size(); ++i) {
    const Thread& thread = timeline.threads[i];
    const Process& process = timeline.processes[thread.process];
    if (thread.is_main && process.is_command && !process.replaced) return i;
  }
  ADD_FAILURE() << "no main thread";
  return 0;
}

bool IsWithin(const Timeline& timeline, uint32_t stack, const std::string& function) {
  for (; stack != 0; stack = timeline.python.stacks[stack].parent) {
    const PythonFunction& its = timeline.python.functions[timeline.python.stacks[stack].function];
    if (timeline.strings.Get(its.name) == function) return true;
  }
  return false;
}

TEST(ThreadUsage, CollectionOfGarbage_HasItsShareOfTheSamples) {
  const std::vector<std::string> pythons = InstalledPythons();
  if (pythons.empty() || !OtherRoot().empty()) GTEST_SKIP() << "no Python";
  for (const std::string& python : pythons) {
    SCOPED_TRACE(python);
    const Recorded recorded = Record({python, "-c", kCollects}, "200");
    const PythonThread* const thread = recorded.timeline.python.OfThread(MainThread(recorded.timeline));
    ASSERT_NE(thread, nullptr);
    uint64_t on_cpu = 0, collecting = 0;
    for (const PythonRun& run : thread->runs) {
      if (!IsWithin(recorded.timeline, run.stack, "work")) continue;
      on_cpu += run.on_cpu;
      collecting += run.collecting;
    }
    int64_t collecting_ps = 0;
    for (const PythonTally& tally : thread->tallies) {
      if (IsWithin(recorded.timeline, tally.stack, "work")) collecting_ps += tally.collecting_ps;
    }
    ASSERT_GT(on_cpu, 50u);
    const double own = atof(recorded.run.out.c_str());
    const double share = static_cast<double>(collecting) / static_cast<double>(on_cpu);
    printf("%s: own clock %.3f, samples %.3f of %lu\n", python.c_str(), own, share, static_cast<unsigned long>(on_cpu));
    EXPECT_GT(own, 0.3);
    EXPECT_NEAR(share, own, 0.05);
    EXPECT_GT(collecting_ps, 0);
  }
}

TEST(ThreadUsage, ThreadThatWaitsForItsCpu_HasTheKernelsCounts) {
  const std::vector<std::string> pythons = InstalledPythons();
  const std::string taskset = "/usr/bin/taskset";
  if (pythons.empty() || !OtherRoot().empty() || access(taskset.c_str(), X_OK) != 0) GTEST_SKIP() << "no Python";
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &allowed)) ++cpu;
  for (const std::string& python : pythons) {
    SCOPED_TRACE(python);
    const Recorded recorded = Record({taskset, "-c", std::to_string(cpu), python, "-c", kStarves}, "100");
    uint64_t ran = 0, waited = 0;
    ASSERT_EQ(sscanf(recorded.run.out.c_str(), "%lu %lu", &ran, &waited), 2) << recorded.run.out;
    if (waited == 0) GTEST_SKIP() << "this kernel does not count";
    const ThreadUsage* const usage = recorded.timeline.UsageOfThread(MainThread(recorded.timeline));
    ASSERT_NE(usage, nullptr);
    const UsagePoint& last = usage->points.back();
    printf("%s: ran %.3f s, by the timeline %.3f; waited %.3f, by the timeline %.3f\n", python.c_str(), ran / 1e9,
           last.cpu_ps / 1e12, waited / 1e9, last.run_delay_ps / 1e12);
    EXPECT_GT(waited, 1'000'000'000u);
    EXPECT_NEAR(last.run_delay_ps / 1e12, waited / 1e9, 0.05 * waited / 1e9);
    EXPECT_NEAR(last.cpu_ps / 1e12, ran / 1e9, 0.05 * ran / 1e9);
    EXPECT_EQ(recorded.timeline.cpu_limits.cpus_allowed, 1);
  }
}

// Two samplers may count one thread. Without the one for Python the other one's counts are there.
TEST(ThreadUsage, ProgramWithoutPython_HasItsCpuTime) {
  const Recorded recorded = Record({"/bin/sh", "-c", "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done"}, "100");
  if (recorded.timeline.native.threads.empty()) GTEST_SKIP() << "the kernel refuses events";
  const ThreadUsage* const usage = recorded.timeline.UsageOfThread(MainThread(recorded.timeline));
  ASSERT_NE(usage, nullptr);
  EXPECT_GT(usage->points.back().cpu_ps, 0);
  const double used = recorded.timeline.user_cpu_seconds + recorded.timeline.system_cpu_seconds;
  EXPECT_NEAR(usage->points.back().cpu_ps / 1e12, used, 0.05 + 0.1 * used);
}

}  // namespace
}  // namespace tbprof::integration
