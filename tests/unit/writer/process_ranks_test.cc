// SPDX-License-Identifier: Apache-2.0
//
// Ranks by the variables of processes: which processes are shown, which ranks are missing, and how each rank ended.
#include "writer/convert/ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "writer/convert/timeline_builder.h"

namespace tbprof {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class RanksTest : public testing::Test {
 protected:
  RanksTest() {
    ClockFact pair{};
    facts_.clock.Add(pair);  // a tick is a nanosecond
    EXPECT_TRUE(facts_.clock.Finish());
    window_.open = 1000;
    window_.close = facts_.close_ticks = 100'000;
    timeline_.ranks_recorded = "all";
  }
  // A process in a segment of its own. `rank`: torchrun's; -1: none.
  ProcessFacts& Add(uint32_t segment, int32_t pid, int rank, int world = 4) {
    ProcessFacts& process = facts_.processes[{segment, 1}];
    process.pid = pid;
    process.start_ticks = 10 * segment;
    if (rank >= 0) {
      process.ranks = {
          {"RANK", std::to_string(rank)}, {"LOCAL_RANK", std::to_string(rank)}, {"WORLD_SIZE", std::to_string(world)}};
    }
    return process;
  }
  // The segments of the chosen processes.
  std::vector<uint32_t> Choose(int wanted = kAnyRank) {
    std::vector<std::pair<uint64_t, Identity>> order;
    for (const auto& [identity, process] : facts_.processes) order.emplace_back(process.start_ticks, identity);
    ranks_.Choose(wanted, &order);
    std::vector<uint32_t> segments;
    for (const auto& [ticks, identity] : order) segments.push_back(identity.segment);
    return segments;
  }

  SessionFacts session_;
  CaptureWindow window_;
  SpoolFacts facts_;
  Timeline timeline_;
  Ranks ranks_{session_, window_, &facts_, &timeline_};
};

TEST_F(RanksTest, NoRank_ShowsAllProcesses) {
  Add(1, 100, -1);
  Add(2, 101, -1);
  EXPECT_THAT(Choose(), ElementsAre(1, 2));
  EXPECT_EQ(timeline_.rank, -1);
  EXPECT_THAT(timeline_.by_rank, IsEmpty());
  EXPECT_THAT(timeline_.missing_ranks, IsEmpty());
}

TEST_F(RanksTest, Processes_BelongToTheirNearestAncestorsRank) {
  Add(1, 100, -1);  // torchrun
  Add(2, 101, 2).parent_pid = 100;
  Add(3, 102, 3).parent_pid = 100;
  Add(4, 103, -1).parent_pid = 102;  // belongs to rank 3
  Add(5, 104, -1).parent_pid = 103;  // its child, too
  EXPECT_THAT(Choose(), ElementsAre(1, 2));
  EXPECT_EQ(timeline_.rank, 2);
  EXPECT_THAT(timeline_.further_ranks, ElementsAre(3));
}

TEST_F(RanksTest, WantedRank_IsShownWithoutWhatHasNone) {
  Add(1, 100, -1);
  Add(2, 101, 2).parent_pid = 100;
  Add(3, 102, 3).parent_pid = 100;
  EXPECT_THAT(Choose(3), ElementsAre(3));
  EXPECT_EQ(timeline_.rank, 3);
  EXPECT_THAT(timeline_.further_ranks, IsEmpty());
}

TEST_F(RanksTest, RanksWithoutAProcess_AreMissing) {
  Add(1, 100, 0);
  Add(2, 101, 2);
  Choose();
  EXPECT_THAT(timeline_.missing_ranks, ElementsAre(1, 3));
  ASSERT_THAT(timeline_.by_rank, SizeIs(4));
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(timeline_.by_rank[static_cast<size_t>(rank)].rank, rank);
    EXPECT_EQ(timeline_.by_rank[static_cast<size_t>(rank)].state == RankState::kMissing, rank % 2 == 1);
  }
}

TEST_F(RanksTest, RanksOfOtherNodes_AreNotMissingHere) {
  ProcessFacts& process = Add(1, 100, 2, 8);
  process.ranks["LOCAL_WORLD_SIZE"] = "2";
  process.ranks["GROUP_RANK"] = "1";
  Choose();
  EXPECT_THAT(timeline_.missing_ranks, ElementsAre(3));
}

TEST_F(RanksTest, RanksOfOtherNodes_AreElsewhereUnlessTheLauncherHasARank) {
  ProcessFacts& process = Add(1, 100, 2, 8);
  process.ranks["LOCAL_WORLD_SIZE"] = "2";
  process.ranks["GROUP_RANK"] = "1";
  Choose();
  EXPECT_EQ(timeline_.ranks_elsewhere, 6);
}

// Lightning's own process is rank 0 and starts the others, with variables for them alone.
TEST_F(RanksTest, ProgramThatStartsItselfForTheOtherRanks_IsRankZero) {
  Add(1, 100, -1).arguments = {"python", "train.py"};
  for (const int rank : {1, 2}) {
    ProcessFacts& process = Add(static_cast<uint32_t>(rank) + 1, 100 + rank, -1);
    process.parent_pid = 100;
    process.arguments = {"/usr/bin/python", "/home/me/train.py"};
    process.ranks = {{"LOCAL_RANK", std::to_string(rank)}, {"NODE_RANK", "0"}, {"WORLD_SIZE", "3"}};
  }
  for (auto& [identity, process] : facts_.processes) process.executable = "/usr/bin/python3.11";
  EXPECT_THAT(Choose(), ElementsAre(1));
  EXPECT_EQ(timeline_.rank, 0);
  EXPECT_THAT(timeline_.further_ranks, ElementsAre(1, 2));
  EXPECT_THAT(timeline_.missing_ranks, IsEmpty());
}

TEST_F(RanksTest, OtherStartersOfRanks_HaveNoRank) {
  enum { kAnotherProgram, kNoArguments, kTorchrun };
  for (const int variant : {kAnotherProgram, kNoArguments, kTorchrun}) {
    facts_.processes.clear();
    Add(1, 100, -1).arguments = {"python", variant == kAnotherProgram ? "launch.py" : "train.py"};
    for (const int rank : {1, 2}) {
      ProcessFacts& process = Add(static_cast<uint32_t>(rank) + 1, 100 + rank, rank, 3);
      process.parent_pid = 100;
      process.arguments = {"python", "train.py"};
      if (variant != kTorchrun) {
        process.ranks = {{"LOCAL_RANK", std::to_string(rank)}, {"NODE_RANK", "0"}, {"WORLD_SIZE", "3"}};
      }
    }
    for (auto& [identity, process] : facts_.processes) {
      process.executable = "/usr/bin/python3.11";
      if (variant == kNoArguments) process.arguments.clear();
    }
    Timeline timeline;
    timeline.ranks_recorded = "all";
    Ranks ranks(session_, window_, &facts_, &timeline);
    std::vector<std::pair<uint64_t, Identity>> order;
    for (const auto& [identity, process] : facts_.processes) order.emplace_back(process.start_ticks, identity);
    ranks.Choose(kAnyRank, &order);
    EXPECT_EQ(timeline.rank, 1) << variant;
    EXPECT_THAT(timeline.missing_ranks, ElementsAre(0)) << variant;
  }
}

TEST_F(RanksTest, NumberOfNodeThatCannotBe_MakesNoRanks) {
  ProcessFacts& process = Add(1, 100, 2, 16);
  process.ranks["LOCAL_WORLD_SIZE"] = "8";
  process.ranks["GROUP_RANK"] = "268435456";  // times 8 is more than an int holds
  Choose();
  EXPECT_THAT(timeline_.missing_ranks, IsEmpty());
  EXPECT_THAT(timeline_.by_rank, SizeIs(1));
}

TEST_F(RanksTest, WorldBeyondTheLimit_ListsNobodyMissing) {
  Add(1, 100, 0, kMaxWorld + 1);
  Choose();
  EXPECT_THAT(timeline_.missing_ranks, IsEmpty());
  EXPECT_EQ(timeline_.world_size, kMaxWorld + 1);
}

TEST_F(RanksTest, OneLauncherPerRank_MissesNoOther) {
  Add(1, 100, 0);
  session_.rank = 0;
  session_.scheduler = 0;
  Choose();
  EXPECT_THAT(timeline_.missing_ranks, IsEmpty());
}

TEST_F(RanksTest, FirstSchedulerOfTheTable_Counts) {
  ProcessFacts& torchrun = Add(1, 100, -1);
  torchrun.ranks = {{"SLURM_PROCID", "1"}, {"SLURM_STEP_ID", "0"}, {"SLURM_NTASKS", "2"}};
  Add(2, 101, 5, 8).ranks["SLURM_PROCID"] = "1";
  Choose();
  EXPECT_THAT(timeline_.ranks, ElementsAre(5));
  EXPECT_EQ(timeline_.world_size, 8);
}

TEST_F(RanksTest, RankStartedAgain_ReportsItsLastProcessAndEarlierFailures) {
  ProcessFacts& first = Add(1, 100, 0, 1);
  first.end_ticks = 2000;
  first.exit_code = -1;
  first.exit_signal = 9;
  first.out_of_memory = true;
  ProcessFacts& second = Add(2, 101, 0, 1);
  second.end_ticks = 5000;
  second.exit_code = 0;
  Choose();
  ASSERT_THAT(timeline_.by_rank, SizeIs(1));
  const RankReport& report = timeline_.by_rank[0];
  EXPECT_EQ(report.pid, 101);
  EXPECT_EQ(report.state, RankState::kEnded);
  EXPECT_EQ(report.exit_code, 0);
  EXPECT_EQ(report.earlier_failures, 1);
  EXPECT_EQ(report.earlier_failure, "killed by SIGKILL (out of memory)");
}

TEST_F(RanksTest, EndBehindTheWindow_IsNoEndYet) {
  Add(1, 100, 0, 2).end_ticks = facts_.close_ticks;
  ProcessFacts& later = Add(2, 101, 1, 2);
  later.end_ticks = facts_.close_ticks + 1;
  later.exit_code = 1;
  Choose();
  EXPECT_EQ(timeline_.by_rank[0].state, RankState::kEnded);
  EXPECT_EQ(timeline_.by_rank[1].state, RankState::kRunning);
  EXPECT_EQ(timeline_.by_rank[1].exit_code, -1);
}

TEST_F(RanksTest, RanksThatRanOn_AreNamedWhenTheSessionEnded) {
  Add(1, 100, 0, 2);
  Add(2, 101, 1, 2).end_ticks = 5000;
  facts_.ended = true;
  Choose();
  EXPECT_THAT(ranks_.unended(), ElementsAre(0));
}

}  // namespace
}  // namespace tbprof
