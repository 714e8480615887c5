// SPDX-License-Identifier: Apache-2.0
//
// The verdict of one rank, combined with the reports of the other ranks.
#include "writer/verdict/rank_stragglers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "writer/outputs/summary_verdict.h"

namespace tbprof {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

RankReport Report(int rank, double collectives, const std::string& function) {
  RankReport report;
  report.rank = rank;
  report.has_numbers = true;
  report.collectives_share = collectives;
  report.share_basis = VerdictBasis::kSteps;
  report.places = {{"/home/me/" + function + ".py", 7, function, 0.4}};
  return report;
}

// The timeline of rank 1 of three; its verdict depends on the share of its steps in collectives.
Timeline Make(const std::vector<double>& shares, Cause cause, double share) {
  Timeline timeline;
  timeline.rank = 1;
  timeline.processes.resize(1);
  timeline.threads.resize(1);
  timeline.verdict.basis = VerdictBasis::kSteps;
  timeline.verdict.cause = cause;
  timeline.verdict.part = cause == Cause::kCollectives ? StepPart::kCollectives : StepPart::kOperations;
  timeline.verdict.share = share;
  timeline.verdict.total_ps = 100;
  Where where;
  where.file = timeline.strings.Intern("/home/me/train.py");
  where.line = 3;
  where.function = timeline.strings.Intern("main");
  where.share = share;
  timeline.verdict.where.push_back(where);
  for (size_t rank = 0; rank < shares.size(); ++rank) {
    timeline.by_rank.push_back(Report(static_cast<int>(rank), shares[rank], "work_of_" + std::to_string(rank)));
  }
  return timeline;
}

TEST(JudgeRanks, OtherRankThatHardlyWaits_IsWaitedFor) {
  Timeline timeline = Make({0.5, 0.6, 0.02}, Cause::kCollectives, 0.6);
  JudgeRanks(&timeline);
  EXPECT_EQ(timeline.verdict.cause, Cause::kStraggler);
  EXPECT_EQ(VerdictSentence(timeline), "58 % of the step: waits for a slower process, at train.py:3 main");
  EXPECT_EQ(BlockerLabel(timeline), "blocker: ");
  EXPECT_EQ(VerdictBlocker(timeline), "rank 2, mostly at work_of_2.py:7 work_of_2");
  ASSERT_THAT(timeline.verdict.facts, SizeIs(1)) << "nothing is known of what rank 1 spends there";
  EXPECT_EQ(timeline.verdict.facts[0], "rank 2 waits in collectives for 2.0 % of its step, rank 1 for 60 %");
  const nlohmann::ordered_json json = VerdictJson(timeline);
  EXPECT_EQ(json["where"][1]["rank"], 2);
  EXPECT_TRUE(json["where"][1]["pid"].is_null());
}

TEST(JudgeRanks, RanksWithoutSteps_AreComparedByTheirWholeTime) {
  Timeline timeline = Make({0.5, 0.6, 0.02}, Cause::kCollectives, 0.6);
  for (RankReport& report : timeline.by_rank) report.share_basis = VerdictBasis::kMainThread;
  JudgeRanks(&timeline);
  EXPECT_EQ(timeline.verdict.cause, Cause::kStraggler);
  ASSERT_THAT(timeline.verdict.facts, SizeIs(1));
  EXPECT_EQ(timeline.verdict.facts[0], "rank 2 waits in collectives for 2.0 % of its time, rank 1 for 60 %");
}

TEST(JudgeRanks, ShareOfAWholeRun_IsNotComparedWithSharesOfSteps) {
  Timeline timeline = Make({0.5, 0.6, 0.02}, Cause::kCollectives, 0.6);
  timeline.by_rank[2].share_basis = VerdictBasis::kMainThread;
  JudgeRanks(&timeline);
  EXPECT_EQ(timeline.verdict.cause, Cause::kCollectives);
}

// All ranks run the same program.
TEST(JudgeRanks, PlaceOfTheSlowRank_IsWhereItDiffers) {
  Timeline timeline = Make({0.5, 0.6, 0.02}, Cause::kCollectives, 0.6);
  const RankPlace backward = {"/home/me/train.py", 21, "main", 0.35};
  timeline.by_rank[1].places = {backward, {"/home/me/train.py", 24, "main", 0.08}};
  timeline.by_rank[2].places = {{backward.file, 21, "main", 0.45}, {"/home/me/train.py", 13, "augment", 0.3}};
  JudgeRanks(&timeline);
  EXPECT_EQ(VerdictBlocker(timeline), "rank 2, mostly at train.py:13 augment");
  EXPECT_EQ(timeline.verdict.facts[0], "there rank 2 spends 30 % of its step, rank 1 at most 8.0 %");
}

TEST(JudgeRanks, SlowRankThatDiffersNowhere_IsAtItsLongestPlace) {
  Timeline timeline = Make({0.5, 0.6, 0.02}, Cause::kCollectives, 0.6);
  timeline.by_rank[1].places = {{"/home/me/train.py", 21, "main", 0.62}, {"/home/me/train.py", 13, "augment", 0.055}};
  timeline.by_rank[2].places = {{"/home/me/train.py", 21, "main", 0.6}, {"/home/me/train.py", 13, "augment", 0.06}};
  JudgeRanks(&timeline);
  EXPECT_EQ(VerdictBlocker(timeline), "rank 2, mostly at train.py:21 main");
}

TEST(JudgeRanks, ExchangeThatTakesLongForAll_IsLeftOut) {
  Timeline timeline = Make({0.44, 0.85}, Cause::kCollectives, 0.85);
  JudgeRanks(&timeline);
  EXPECT_EQ(timeline.verdict.cause, Cause::kStraggler);
  EXPECT_NEAR(timeline.verdict.share, 0.41, 0.001);
}

TEST(JudgeRanks, ThisRankThatOthersWaitFor_SaysSo) {
  Timeline timeline = Make({0.5, 0.03, 0.6}, Cause::kOperations, 0.9);
  JudgeRanks(&timeline);
  EXPECT_EQ(timeline.verdict.cause, Cause::kStraggler);
  EXPECT_EQ(VerdictSentence(timeline), "57 % of rank 2's step: waits for rank 1");
  EXPECT_EQ(VerdictJson(timeline)["waiting_rank"], 2);
  EXPECT_EQ(BlockerLabel(timeline), "where: ");
}

TEST(JudgeRanks, OwnProblemOfTheSlowRank_StaysItsCause) {
  Timeline timeline = Make({0.5, 0.03, 0.6}, Cause::kSlowLoader, 0.7);
  JudgeRanks(&timeline);
  EXPECT_EQ(timeline.verdict.cause, Cause::kSlowLoader);
  EXPECT_THAT(timeline.verdict.facts, SizeIs(1)) << "why it is slow, and that others wait for it";
}

TEST(JudgeRanks, ProblemOfTheSlowRank_IsTheRemedy) {
  Timeline timeline = Make({0.5, 0.6, 0.02}, Cause::kCollectives, 0.6);
  timeline.by_rank[2].cause = Cause::kSlowLoader;
  timeline.by_rank[2].verdict = "69 % of the step: waits for the data loader, at data.py:7 read";
  JudgeRanks(&timeline);
  EXPECT_EQ(timeline.verdict.cause, Cause::kStraggler);
  EXPECT_TRUE(NextStep(timeline.verdict).starts_with("do less work for each sample in the loader"));
  EXPECT_EQ(timeline.verdict.facts[0], "rank 2: " + timeline.by_rank[2].verdict);
  // It waits for others as well: that is no remedy.
  Timeline waits = Make({0.5, 0.9, 0.4}, Cause::kCollectives, 0.9);
  waits.by_rank[2].cause = Cause::kCollectives;
  waits.by_rank[2].verdict = "40 % of the step: waits for collectives";
  JudgeRanks(&waits);
  EXPECT_TRUE(NextStep(waits.verdict).starts_with("give each process the same amount of work"));
}

// 43 % of its own steps are such waits, and 82 % of the other's.
TEST(JudgeRanks, SlowRankThatWaitsAsWell_IsTheOneThatOthersWaitFor) {
  Timeline timeline = Make({0.82, 0.43}, Cause::kCollectives, 0.43);
  timeline.verdict.places = {timeline.verdict.where[0]};
  timeline.verdict.places[0].line = 18;
  JudgeRanks(&timeline);
  EXPECT_EQ(timeline.verdict.cause, Cause::kStraggler);
  EXPECT_EQ(VerdictSentence(timeline), "39 % of rank 0's step: waits for rank 1");
  ASSERT_THAT(timeline.verdict.where, SizeIs(1));
  EXPECT_EQ(timeline.verdict.where[0].line, 18);
}

TEST(JudgeRanks, RanksThatWereNotRecorded_MayBeTheSlowOnes) {
  for (const int world : {1, 3, 4}) {
    Timeline timeline = Make({0.5, 0.6, 0.45}, Cause::kCollectives, 0.6);
    timeline.world_size = world;
    JudgeRanks(&timeline);
    EXPECT_EQ(timeline.verdict.advice == Advice::kFewRanks, world == 4);
  }
}

TEST(JudgeRanks, LargerProblemOfItsOwn_Stays) {
  Timeline timeline = Make({0.5, 0.3, 0.02}, Cause::kSlowLoader, 0.6);
  JudgeRanks(&timeline);
  EXPECT_EQ(timeline.verdict.cause, Cause::kSlowLoader);
}

TEST(JudgeRanks, RanksAlikeOrUnknown_ChangeNothing) {
  for (const std::vector<double>& shares :
       std::vector<std::vector<double>>{{0.5, 0.6, 0.45}, {-1, 0.6, -1}, {0.6}, {0.1, 0.12, 0.01}, {}}) {
    Timeline timeline = Make(shares, Cause::kCollectives, 0.6);
    JudgeRanks(&timeline);
    EXPECT_EQ(timeline.verdict.cause, Cause::kCollectives);
    EXPECT_THAT(timeline.verdict.facts, IsEmpty());
  }
}

}  // namespace
}  // namespace tbprof
