// SPDX-License-Identifier: Apache-2.0
//
// Core files of a spool in the timeline, the terminal's text and the summary. Ticks are nanoseconds.
#include "writer/convert/core_stacks.h"

#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/unit/writer/spool_maker.h"
#include "writer/convert/python_last_stacks.h"
#include "writer/outputs/summary.h"

namespace tbprof {
namespace {

using Json = nlohmann::json;
using testing::Contains;
using testing::HasSubstr;

constexpr uint64_t kMs = 1'000'000;
constexpr uint32_t kN = kCoreNumbers;

struct Core {
  uint16_t state = kCoreRead;
  int32_t signal = SIGSEGV;
  std::vector<CoreThread> threads = {};
  std::string path = "/work/core.100", reason = "";
};

std::string CoreFrame(const Core& core) {
  CoreFact fact{};
  fact.ticks = 500 * kMs;
  fact.process_serial = 1;
  fact.state = core.state;
  fact.signal = core.signal;
  fact.flags = kCoreFaultAddress;
  fact.fault_address = 0x10;
  fact.threads = static_cast<uint32_t>(core.threads.size());
  fact.thread_count = core.threads.size();
  const CoreModule module = {0x1000, 0x2000, 0, 12, 2};
  fact.modules = 1;
  fact.path_bytes = static_cast<uint32_t>(core.path.size());
  fact.reason_bytes = static_cast<uint32_t>(core.reason.size());
  std::string payload(reinterpret_cast<const char*>(&fact), sizeof(fact));
  for (const CoreThread& row : core.threads) payload.append(reinterpret_cast<const char*>(&row), sizeof(row));
  payload.append(reinterpret_cast<const char*>(&module), sizeof(module));
  return payload + core.path + core.reason + "/lib/gone.so" + "ID";
}

// The command with its main thread and two others, sampled, then killed.
SpoolMaker Ended() {
  SpoolMaker spool;
  spool.Session(kMs).Segment(1, {{"read", kFamilyIo, ObjectRole::kDescriptor, ResultRole::kBytes}});
  spool.Process(1, 1, 100, kMs).Thread(1, 1, 1, 100, kMs).Thread(1, 2, 1, 101, kMs).Thread(1, 3, 1, 102, kMs);
  spool.Chunk(1, 1, 1).Info(ProcessInfoKey::kExecutable, "/usr/bin/python3").EndChunk();
  spool.PythonStatus(1, 1, 2 * kMs, kPythonSampled);
  spool.PythonCode(1, 1, 1, "main", "/home/u/train.py", 40).PythonCode(1, 1, 2, "work", "/home/u/train.py", 10);
  spool.PythonNodes(1, 1, {{1, 0, 1, 2}, {2, 1, 2, 4}});
  for (const int32_t tid : {100, 101, 102}) spool.PythonSamples(1, 1, {{100 * kMs, 490 * kMs, tid, 2, 40, 0}});
  ExitFact fact{};
  fact.ticks = 500 * kMs;
  fact.process_serial = 1;
  fact.exit_code = -1;
  fact.exit_signal = SIGSEGV;
  spool.Raw(FrameType::kExit, 1, std::string(reinterpret_cast<const char*>(&fact), sizeof(fact)));
  return spool;
}

SpoolMaker WithCore(const Core& core) {
  SpoolMaker spool = Ended();
  spool.PythonCode(1, 1, kN + 1, "main", "/home/u/train.py", 40);
  spool.PythonCode(1, 1, kN + 2, "load", "/home/u/data.py", 5);
  spool.PythonNodes(1, 1, {{kN + 1, 0, kN + 1, 2}, {kN + 2, kN + 1, kN + 2, 0}});
  spool.NativeNodes(1, 1, {{kN + 1, 0, 0}, {kN + 2, kN + 1, 0x1234}, {kN + 3, 0, 0x1240}});
  spool.Raw(FrameType::kCore, 1, CoreFrame(core));
  return spool;
}

// 101 got the signal; 102 is not in Python.
const Core kThree = {.threads = {{101, kN + 2, kN + 2, 0}, {100, kN + 1, kN + 3, 0}, {102, 0, kN + 3, 0}}};

std::vector<std::string> Terminal(const Timeline& timeline) {
  SummaryOptions options;
  options.max_lines = 100;
  return SummaryText(timeline, {}, options);
}

Timeline BuildGood(SpoolMaker&& spool) {
  auto timeline = spool.End(501 * kMs, -1, SIGSEGV).Build({});
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  return timeline.ok() ? *std::move(timeline) : Timeline();
}

TEST(CoreStacks, ReadCore_HasTheStacksOfItsThreads) {
  const Timeline timeline = BuildGood(WithCore(kThree));
  EXPECT_EQ(timeline.corrupt_records, 0u);
  ASSERT_EQ(timeline.cores.size(), 1u);
  const CoreDump& core = timeline.cores[0];
  EXPECT_EQ(core.path, "/work/core.100");
  EXPECT_EQ(CrashText(timeline, core), "python3 (100), killed by SIGSEGV at address 0x10");
  ASSERT_EQ(core.threads.size(), 3u);
  EXPECT_TRUE(core.threads[0].got_signal);
  EXPECT_EQ(timeline.threads[core.threads[0].thread].tid, 101);
  EXPECT_EQ(SampledStackText(timeline, core.threads[0].python_stack, 10), "load (data.py:5) < main (train.py:41)");
  // Named by the core's own modules; its callers are unknown.
  EXPECT_EQ(NativeStackText(timeline, core.threads[0].native_stack, 10, false), "gone.so+0x1234 < ...");
  EXPECT_FALSE(core.threads[1].got_signal);
}

TEST(CoreStacks, LastStacks_AreTheCoresWhereItHasThem) {
  const Timeline timeline = BuildGood(WithCore(kThree));
  const std::vector<PythonLastStack>& stacks = timeline.python.last_stacks;
  ASSERT_EQ(stacks.size(), 3u);
  EXPECT_EQ(timeline.threads[stacks[0].thread].tid, 101);
  EXPECT_TRUE(stacks[0].exact);
  EXPECT_EQ(stacks[0].age_ps, 0);
  EXPECT_TRUE(stacks[1].exact);
  EXPECT_EQ(timeline.threads[stacks[2].thread].tid, 102);
  EXPECT_FALSE(stacks[2].exact);
}

TEST(CoreStacks, TerminalNotesAndSummary_ShowThem) {
  const Timeline timeline = BuildGood(WithCore(kThree));
  const std::vector<std::string> lines = Terminal(timeline);
  EXPECT_THAT(lines, Contains("core    python3 (100), killed by SIGSEGV at address 0x10; its stacks then, exact"));
  EXPECT_THAT(lines, Contains("      thread 101 got the signal: load (data.py:5) < main (train.py:41)"));
  EXPECT_THAT(lines, Contains(HasSubstr("in C: gone.so+0x1234 < ...")));
  EXPECT_THAT(lines, Contains(HasSubstr("from /work/core.100")));
  EXPECT_THAT(timeline.notes,
              Contains(HasSubstr("from its core file /work/core.100: thread 101 was in gone.so+0x1234")));
  const Json summary = Json::parse(SummaryJson(timeline, {}, {}));
  const Json& core = summary["cores"].at(0);
  EXPECT_EQ(core["fault_address"], "0x10");
  EXPECT_EQ(core["state"], "read");
  EXPECT_EQ(core["threads"][0]["frames"][0]["function"], "load");
  EXPECT_EQ(core["threads"][0]["native_complete"], false);
  EXPECT_EQ(core["threads"][0]["native_frame_count"], 1);
  EXPECT_EQ(core["threads"][1]["native_complete"], true);
  EXPECT_EQ(summary["python"]["last_stacks"][0]["source"], "core");
  EXPECT_EQ(summary["python"]["last_stacks"][2]["source"], "sample");
}

TEST(CoreStacks, CoreThatIsNotRead_KeepsTheSamplesAndSaysWhereItIs) {
  Core piped = {.state = kCorePiped, .path = "/usr/lib/systemd/systemd-coredump"};
  const Timeline taken = BuildGood(WithCore(piped));
  EXPECT_EQ(taken.python.last_stacks.size(), 3u);
  EXPECT_FALSE(taken.python.last_stacks[0].exact);
  EXPECT_THAT(Terminal(taken), Contains(HasSubstr("systemd-coredump; its stacks: coredumpctl info 100")));
  const Timeline unread = BuildGood(WithCore({.state = kCoreUnread, .path = "", .reason = "core file not found: x"}));
  EXPECT_THAT(Terminal(unread), Contains("      core file not found: x"));
  EXPECT_EQ(Json::parse(SummaryJson(unread, {}, {}))["cores"][0]["state"], "unread");
}

TEST(CoreStacks, FrameCutAnywhere_IsCorrupt) {
  const std::string whole = CoreFrame(kThree);
  for (size_t size = 0; size < whole.size(); ++size) {
    CoreFileFacts facts;
    Frame frame{};
    frame.type = FrameType::kCore;
    frame.segment = 1;
    frame.payload = std::string_view(whole).substr(0, size);
    EXPECT_TRUE(facts.Take(frame));
    EXPECT_EQ(facts.corrupt(), 1u) << size;
    EXPECT_TRUE(facts.cores().empty());
  }
}

TEST(CoreStacks, NumbersThatCannotBe_AreCorruptOrPassedOver) {
  Core wrong = kThree;
  wrong.signal = 1000;
  EXPECT_EQ(BuildGood(WithCore(wrong)).corrupt_records, 1u);
  wrong = kThree;
  wrong.state = 9;
  EXPECT_EQ(BuildGood(WithCore(wrong)).corrupt_records, 1u);
  wrong = kThree;
  wrong.threads[0] = {-5, kN + 77, kN + 99, 0};
  const Timeline timeline = BuildGood(WithCore(wrong));
  ASSERT_EQ(timeline.cores.size(), 1u);
  EXPECT_EQ(timeline.cores[0].threads.size(), 2u);
  // A second core file of the same process is invalid: a process ends once.
  SpoolMaker twice = WithCore(kThree);
  twice.Raw(FrameType::kCore, 1, CoreFrame(kThree));
  EXPECT_EQ(BuildGood(std::move(twice)).corrupt_records, 1u);
}

}  // namespace
}  // namespace tbprof
