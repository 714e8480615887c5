// SPDX-License-Identifier: Apache-2.0
// Garbage collection, CPU time and waits for a CPU of Python programs, compared with their own clocks.
#include <sched.h>
#include <unistd.h>

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "harness.h"
#include "python_commands.h"
#include "writer/convert/timeline_builder.h"

namespace tbprof::integration {
namespace {

// work() spends about half of its time in collections that traverse 100,000 lists. Between them it does a fixed amount
// of work, so that other programs delay both equally. It makes no system call: at a call that reads the CPU time, the
// kernel tends to switch to another program, which would always happen outside of a collection.
constexpr const char* kCollects = R"(
import gc, time
now = time.perf_counter

def work(keep, count):
    collecting = 0.0
    begin = now()
    while now() - begin < 5:
        before = now()
        gc.collect()
        collecting += now() - before
        for _ in range(count): pass
    return collecting / (now() - begin)

def loops_of_a_collection():
    times = [time.thread_time()]
    for _ in range(5): gc.collect()
    times.append(time.thread_time())
    for _ in range(500000): pass
    times.append(time.thread_time())
    return int((times[1] - times[0]) / 5 / (times[2] - times[1]) * 500000)

gc.disable()
keep = [[] for _ in range(100000)]
for each in keep: each.append(each)
print(work(keep, loops_of_a_collection()), flush=True)
)";

// Competes for one CPU with two other processes, then prints the kernel's counts and the time.
constexpr const char* kStarves = R"(
import subprocess, sys, time
loops = [subprocess.Popen([sys.executable, '-c', 'while True: pass']) for _ in range(2)]
end = time.perf_counter() + 3
while time.perf_counter() < end:
    pass
for loop in loops: loop.kill()
for loop in loops: loop.wait()
with open('/proc/self/schedstat') as counts: read = counts.read().split()
print(*read, time.time_ns(), flush=True)
)";

// Reads from a pipe by the system call's number, which no hook records. Another process writes when it has found this
// process in its call several times.
constexpr const char* kReadsByNumber = R"(
import ctypes, os, platform, time
read, write = os.pipe()
pid = os.getpid()
if os.fork() == 0:
    found = 0
    try:
        while found < 40:
            with open(f'/proc/{pid}/task/{pid}/syscall') as call: text = call.read()
            found += text.startswith(f'0 {hex(read)} ')
            time.sleep(0.01)
    except OSError: time.sleep(1)  # a parent may not be looked at everywhere
    os.write(write, b'x')
    os._exit(0)
libc, buffer = ctypes.CDLL(None), ctypes.create_string_buffer(1)
assert platform.machine() == 'x86_64'
assert libc.syscall(0, read, buffer, 1) == 1
os.wait()
print(read, flush=True)
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
  EXPECT_EQ(recorded.run.status, 0) << recorded.run.AllPrinted();
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

// Interpolates: between two points, counts grow evenly.
UsagePoint PointAt(const ThreadUsage& usage, int64_t at_ps) {
  const auto next = std::find_if(usage.points.begin(), usage.points.end(),
                                 [at_ps](const UsagePoint& point) { return point.at_ps >= at_ps; });
  if (next == usage.points.end()) return usage.points.back();
  if (next == usage.points.begin() || next->at_ps == at_ps) return *next;
  const UsagePoint &a = *std::prev(next), &b = *next;
  const double share = static_cast<double>(at_ps - a.at_ps) / static_cast<double>(b.at_ps - a.at_ps);
  UsagePoint point = a;
  point.cpu_ps += static_cast<int64_t>(static_cast<double>(b.cpu_ps - a.cpu_ps) * share);
  point.run_delay_ps += static_cast<int64_t>(static_cast<double>(b.run_delay_ps - a.run_delay_ps) * share);
  return point;
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
  double off = 0, most_by_chance = 0;  // on average
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
    EXPECT_GT(own, 0.2);
    // Five standard deviations for this number of samples. If other programs use the CPU, samples are spread less
    // evenly over the phases.
    const double chance = 5 * std::sqrt(0.25 / static_cast<double>(on_cpu));
    const ThreadUsage* const usage = recorded.timeline.UsageOfThread(thread->thread);
    const double delay = usage == nullptr ? 1 : static_cast<double>(usage->points.back().run_delay_ps);
    const double cpu = usage == nullptr ? 0 : static_cast<double>(usage->points.back().cpu_ps);
    EXPECT_NEAR(share, own, 0.02 + chance + 0.15 * delay / (delay + cpu));
    most_by_chance += chance / static_cast<double>(pythons.size());
    off += (share - own) / static_cast<double>(pythons.size());
    EXPECT_GT(collecting_ps, 0);
  }
  EXPECT_NEAR(off, 0, 0.03 + most_by_chance / std::sqrt(static_cast<double>(pythons.size())));
}

TEST(ThreadUsage, ThreadThatWaitsForItsCpu_HasTheKernelsCounts) {
  const std::vector<std::string> pythons = OldestAndNewest(InstalledPythons());
  const std::string taskset = "/usr/bin/taskset";
  if (pythons.empty() || !OtherRoot().empty() || access(taskset.c_str(), X_OK) != 0) GTEST_SKIP() << "no Python";
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &allowed)) ++cpu;
  for (const std::string& python : pythons) {
    SCOPED_TRACE(python);
    const Recorded recorded = Record({taskset, "-c", std::to_string(cpu), python, "-c", kStarves}, "100");
    uint64_t ran = 0, waited = 0, at_unix_ns = 0;
    ASSERT_EQ(sscanf(recorded.run.out.c_str(), "%lu %lu %*u %lu", &ran, &waited, &at_unix_ns), 3) << recorded.run.out;
    if (waited == 0) GTEST_SKIP() << "this kernel does not count";
    const ThreadUsage* const usage = recorded.timeline.UsageOfThread(MainThread(recorded.timeline));
    ASSERT_NE(usage, nullptr);
    // The program continues for a moment after its reading, and may wait for a CPU again.
    const UsagePoint then = PointAt(*usage, static_cast<int64_t>(at_unix_ns - recorded.timeline.origin_unix_ns) * 1000);
    printf("%s: ran %.3f s, by the timeline %.3f; waited %.3f, by the timeline %.3f\n", python.c_str(), ran / 1e9,
           then.cpu_ps / 1e12, waited / 1e9, then.run_delay_ps / 1e12);
    EXPECT_GT(waited, 1'000'000'000u);
    EXPECT_NEAR(then.run_delay_ps / 1e12, waited / 1e9, 0.05 * waited / 1e9);
    // The kernel updates the time of a running thread at its ticks: up to 10 ms late.
    EXPECT_NEAR(then.cpu_ps / 1e12, ran / 1e9, 0.01 + 0.05 * ran / 1e9);
    EXPECT_EQ(recorded.timeline.cpu_limits.cpus_allowed, 1);
  }
}

TEST(ThreadUsage, CallWithoutAHook_IsFoundWithItsDescriptor) {
  const std::vector<std::string> pythons = OldestAndNewest(InstalledPythons());
  if (pythons.empty() || !OtherRoot().empty()) GTEST_SKIP() << "no Python";
  for (const std::string& python : pythons) {
    SCOPED_TRACE(python);
    const Recorded recorded = Record({python, "-c", kReadsByNumber}, "1000");
    const ThreadBlocked* const blocked = recorded.timeline.BlockedOfThread(MainThread(recorded.timeline));
    ASSERT_NE(blocked, nullptr);
    uint64_t samples = 0;
    for (const BlockedRun& run : blocked->runs) {
      if (run.kind == BlockedIn::kPipe && run.fd == atoi(recorded.run.out.c_str())) samples += run.samples;
    }
    EXPECT_GT(samples, 0u);
  }
}

// Two samplers may count one thread. Without the Python sampler, the other sampler's counts are used.
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
