// SPDX-License-Identifier: Apache-2.0
//
// Timelines of a program with one cause, for tests of the verdict.
#ifndef TBPROF_TESTS_UNIT_WRITER_VERDICT_MAKER_H_
#define TBPROF_TESTS_UNIT_WRITER_VERDICT_MAKER_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "writer/verdict/verdict.h"

namespace tbprof {

inline constexpr int64_t kMs = 1'000'000'000;
inline constexpr char kOwn[] = "/home/me/train.py";
inline constexpr int kSteps = 50;
inline constexpr int64_t kStep = 100 * kMs;

// A main thread with steps of 100 ms, of which `busy_ms` at the end are spent in native code at train.py:10.
class VerdictMaker {
 public:
  VerdictMaker() {
    timeline.duration_ps = kSteps * kStep;
    timeline.processes.resize(1);
    timeline.processes[0].pid = 100;
    timeline.processes[0].is_command = true;
    timeline.types = {{"pthread_cond_timedwait", EventFamily::kLock},
                      {"clock_nanosleep", EventFamily::kSleep},
                      {"fsync", EventFamily::kIo},
                      {"recv", EventFamily::kIo},
                      {"waitpid", EventFamily::kProcess},
                      {"sem_wait", EventFamily::kLock},
                      {"cuLaunchKernel", EventFamily::kGpu},
                      {"cuStreamSynchronize", EventFamily::kGpu},
                      {"cuMemcpyHtoD_v2", EventFamily::kGpu},
                      {"write", EventFamily::kIo},
                      {"pread64", EventFamily::kIo},
                      {"epoll_wait", EventFamily::kIo}};
    timeline.python.functions.resize(1);
    timeline.python.stacks.resize(1);
    timeline.native.stacks.resize(1);
    timeline.native.processes.push_back({.process = 0, .sampling = NativeSampling::kSampled});
    main = Thread("", true);
    for (int i = 0; i < kSteps; ++i) {
      Step step;
      step.start_ps = i * kStep;
      step.end_ps = (i + 1) * kStep;
      step.thread = main;
      timeline.steps.push_back(step);
    }
    timeline.step_source = StepSource::kMarked;
    in_main = Stack(0, kOwn, "main", 10);
    interpreter = Native("python3.12", "_PyEval_EvalFrameDefault", 0);
    library = Native("libz.so.1", "deflate", interpreter);
  }

  uint32_t Thread(const std::string& name, bool is_main = false, uint32_t process = 0) {
    tbprof::Thread thread;
    thread.process = process;
    thread.name = name;
    thread.is_main = is_main;
    thread.end_ps = timeline.duration_ps;
    timeline.threads.push_back(thread);
    const auto index = static_cast<uint32_t>(timeline.threads.size() - 1);
    timeline.python.threads.push_back({.thread = index});
    timeline.native.threads.push_back({.thread = index});
    timeline.usage.push_back({.thread = index, .points = {{}}});
    return index;
  }
  uint32_t Process(int pid, int parent) {
    tbprof::Process process;
    process.pid = pid;
    process.parent = parent;
    process.forked = true;
    timeline.processes.push_back(process);
    return static_cast<uint32_t>(timeline.processes.size() - 1);
  }
  uint32_t Stack(uint32_t parent, const std::string& file, const std::string& name, int line) {
    PythonFunction function;
    function.file = timeline.strings.Intern(file);
    function.name = timeline.strings.Intern(name);
    timeline.python.functions.push_back(function);
    timeline.python.stacks.push_back({parent, static_cast<uint32_t>(timeline.python.functions.size() - 1), line});
    return static_cast<uint32_t>(timeline.python.stacks.size() - 1);
  }
  uint32_t Native(const std::string& module, const std::string& function, uint32_t parent) {
    timeline.native.stacks.push_back(
        {parent, timeline.strings.Intern(function), timeline.strings.Intern(module), 0, false});
    return static_cast<uint32_t>(timeline.native.stacks.size() - 1);
  }
  void Wait(uint32_t thread, uint16_t type, int64_t start, int64_t length, uint32_t stack, uint64_t object = 0,
            const std::string& site = "") {
    Event event;
    event.type = type;
    event.start_ps = start;
    event.duration_ps = length;
    event.python = stack;
    event.object = object;
    event.call_site = timeline.strings.Intern(site);
    timeline.threads[thread].events.push_back(event);
  }
  // The thread is on the CPU in `native`; 0: off the CPU.
  void Run(uint32_t thread, int64_t start, int64_t length, uint32_t stack, uint32_t native, bool collects = false) {
    PythonRun run;
    run.first_ps = run.from_ps = start;
    run.last_ps = run.to_ps = start + length;
    run.stack = stack;
    run.samples = static_cast<uint32_t>(std::max<int64_t>(length / (10 * kMs), 1));
    run.on_cpu = native != 0 ? run.samples : 0;
    run.collecting = collects ? run.samples : 0;
    run.cpu_ps = native != 0 ? length : 0;
    timeline.python.threads[thread].runs.push_back(run);
    if (native == 0) return;
    timeline.usage[thread].points.push_back({start, cpu_[thread]});
    cpu_[thread] += length;
    timeline.usage[thread].points.push_back({start + length, cpu_[thread], 0, 0, 0});
    for (int64_t at = start; at < start + length; at += 10 * kMs) {
      timeline.native.threads[thread].points.push_back({at, 10'000, native});
    }
  }
  // Each step begins with `length` that `visit` fills; the program's own operations fill the rest.
  template <typename Visit>
  void EachStep(int64_t length, Visit&& visit) {
    for (int i = 0; i < kSteps; ++i) {
      visit(i * kStep);
      if (length < kStep) Run(main, i * kStep + length, kStep - length, in_main, library);
    }
    for (ThreadUsage& usage : timeline.usage) {
      UsagePoint last = usage.points.back();
      last.at_ps = timeline.duration_ps;
      usage.points.push_back(last);
    }
  }

  // The total page faults of the main thread.
  void Faults(uint64_t major, uint64_t minor) {
    for (UsagePoint& point : timeline.usage[main].points) {
      if (point.at_ps < timeline.duration_ps) continue;
      point.major_faults = major;
      point.minor_faults = minor;
    }
  }

  // Samples find the main thread off the CPU, blocked in `kind`.
  void Block(int64_t start, int64_t length, uint32_t stack, BlockedIn kind, int32_t fd = -1) {
    Run(main, start, length, stack, 0);
    if (timeline.blocked.empty()) timeline.blocked.push_back({.thread = main});
    const auto samples = static_cast<uint32_t>(std::max<int64_t>(length / (10 * kMs), 1));
    timeline.blocked[0].runs.push_back({start + kMs, start + length - kMs, samples, fd, kind});
  }

  Verdict Make() {
    const Verdict verdict = MakeVerdict(timeline);
    EXPECT_EQ(std::accumulate(verdict.part_ps.begin(), verdict.part_ps.end(), int64_t{0}), verdict.total_ps);
    for (const int64_t part : verdict.part_ps) EXPECT_GE(part, 0);
    return verdict;
  }
  std::string PlaceOf(const Where& where) const {
    const std::string file = timeline.strings.Get(where.file);
    return file.substr(file.rfind('/') + 1) + ":" + std::to_string(where.line);
  }
  void ExpectBlocker(const std::string& place) {
    const Verdict verdict = Make();
    const auto blocker = std::ranges::find(verdict.where, WhereRole::kWaitedFor, &Where::role);
    ASSERT_NE(blocker, verdict.where.end());
    EXPECT_EQ(PlaceOf(*blocker), place);
  }
  void Expect(Cause cause, StepPart part, double share) {
    const Verdict verdict = Make();
    EXPECT_EQ(CauseName(verdict.cause), CauseName(cause)) << verdict.reason;
    EXPECT_NEAR(verdict.share, share, 0.02);
    EXPECT_NEAR(verdict.ShareOf(part), share, 0.02) << StepPartName(part);
  }

  Timeline timeline;
  uint32_t main = 0, in_main = 0, interpreter = 0, library = 0;

 private:
  std::map<uint32_t, int64_t> cpu_;
};
enum VerdictWait : uint16_t {
  kCondition,
  kNap,
  kSync,
  kReceive,
  kChildEnd,
  kSemaphore,
  kLaunchCall,
  kGpuSync,
  kCopyIn,
  kWrite,
  kPread,
  kPoll
};

}  // namespace tbprof

#endif  // TBPROF_TESTS_UNIT_WRITER_VERDICT_MAKER_H_
