// SPDX-License-Identifier: Apache-2.0
//
// Samples processes that use the CPU, from outside. If the kernel refuses, the tests check that the sampler reports it.
#include "launcher/sampling/native_sampler.h"

#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/sampling/perf_events.h"
#include "launcher/sampling/target_modules.h"
#include "launcher/sampling/tick_clock.h"

namespace tbprof {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

volatile uint64_t sink;

__attribute__((noinline, aligned(256))) void BurnOuter();
__attribute__((noinline, aligned(256))) void BurnInner() {
  for (int i = 0; i < 1'000'000; ++i) sink = sink * 3 + 1;
}
__attribute__((noinline, aligned(256))) void BurnOuter() {
  while (true) BurnInner();
}
__attribute__((noinline, aligned(256))) void BurnInThread() {
  while (true) sink = sink * 5 + 1;
}

bool IsIn(uint64_t address, void (*function)()) {
  const auto start = reinterpret_cast<uint64_t>(function);
  return address > start && address <= start + 256;
}

// A fork child that runs `body`, killed at the end.
class Child {
 public:
  explicit Child(void (*body)()) : pid_(fork()) {
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      body();
      _exit(0);
    }
    pidfd_ = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  }
  ~Child() {
    Kill();
    close(pidfd_);
  }
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  pid_t pid() const { return pid_; }
  SampledProcess process(uint32_t serial = 3) const { return {7, serial, pid_, pidfd_}; }

 private:
  pid_t pid_;
  int pidfd_ = -1;
};

// Keeps the facts that a sampler emits, and checks that each fact comes after those to which it refers.
class Spool {
 public:
  EmitFrame Emit() {
    return [this](FrameType type, uint32_t segment, const void* payload, size_t size) {
      const std::lock_guard lock(mutex_);
      EXPECT_EQ(segment, 7u);
      const std::string bytes(static_cast<const char*>(payload), size);
      switch (type) {
        case FrameType::kNativeStacks:
          for (const NativeNode& node : Rows<NativeNode>(bytes)) {
            EXPECT_TRUE(node.parent == 0 || nodes.contains(node.parent));
            EXPECT_TRUE(nodes.emplace(node.node, node).second);
          }
          break;
        case FrameType::kNativeSamples:
          for (const NativeSample& sample : Rows<NativeSample>(bytes)) {
            EXPECT_TRUE(sample.node == 0 || nodes.contains(sample.node));
            samples.push_back(sample);
          }
          break;
        case FrameType::kNativeStatus:
          ASSERT_GE(size, sizeof(status));
          std::memcpy(&status, bytes.data(), sizeof(status));
          reason = bytes.substr(sizeof(status));
          break;
        case FrameType::kThreadUsage:
          for (const ThreadUsageRow& row : Rows<ThreadUsageRow>(bytes)) usage[row.tid].push_back(row);
          break;
        default:
          ADD_FAILURE() << static_cast<int>(type);
      }
      changed_.notify_all();
    };
  }
  template <typename Condition>
  bool WaitFor(Condition condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, seconds(120), condition);
  }
  // The number of samples of the thread (0: of all threads) with the function at any depth of their stack.
  size_t Within(void (*function)(), int32_t tid = 0) const {
    size_t count = 0;
    for (const NativeSample& sample : samples) {
      if (tid != 0 && sample.tid != tid) continue;
      for (uint32_t node = sample.node; node != 0; node = nodes.at(node).parent) {
        if (!IsIn(nodes.at(node).address, function)) continue;
        ++count;
        break;
      }
    }
    return count;
  }
  size_t Innermost(void (*function)()) const {
    size_t count = 0;
    for (const NativeSample& sample : samples) {
      count += sample.node != 0 && IsIn(nodes.at(sample.node).address, function);
    }
    return count;
  }

  std::map<uint32_t, NativeNode> nodes;
  std::vector<NativeSample> samples;
  std::map<int32_t, std::vector<ThreadUsageRow>> usage;  // by tid
  NativeStatusFact status = {};
  std::string reason;

 private:
  template <typename Row>
  static std::vector<Row> Rows(const std::string& bytes) {
    struct {
      uint32_t process_serial, count;
    } head;
    std::memcpy(&head, bytes.data(), sizeof(head));
    EXPECT_EQ(head.process_serial, 3u);
    EXPECT_EQ(bytes.size(), sizeof(head) + head.count * sizeof(Row));
    std::vector<Row> rows(head.count);
    std::memcpy(rows.data(), bytes.data() + sizeof(head), head.count * sizeof(Row));
    return rows;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
};

constexpr SamplerOptions kOptions = {.clock = ClockKind::kMonotonic, .rate = 500, .max_cpu_share = 1};

// False: the kernel refuses, and the emitted status reports it.
bool IsPermitted(Spool* spool) {
  bool is_sampled = false;
  const bool has_status = spool->WaitFor([&] {
    is_sampled = spool->status.state == kNativeSampled;
    return spool->status.state != 0;
  });
  EXPECT_TRUE(has_status);
  EXPECT_EQ(is_sampled, ProbePerfEvents() == 0);
  if (!is_sampled) {
    EXPECT_NE(spool->status.error, 0);
    EXPECT_THAT(spool->reason, HasSubstr("Native stacks: not sampled"));
    EXPECT_TRUE(spool->samples.empty());
  }
  return is_sampled;
}

TEST(NativeSampler, ProcessThatUsesCpu_HasItsStacks) {
  const Child child(BurnOuter);
  Spool spool;
  NativeSampler sampler(kOptions, spool.Emit());
  const uint64_t begin = ReadTicks(ClockKind::kMonotonic);
  sampler.AddProcess(child.process());
  sampler.SetArmed(true);
  if (ProbePerfEvents() == 0) {
    ASSERT_TRUE(spool.WaitFor([&] { return spool.samples.size() >= 100; }));
  }
  sampler.SetArmed(false);
  ASSERT_TRUE(sampler.Flush(seconds(60)));
  if (!IsPermitted(&spool)) return;
  EXPECT_GE(spool.Innermost(BurnInner) * 10, spool.samples.size() * 9);
  EXPECT_GE(spool.Within(BurnOuter) * 10, spool.samples.size() * 9);
  std::set<uint32_t> periods;
  for (const NativeSample& sample : spool.samples) {
    EXPECT_EQ(sample.tid, child.pid());
    EXPECT_GE(sample.ticks, begin);
    // Up to a quarter away from the mean, and what was left of the period before.
    EXPECT_GE(sample.period_us, 1500u);
    EXPECT_LE(sample.period_us, 5000u);
    periods.insert(sample.period_us);
  }
  EXPECT_GE(periods.size(), 5u) << "a period is used for eight samples, or what one buffer held";
  EXPECT_EQ(spool.status.samples, spool.samples.size());
  EXPECT_LE(spool.status.cut * 20, spool.status.samples) << "stacks are complete";
}

void* ThreadMain(void*) {
  BurnInThread();
  return nullptr;
}
void BurnInLaterThread() {
  for (int i = 0; i < 50; ++i) BurnInner();
  pthread_t thread;
  pthread_create(&thread, nullptr, ThreadMain, nullptr);
  pthread_join(thread, nullptr);
}

TEST(NativeSampler, ThreadMadeWhileSampling_IsSampled) {
  const Child child(BurnInLaterThread);
  Spool spool;
  NativeSampler sampler(kOptions, spool.Emit());
  sampler.AddProcess(child.process());
  sampler.SetArmed(true);
  if (!IsPermitted(&spool)) return;
  EXPECT_TRUE(spool.WaitFor([&] { return spool.Within(BurnInThread) >= 20; }));
  sampler.SetArmed(false);
  ASSERT_TRUE(sampler.Flush(seconds(60)));
  EXPECT_EQ(spool.Within(BurnInThread, child.pid()), 0u);
  for (const NativeSample& sample : spool.samples) EXPECT_NE(sample.tid, 0);
}

TEST(NativeSampler, KilledProcess_KeepsWhatWasSampledBefore) {
  Child child(BurnOuter);
  Spool spool;
  NativeSampler sampler(kOptions, spool.Emit());
  sampler.AddProcess(child.process());
  sampler.SetArmed(true);
  if (!IsPermitted(&spool)) return;
  ASSERT_TRUE(spool.WaitFor([&] { return spool.samples.size() >= 10; }));
  child.Kill();
  sampler.RemoveProcess(7, 3);
  ASSERT_TRUE(sampler.Flush(seconds(60)));
  EXPECT_EQ(spool.status.samples, spool.samples.size());
}

// Two threads that wake each other by a pipe: each switch of a sampled thread takes longer.
void SwitchAll() {
  int there[2], back[2];
  if (pipe(there) != 0 || pipe(back) != 0) _exit(1);
  std::thread other([&] {
    char byte;
    while (read(there[0], &byte, 1) == 1 && write(back[1], &byte, 1) == 1) {
    }
  });
  char byte = 0;
  while (write(there[1], &byte, 1) == 1 && read(back[0], &byte, 1) == 1) {
  }
}

TEST(NativeSampler, ThreadsThatSwitchAllTheTime_AreNotSampled) {
  const Child child(SwitchAll);
  Spool spool;
  SamplerOptions options = kOptions;
  options.max_switches = 200;
  NativeSampler sampler(options, spool.Emit());
  sampler.AddProcess(child.process());
  sampler.SetArmed(true);
  if (ProbePerfEvents() == 0) {
    EXPECT_TRUE(spool.WaitFor([&] { return spool.reason.find("switch") != std::string::npos; }));
  }
  sampler.SetArmed(false);
  ASSERT_TRUE(sampler.Flush(seconds(60)));
  if (!IsPermitted(&spool)) return;
  EXPECT_THAT(spool.reason, HasSubstr("over 200 times a second"));
  EXPECT_EQ(spool.status.flags, kNativePaused);
}

TEST(NativeSampler, Disarmed_TakesNothing) {
  const Child child(BurnOuter);
  Spool spool;
  NativeSampler sampler(kOptions, spool.Emit());
  sampler.AddProcess(child.process());
  sampler.SetArmed(true);
  if (!IsPermitted(&spool)) return;
  ASSERT_TRUE(spool.WaitFor([&] { return spool.samples.size() >= 5; }));
  sampler.SetArmed(false);
  ASSERT_TRUE(sampler.Flush(seconds(60)));
  const uint64_t stopped = ReadTicks(ClockKind::kMonotonic);
  const size_t before = spool.samples.size();
  sampler.SetArmed(true);
  ASSERT_TRUE(spool.WaitFor([&] { return spool.samples.size() >= before + 5; }));
  sampler.SetArmed(false);
  ASSERT_TRUE(sampler.Flush(seconds(60)));
  for (size_t i = before; i < spool.samples.size(); ++i) EXPECT_GT(spool.samples[i].ticks, stopped);
}

TEST(NativeSampler, CostOverItsShare_LowersTheRate) {
  const Child child(BurnOuter);
  Spool spool;
  SamplerOptions options = kOptions;
  options.max_cpu_share = 1e-9;
  NativeSampler sampler(options, spool.Emit());
  sampler.AddProcess(child.process());
  sampler.SetArmed(true);
  if (!IsPermitted(&spool)) return;
  EXPECT_TRUE(spool.WaitFor([&] { return spool.status.interval_us >= 4 * 2000; }));
}

TEST(NativeSampler, ProcessThatHasEnded_IsNoError) {
  Spool spool;
  NativeSampler sampler(kOptions, spool.Emit());
  sampler.SetArmed(true);
  Child child(BurnOuter);
  const SampledProcess process = child.process();
  child.Kill();
  sampler.AddProcess(process);
  EXPECT_TRUE(sampler.Flush(seconds(60)));
  EXPECT_TRUE(spool.samples.empty());
}

TEST(TargetModules, OwnProcess_HasItsCode) {
  ModuleFiles files;
  TargetModules modules(getpid(), &files);
  modules.Read();
  const Module* module = modules.map().Find(reinterpret_cast<uint64_t>(&BurnInner));
  ASSERT_NE(module, nullptr);
  EXPECT_THAT(module->path, HasSubstr("native_sampler_test"));
}

TEST(TickClock, Counter_IsNearWhatItReads) {
  for (const ClockKind kind : {ClockKind::kMonotonic, ClockKind::kCounter}) {
    TickClock clock(kind);
    for (int i = 0; i < 1000; ++i) {
      clock.Update();
      const uint64_t before = ReadTicks(kind);
      const uint64_t ns = ReadMonotonic();
      const uint64_t after = ReadTicks(kind);
      // In ticks: at least a millisecond, and more if the thread was interrupted between the readings.
      const uint64_t slack = 10'000'000 + (after - before);
      EXPECT_GE(clock.TicksAt(ns) + slack, before);
      EXPECT_LE(clock.TicksAt(ns), after + slack);
    }
  }
}

}  // namespace
}  // namespace tbprof
