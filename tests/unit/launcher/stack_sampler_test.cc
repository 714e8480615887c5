// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/stack_sampler.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/launcher/python_programs.h"

namespace tbprof {
namespace {

using std::chrono::seconds;

// Keeps the facts that a sampler emits, and checks that each fact comes after those to which it refers.
class Spool {
 public:
  EmitFrame Emit() {
    return [this](FrameType type, uint32_t segment, const void* payload, size_t size) {
      const std::lock_guard lock(mutex_);
      EXPECT_EQ(segment, 7u);
      const auto* bytes = static_cast<const uint8_t*>(payload);
      switch (type) {
        case FrameType::kPythonCode:
          TakeCode(bytes, size);
          break;
        case FrameType::kPythonStacks:
          TakeNodes(bytes, size);
          break;
        case FrameType::kPythonSamples:
        case FrameType::kPythonCollecting:
          TakeSamples(bytes, size);
          break;
        case FrameType::kPythonThread:
          EXPECT_GE(size, sizeof(PythonThreadFact));
          break;
        case FrameType::kPythonStatus:
          ASSERT_GE(size, sizeof(status));
          std::memcpy(&status, bytes, sizeof(status));
          reason.assign(reinterpret_cast<const char*>(bytes) + sizeof(status), size - sizeof(status));
          break;
        case FrameType::kThreadUsage:
          TakeUsage(bytes, size);
          break;
        case FrameType::kBlockedCalls:
          EXPECT_EQ((size - sizeof(ThreadUsageFact)) % sizeof(BlockedCallRow), 0u);
          break;
        case FrameType::kGilHolders:
          TakeHolders(bytes, size);
          break;
        case FrameType::kResidentMemory:
          TakeResident(bytes, size);
          break;
        case FrameType::kCpuLimits:
          EXPECT_EQ(size, sizeof(CpuLimitsFact));
          ++limits;
          break;
        default:
          ADD_FAILURE() << static_cast<int>(type);
      }
      changed_.notify_all();
    };
  }
  void TakeResident(const uint8_t* bytes, size_t size) {
    ASSERT_EQ((size - sizeof(ThreadUsageFact)) % sizeof(ResidentRow), 0u);
    for (size_t at = sizeof(ThreadUsageFact); at < size; at += sizeof(ResidentRow)) {
      std::memcpy(&resident.emplace_back(), bytes + at, sizeof(ResidentRow));
    }
  }
  template <typename Condition>
  bool WaitFor(Condition condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, seconds(60), condition);
  }

  std::vector<ResidentRow> resident;
  std::map<uint32_t, std::string> names;  // by code
  std::map<uint32_t, PythonNode> nodes;
  std::vector<PythonSample> samples;
  std::map<int32_t, std::vector<ThreadUsageRow>> usage;  // by tid
  std::map<std::string, size_t> holders;                 // samples that held the GIL, by function
  std::set<int32_t> holding;                             // their tids
  size_t limits = 0;
  PythonStatusFact status = {};
  std::string reason;
  uint64_t total = 0, on_cpu = 0;

 private:
  void TakeCode(const uint8_t* bytes, size_t size) {
    PythonCodeFact fact;
    ASSERT_GE(size, sizeof(fact));
    std::memcpy(&fact, bytes, sizeof(fact));
    ASSERT_EQ(size, sizeof(fact) + fact.name_bytes + fact.file_bytes + fact.table_bytes);
    names[fact.code].assign(reinterpret_cast<const char*>(bytes) + sizeof(fact), fact.name_bytes);
  }
  void TakeNodes(const uint8_t* bytes, size_t size) {
    for (size_t at = sizeof(PythonStacksFact); at < size; at += sizeof(PythonNode)) {
      PythonNode node;
      std::memcpy(&node, bytes + at, sizeof(node));
      EXPECT_TRUE(names.contains(node.code));
      EXPECT_TRUE(node.parent == 0 || nodes.contains(node.parent));
      nodes[node.node] = node;
    }
  }
  void TakeSamples(const uint8_t* bytes, size_t size) {
    for (size_t at = sizeof(PythonSamplesFact); at < size; at += sizeof(PythonSample)) {
      PythonSample sample;
      std::memcpy(&sample, bytes + at, sizeof(sample));
      EXPECT_TRUE(sample.node == 0 || nodes.contains(sample.node));
      EXPECT_LE(sample.first_ticks, sample.last_ticks);
      EXPECT_GT(sample.samples, 0u);
      EXPECT_LE(sample.on_cpu, sample.samples);
      total += sample.samples;
      on_cpu += sample.on_cpu;
      samples.push_back(sample);
    }
  }
  void TakeUsage(const uint8_t* bytes, size_t size) {
    for (size_t at = sizeof(ThreadUsageFact); at < size; at += sizeof(ThreadUsageRow)) {
      ThreadUsageRow row;
      std::memcpy(&row, bytes + at, sizeof(row));
      std::vector<ThreadUsageRow>& rows = usage[row.tid];
      if (!rows.empty()) {
        EXPECT_GT(row.ticks, rows.back().ticks);
        EXPECT_GE(row.cpu_ns, rows.back().cpu_ns);
        EXPECT_GE(row.run_delay_ns, rows.back().run_delay_ns);
      }
      rows.push_back(row);
    }
  }
  void TakeHolders(const uint8_t* bytes, size_t size) {
    EXPECT_EQ((size - sizeof(ThreadUsageFact)) % sizeof(GilHolderRow), 0u);
    for (size_t at = sizeof(ThreadUsageFact); at < size; at += sizeof(GilHolderRow)) {
      GilHolderRow row;
      std::memcpy(&row, bytes + at, sizeof(row));
      EXPECT_TRUE(row.node == 0 || nodes.contains(row.node));
      ++holders[row.node == 0 ? "" : names[nodes[row.node].code]];
      holding.insert(row.tid);
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
};

std::string AnyPython() {
  const auto pythons = InstalledPythons();
  for (const std::string& python : pythons) {
    if (python.find("3.11") != std::string::npos) return python;
  }
  return pythons.empty() ? "" : pythons.front();
}

class StackSamplerTest : public testing::Test {
 protected:
  void SetUp() override {
    if (AnyPython().empty()) GTEST_SKIP() << "no CPython 3.8 to 3.15 is installed";
  }
  template <typename Condition>
  void SampleUntil(const PythonProgram& program, Condition condition) {
    StackSampler sampler({.rate = 1000, .max_cpu_share = 1}, spool_.Emit());
    sampler.AddProcess({.segment = 7, .serial = 1, .pid = program.pid()});
    sampler.SetArmed(true);
    EXPECT_TRUE(spool_.WaitFor(condition));
    sampler.SetArmed(false);
    ASSERT_TRUE(sampler.Flush(seconds(30)));
  }
  Spool spool_;
};

// While it changes, memory is read every 100 ms.
TEST_F(StackSamplerTest, MemoryOfAProcess_IsReadWhileItGrows) {
  PythonProgram program(AnyPython(),
                        "import time\nkept = []\n"
                        "while True:\n    kept.append(bytearray(b'x') * (1 << 20))\n    time.sleep(0.02)\n");
  SampleUntil(program, [&] { return spool_.resident.size() >= 16; });
  ASSERT_GE(spool_.resident.size(), 16u);
  const ResidentRow& first = spool_.resident.front();
  const ResidentRow& last = spool_.resident.back();
  EXPECT_GT(first.file_bytes, 1u << 20);
  EXPECT_GT(last.anonymous_bytes, first.anonymous_bytes + (5u << 20));
  EXPECT_GE(last.peak_bytes, last.anonymous_bytes + last.file_bytes);
  for (size_t i = 1; i < spool_.resident.size(); ++i) {
    EXPECT_GT(spool_.resident[i].ticks, spool_.resident[i - 1].ticks);
  }
}

TEST_F(StackSamplerTest, RunningThreads_WhileArmed_AreSampledWithTheirIds) {
  PythonProgram program(AnyPython(), kFamilies);
  std::set<int> tids;
  for (std::string line = program.ReadLine(); !line.empty() && line != "ready"; line = program.ReadLine()) {
    tids.insert(std::stoi(line.substr(line.find(' ') + 1)));
  }
  StackSampler sampler({.rate = 1000, .max_cpu_share = 1}, spool_.Emit());
  sampler.AddProcess({.segment = 7, .serial = 3, .pid = program.pid()});
  sampler.SetArmed(true);
  EXPECT_TRUE(spool_.WaitFor([&] { return spool_.total >= 3000; }));
  sampler.SetArmed(false);
  ASSERT_TRUE(sampler.Flush(seconds(30)));
  std::set<int> seen;
  bool spins = false;
  for (const PythonSample& sample : spool_.samples) {
    seen.insert(sample.tid);
    if (sample.node != 0 && spool_.names[spool_.nodes[sample.node].code] == "spin") spins = true;
  }
  for (int tid : tids) EXPECT_TRUE(seen.contains(tid)) << tid;
  EXPECT_TRUE(spins);
  EXPECT_EQ(spool_.status.state, kPythonSampled);
  EXPECT_EQ(spool_.status.minor, 11);
  EXPECT_EQ(spool_.status.process_serial, 3u);
  EXPECT_EQ(spool_.status.samples, spool_.total);
  EXPECT_GT(spool_.on_cpu, 0u);
  EXPECT_EQ(spool_.limits, 1u);
  if (spool_.usage.empty()) GTEST_SKIP() << "this kernel does not count";
  for (int tid : tids) {
    const std::vector<ThreadUsageRow>& rows = spool_.usage[tid];
    ASSERT_GE(rows.size(), 2u) << tid;
    // At most one row per 50 ms, and one more after a time without changes.
    const uint64_t ns = rows.back().ticks - rows.front().ticks;
    EXPECT_LE(rows.size(), 2 * ns / 50'000'000 + 4) << tid;
  }
}

TEST_F(StackSamplerTest, SamplerThatIsNotArmed_Flushed_HasEmittedNothing) {
  PythonProgram program(AnyPython(), kFamilies);
  ASSERT_TRUE(program.WaitUntilReady());
  StackSampler sampler({.rate = 1000}, spool_.Emit());
  sampler.AddProcess({.segment = 7, .serial = 1, .pid = program.pid()});
  ASSERT_TRUE(sampler.Flush(seconds(30)));
  EXPECT_EQ(spool_.total, 0u);
  EXPECT_TRUE(spool_.nodes.empty());
}

TEST_F(StackSamplerTest, IdleThread_IsOneRunWithoutCpu) {
  PythonProgram program(AnyPython(), "import sys\nprint('ready', flush=True)\nsys.stdin.read()\n");
  ASSERT_TRUE(program.WaitUntilReady());
  SampleUntil(program, [&] { return spool_.total >= 1000; });
  std::set<uint32_t> nodes;
  for (const PythonSample& sample : spool_.samples) nodes.insert(sample.node);
  EXPECT_LE(nodes.size(), 2u);  // before it waits, and while it waits
  EXPECT_LT(spool_.on_cpu * 10, spool_.total);
}

// `compress` releases the GIL for nearly all of its time, `loop` holds it.
TEST_F(StackSamplerTest, ThreadInACallThatReleasesTheGil_DoesNotHoldIt) {
  PythonProgram program(AnyPython(), R"(
import threading, zlib
def compress():
    data = bytes(range(256)) * 20000
    while True: zlib.compress(data, 9)
def loop():
    while True:
        for i in range(1000): pass
threading.Thread(target=compress, daemon=True).start()
threading.Thread(target=loop, daemon=True).start()
print('ready', flush=True)
import sys
sys.stdin.read()
)");
  ASSERT_TRUE(program.WaitUntilReady());
  SampleUntil(program, [&] { return spool_.holders["loop"] >= 200; });
  EXPECT_LT(spool_.holders["compress"] * 10, spool_.holders["loop"]);
  EXPECT_EQ(spool_.holders.count("<module>"), 0u);  // blocked in read()
}

// A thread that sleeps with the GIL held stops all others.
TEST_F(StackSamplerTest, SleepingThreadThatHoldsTheGil_IsSampled) {
  PythonProgram program(AnyPython(), R"(
import ctypes, sys, threading
def stop():
    sleep = ctypes.PyDLL(None).usleep
    while True: sleep(400000)
threading.Thread(target=stop, daemon=True).start()
print('ready', flush=True)
sys.stdin.read()
)");
  ASSERT_TRUE(program.WaitUntilReady());
  SampleUntil(program, [&] { return spool_.holders["stop"] >= 200; });
  EXPECT_EQ(spool_.holding.size(), 1u);
}

TEST_F(StackSamplerTest, ThreadThatIsAlone_IsNoHolder) {
  PythonProgram program(AnyPython(), "print('ready', flush=True)\nwhile True: pass\n");
  ASSERT_TRUE(program.WaitUntilReady());
  SampleUntil(program, [&] { return spool_.total >= 200; });
  EXPECT_TRUE(spool_.holding.empty());
}

TEST_F(StackSamplerTest, ProgramWithoutPython_HasNoStatus) {
  StackSampler sampler({.rate = 1000}, spool_.Emit());
  sampler.AddProcess({.segment = 7, .serial = 1, .pid = getpid()});
  sampler.SetArmed(true);
  ASSERT_TRUE(sampler.Flush(seconds(30)));
  ASSERT_TRUE(sampler.Flush(seconds(30)));
  EXPECT_EQ(spool_.status.state, 0);
  EXPECT_EQ(spool_.total, 0u);
}

TEST_F(StackSamplerTest, ProgramThatEnds_KeepsItsSamples) {
  PythonProgram program(AnyPython(), kFamilies);
  ASSERT_TRUE(program.WaitUntilReady());
  StackSampler sampler({.rate = 1000, .max_cpu_share = 1}, spool_.Emit());
  sampler.AddProcess({.segment = 7, .serial = 1, .pid = program.pid()});
  sampler.SetArmed(true);
  EXPECT_TRUE(spool_.WaitFor([&] { return spool_.total >= 100; }));
  program.CloseInput();
  program.Wait();
  ASSERT_TRUE(sampler.Flush(seconds(30)));
  sampler.RemoveProcess(7, 1);
  ASSERT_TRUE(sampler.Flush(seconds(30)));
  EXPECT_EQ(spool_.status.samples, spool_.total);
}

}  // namespace
}  // namespace tbprof
