// SPDX-License-Identifier: Apache-2.0
//
// The last samples of processes that a signal ended. Ticks are nanoseconds; a sample each 10 ms.
#include "writer/convert/python_last_stacks.h"

#include <csignal>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/unit/writer/spool_maker.h"
#include "writer/outputs/summary.h"

namespace tbprof {
namespace {

using Json = nlohmann::json;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr uint64_t kMs = 1'000'000;

PythonSample At(uint64_t first_ms, uint64_t last_ms, uint32_t node, uint32_t samples, int32_t tid = 100) {
  return {first_ms * kMs, last_ms * kMs, tid, node, samples, 0};
}

// The command with its main thread and two others; main -> work, run -> work.
SpoolMaker Program() {
  SpoolMaker spool;
  spool.Session(kMs).Segment(1, {{"read", kFamilyIo, ObjectRole::kDescriptor, ResultRole::kBytes}});
  spool.Process(1, 1, 100, kMs).Thread(1, 1, 1, 100, kMs).Thread(1, 2, 1, 101, kMs);
  spool.Thread(1, 3, 1, 102, kMs, 300 * kMs);
  spool.Chunk(1, 1, 1).Info(ProcessInfoKey::kExecutable, "/usr/bin/python3").EndChunk();
  spool.Chunk(1, 1, 2).ThreadName(2 * kMs, "Loader-3", 2).EndChunk();
  spool.PythonStatus(1, 1, 2 * kMs, kPythonSampled);
  spool.PythonCode(1, 1, 1, "main", "/home/u/train.py", 40);
  spool.PythonCode(1, 1, 2, "work", "/home/u/train.py", 10);
  spool.PythonCode(1, 1, 3, "Thread._bootstrap", "/usr/lib/python3.11/threading.py", 900);
  spool.PythonNodes(1, 1, {{1, 0, 1, 2}, {2, 1, 2, 4}, {3, 0, 3, 0}, {4, 3, 2, 2}});
  spool.PythonSamples(1, 1, {At(100, 190, 1, 10), At(200, 492, 2, 30), At(100, 480, 4, 39, 101)});
  spool.PythonSamples(1, 1, {At(100, 290, 4, 20, 102)});
  return spool;
}

std::string ExitFrame(uint32_t process, uint64_t at_ms, int exit_code, int exit_signal) {
  ExitFact fact{};
  fact.ticks = at_ms * kMs;
  fact.process_serial = process;
  fact.exit_code = exit_code;
  fact.exit_signal = exit_signal;
  return std::string(reinterpret_cast<const char*>(&fact), sizeof(fact));
}

SpoolMaker Ended(int exit_code, int exit_signal) {
  SpoolMaker spool = Program();
  spool.Raw(FrameType::kExit, 1, ExitFrame(1, 500, exit_code, exit_signal));
  spool.End(501 * kMs, exit_code, exit_signal);
  return spool;
}

Timeline BuildGood(const SpoolMaker& spool, const TimelineRequest& request = {}) {
  auto timeline = spool.Build(request);
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  return timeline.ok() ? *std::move(timeline) : Timeline();
}

TEST(PythonLastStacks, ProcessKilledBySignal_HasTheLastSampleOfEachThreadThatLived) {
  const Timeline timeline = BuildGood(Ended(-1, SIGSEGV));
  const std::vector<PythonLastStack>& stacks = timeline.python.last_stacks;
  ASSERT_EQ(stacks.size(), 2u);
  EXPECT_TRUE(timeline.threads[stacks[0].thread].is_main);
  EXPECT_EQ(stacks[0].age_ps, 8'000'000'000);
  EXPECT_EQ(SampledStackText(timeline, stacks[0].stack, 10), "work (train.py:12) < main (train.py:41)");
  EXPECT_EQ(timeline.threads[stacks[1].thread].name, "Loader-3");
  EXPECT_EQ(stacks[1].age_ps, 20'000'000'000);
  EXPECT_EQ(SampledStackText(timeline, stacks[1].stack, 10), "work (train.py:11)");
}

TEST(PythonLastStacks, TerminalNotesAndSummary_ShowThem) {
  const Timeline timeline = BuildGood(Ended(-1, SIGSEGV));
  const std::vector<std::string> lines = SummaryText(timeline, {}, {});
  EXPECT_THAT(lines,
              Contains("python  last samples of python3 (100), killed by SIGSEGV; not necessarily where it ended"));
  EXPECT_THAT(lines, Contains("      main thread, 8.00 ms before the end: work (train.py:12) < main (train.py:41)"));
  EXPECT_THAT(lines, Contains("      Loader-3/101, 20.0 ms before the end: work (train.py:11)"));
  EXPECT_THAT(timeline.notes, Contains(HasSubstr("last sample of the main thread of python3 (100), 8.00 ms before the "
                                                 "process was killed by SIGSEGV (it may have been elsewhere by then): "
                                                 "work (train.py:12) < main (train.py:41)")));
  const Json last = Json::parse(SummaryJson(timeline, {}, {}))["python"]["last_stacks"];
  ASSERT_EQ(last.size(), 2u);
  EXPECT_EQ(last[0]["signal"], SIGSEGV);
  EXPECT_EQ(last[0]["frames"][0]["line"], 12);
  EXPECT_EQ(last[0]["frames"][1]["function"], "main");
  EXPECT_EQ(last[0]["frame_count"], 2);
  EXPECT_NEAR(last[0]["age_s"].get<double>(), 0.008, 1e-9);
  EXPECT_EQ(last[1]["thread"], "Loader-3");
}

TEST(PythonLastStacks, ProcessThatEndedByItself_HasNone) {
  for (const auto& [code, signal] : {std::pair(0, 0), std::pair(1, 0), std::pair(-1, SIGINT)}) {
    const Timeline timeline = BuildGood(Ended(code, signal));
    EXPECT_TRUE(timeline.python.last_stacks.empty()) << code << " " << signal;
    EXPECT_THAT(SummaryText(timeline, {}, {}), Not(Contains(HasSubstr("last samples"))));
  }
}

TEST(PythonLastStacks, Sigterm_CountsForTheCommandAlone) {
  EXPECT_FALSE(BuildGood(Ended(-1, SIGTERM)).python.last_stacks.empty());
  const auto ended = [](int signal) {
    SpoolMaker spool = Program();
    spool.Process(1, 2, 200, kMs).Thread(1, 4, 2, 200, kMs);
    spool.PythonCode(1, 2, 1, "worker", "/home/u/data.py", 5).PythonNodes(1, 2, {{1, 0, 1, 0}});
    spool.PythonSamples(1, 2, {At(100, 390, 1, 30, 200)});
    spool.Raw(FrameType::kExit, 1, ExitFrame(2, 400, -1, signal));
    return BuildGood(spool.End(501 * kMs, 0));
  };
  EXPECT_TRUE(ended(SIGTERM).python.last_stacks.empty());
  const Timeline killed = ended(SIGKILL);
  ASSERT_EQ(killed.python.last_stacks.size(), 1u);
  EXPECT_EQ(SampledStackText(killed, killed.python.last_stacks[0].stack, 10), "worker (data.py:5)");
}

// Samples of the window do not show where a program was that ended much later.
TEST(PythonLastStacks, WindowThatClosedBeforeTheEnd_HasNone) {
  SpoolMaker spool = Program();
  spool.Window(1, WindowEvent::kOpened, 150 * kMs).Window(1, WindowEvent::kClosed, 300 * kMs);
  spool.Raw(FrameType::kExit, 1, ExitFrame(1, 90'000, -1, SIGSEGV));
  spool.End(90'001 * kMs, -1, SIGSEGV);
  TimelineRequest request;
  request.window = 1;
  const Timeline timeline = BuildGood(spool, request);
  EXPECT_FALSE(timeline.python.threads.empty());
  EXPECT_TRUE(timeline.python.last_stacks.empty());
}

TEST(PythonLastStacks, LongStack_IsCutAndSaysSo) {
  const Timeline timeline = BuildGood(Ended(-1, SIGABRT));
  EXPECT_EQ(SampledStackText(timeline, timeline.python.last_stacks.at(0).stack, 1), "work (train.py:12) < ...");
}

}  // namespace
}  // namespace tbprof
