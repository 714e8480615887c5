// SPDX-License-Identifier: Apache-2.0
//
// Processes and threads of a spool, and their places in the timeline.
#include "writer/convert/process_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/writer/host_fixture.h"
#include "writer/convert/failed_processes.h"

namespace tbprof {
namespace {

using ProcessModelTest = HostFixture;

TEST_F(ProcessModelTest, ProcessesOutsideWindow_AreLeftOut) {
  AddProcess({1, 1}, 100, 10, 500);    // ended before it opened
  AddProcess({2, 1}, 101, 20, 2000);   // ended in it
  AddProcess({3, 1}, 102, 2'000'000);  // started after it closed
  Build();
  EXPECT_EQ(model_.IndexOfProcess({1, 1}), kNoProcess);
  EXPECT_EQ(model_.IndexOfProcess({2, 1}), 0u);
  EXPECT_EQ(model_.IndexOfProcess({3, 1}), kNoProcess);
  ASSERT_EQ(timeline_.processes.size(), 1u);
  EXPECT_TRUE(timeline_.processes[0].is_command);
}

TEST_F(ProcessModelTest, FailedProcesses_AreThoseThatEndedByTheClose) {
  AddProcess({1, 1}, 100, 10);
  ProcessFacts& killed = AddProcess({2, 1}, 101, 20, 30'000);
  killed.exit_signal = 9;
  killed.out_of_memory = true;
  killed.parent_pid = 100;
  AddProcess({3, 1}, 102, 20, 500).exit_code = 2;
  AddProcess({4, 1}, 103, 20, 600).exit_code = 0;
  AddProcess({5, 1}, 104, 20, 2'000'000).exit_code = 2;  // after the close
  const std::vector<FailedProcess> failed = FindFailedProcesses(window_, &facts_);
  ASSERT_EQ(failed.size(), 2u);
  EXPECT_EQ(failed[0].pid, 102);
  EXPECT_EQ(failed[0].how, "exit status 2");
  EXPECT_LT(failed[0].end_ps, 0);  // before the window
  EXPECT_GT(failed[1].end_ps, 0);
  EXPECT_EQ(failed[1].parent_pid, 100);
  EXPECT_EQ(failed[1].how, "killed by SIGKILL (out of memory)");
}

TEST_F(ProcessModelTest, ThreadsOfTheLibrary_AreLeftOut) {
  AddProcess({1, 1}, 100, 1000);
  AddThread({1, 1}, 1, 100, 1000);
  AddThread({1, 2}, 1, 105, 1500).is_own = true;
  AddThread({1, 3}, 9, 106, 1500);  // of an unknown process
  Build();
  EXPECT_EQ(model_.IndexOfThread({1, 1}), 0u);
  EXPECT_EQ(model_.IndexOfThread({1, 2}), kNoLine);
  EXPECT_EQ(model_.IndexOfThread({1, 3}), kNoLine);
  ASSERT_EQ(timeline_.threads.size(), 1u);
  EXPECT_TRUE(timeline_.threads[0].is_main);
}

TEST_F(ProcessModelTest, ForkChild_HasItsParentAndLaterProcessesAreNone) {
  AddProcess({1, 1}, 100, 1000);
  ProcessFacts& child = AddProcess({1, 2}, 101, 2000);
  child.forked = true;
  child.parent_serial = 1;
  AddProcess({2, 1}, 300, 1500).parent_pid = 101;  // the process with this pid began later
  Build();
  EXPECT_EQ(timeline_.processes[model_.IndexOfProcess({1, 2})].parent, 0);
  EXPECT_EQ(timeline_.processes[model_.IndexOfProcess({2, 1})].parent, -1);
}

TEST_F(ProcessModelTest, ReusedThreadNumber_GivesTheThreadOfThatTime) {
  AddProcess({1, 1}, 100, 1000);
  AddThread({1, 1}, 1, 100, 1000);
  AddThread({1, 2}, 1, 120, 2000, 3000);
  AddThread({1, 3}, 1, 120, 4000);
  Build();
  EXPECT_EQ(model_.LineOfThread(0, 120, 2500), model_.IndexOfThread({1, 2}));
  EXPECT_EQ(model_.LineOfThread(0, 120, 5000), model_.IndexOfThread({1, 3}));
  EXPECT_EQ(model_.LineOfThread(0, 120, 3500), model_.IndexOfThread({1, 2})) << "the latest that had begun";
}

TEST_F(ProcessModelTest, UnknownThread_GetsOneLine) {
  AddProcess({1, 1}, 100, 1000);
  Build();
  const uint32_t line = model_.LineOfThread(0, 777, 2000);
  EXPECT_EQ(timeline_.threads[line].name, "thread 777");
  EXPECT_TRUE(timeline_.threads[line].is_line);
  EXPECT_EQ(model_.LineOfThread(0, 777, 9000), line);
}

TEST_F(ProcessModelTest, TooManyLines_GiveNone) {
  AddProcess({1, 1}, 100, 1000);
  Build();
  uint32_t given = 0;
  while (given < 5000 && model_.LineOf(0, std::to_string(given)) != kNoLine) ++given;
  EXPECT_EQ(given, 1000u);
  EXPECT_EQ(model_.LineOf(0, "0"), 0u) << "those that are there stay";
}

TEST_F(ProcessModelTest, ProcessOfInterest_IsTheOneThatUsedDevices) {
  AddProcess({1, 1}, 100, 1000);
  AddProcess({2, 1}, 101, 1100).parent_pid = 100;
  Build();
  EXPECT_EQ(model_.ProcessOfInterest({}), 0u);
  EXPECT_EQ(model_.ProcessOfInterest({{0, 5}, {1, 9}}), 1u);
}

TEST_F(ProcessModelTest, CommandThatOnlyWaits_PassesInterestToItsLongestChild) {
  AddProcess({1, 1}, 100, 1000, 900'000);
  AddProcess({2, 1}, 101, 1100, 2000).parent_pid = 100;
  AddProcess({3, 1}, 102, 1200, 800'000).parent_pid = 100;
  timeline_.types = {{"waitpid", EventFamily::kProcess, ObjectKind::kProcessId, ValueKind::kProcessId}};
  Build();
  EXPECT_EQ(model_.ProcessOfInterest({}), 0u);
  OperationTotal waited;
  waited.total_ps = 800'000'000;
  timeline_.processes[0].operations = {waited};
  EXPECT_EQ(model_.ProcessOfInterest({}), model_.IndexOfProcess({3, 1}));
}

}  // namespace
}  // namespace tbprof
