// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/rank_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "writer/convert/rank_json.h"

namespace tbprof {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int64_t kSecond = 1'000'000'000'000;

RankReport Ended(int rank, int code, int signal, int64_t end_ps) {
  RankReport report;
  report.rank = rank;
  report.state = RankState::kEnded;
  report.exit_code = code;
  report.exit_signal = signal;
  report.end_ps = end_ps;
  return report;
}

TEST(ExitText, ExitStatusOrSignal_IsNamed) {
  EXPECT_EQ(ExitText(3, 0, false), "exit status 3");
  EXPECT_EQ(ExitText(137, 0, false), "exit status 137 (128 + SIGKILL)");
  EXPECT_EQ(ExitText(200, 0, false), "exit status 200");
  EXPECT_EQ(ExitText(-1, SIGKILL, true), "killed by SIGKILL (out of memory)");
  EXPECT_EQ(ExitText(-1, 40, false), "killed by signal 40");
  EXPECT_EQ(ExitText(-1, 0, false), "ended, exit status not known");
}

TEST(RankWarnings, SeveralFailures_FirstComesFirst) {
  Timeline timeline;
  timeline.by_rank = {Ended(0, 1, 0, 5 * kSecond), Ended(1, 0, 0, 6 * kSecond), Ended(2, -1, SIGKILL, 4 * kSecond),
                      Ended(3, -1, 0, 3 * kSecond)};
  timeline.by_rank[2].has_numbers = true;
  timeline.by_rank[2].last_step = 11;
  EXPECT_THAT(RankWarnings(timeline),
              ElementsAre("rank 2: killed by SIGKILL at 4.00 s, last recorded step 11 (the first to fail)",
                          "rank 0: exit status 1 at 5.00 s",
                          "rank 3: ended, exit status not known (the kernel did not report it)"));
  timeline.by_rank[0].of_other_launcher = true;
  EXPECT_EQ(RankWarnings(timeline)[0], "rank 2: killed by SIGKILL at 4.00 s, last recorded step 11")
      << "clocks of two machines do not decide";
  timeline.by_rank = {Ended(0, 0, 0, kSecond), Ended(1, -1, 0, kSecond)};
  EXPECT_THAT(RankWarnings(timeline), IsEmpty());
}

TEST(RankWarnings, ManyFailures_AreOneLineMore) {
  Timeline timeline;
  for (int rank = 0; rank < 1000; ++rank) timeline.by_rank.push_back(Ended(rank, 1, 0, rank * kSecond));
  const std::vector<std::string> texts = RankWarnings(timeline);
  ASSERT_THAT(texts, SizeIs(4));
  EXPECT_EQ(texts[3], "997 further ranks failed: 3-999 (summary.json: by_rank)");
}

TEST(SpeedsOf, RanksWithSteps_AreCompared) {
  std::vector<RankReport> reports(3);
  for (int rank = 0; rank < 3; ++rank) {
    RankReport& report = reports[static_cast<size_t>(rank)];
    report.rank = rank;
    report.has_numbers = true;
  }
  reports[0].median_step_ps = 10;
  EXPECT_EQ(SpeedsOf(reports).slowest, nullptr) << "one has nothing to be compared with";
  reports[2].median_step_ps = 30;
  EXPECT_EQ(SpeedsOf(reports).slowest->rank, 2);
  EXPECT_EQ(SpeedsOf(reports).fastest->rank, 0);
  EXPECT_EQ(SpeedsOf(reports).without_steps, 1u);
}

TEST(SpeedsOf, RanksWithWaits_AreComparedByThem) {
  std::vector<RankReport> reports(3);
  for (int rank = 0; rank < 3; ++rank) {
    RankReport& report = reports[static_cast<size_t>(rank)];
    report.rank = rank;
    report.has_numbers = true;
    report.median_step_ps = 10 + rank;
    report.steps = static_cast<uint64_t>(50 - rank);
  }
  EXPECT_EQ(SpeedsOf(reports).fewest->rank, 2);
  EXPECT_EQ(SpeedsOf(reports).most->rank, 0);
  EXPECT_EQ(SpeedsOf(reports).waits_most, nullptr);
  for (RankReport& report : reports) report.share_basis = VerdictBasis::kSteps;
  reports[0].collectives_share = 0.2;
  EXPECT_EQ(SpeedsOf(reports).waits_most, nullptr) << "one has nothing to be compared with";
  reports[1].collectives_share = 0.9;
  EXPECT_EQ(SpeedsOf(reports).waits_most->rank, 1);
  EXPECT_EQ(SpeedsOf(reports).waits_least->rank, 0);
  for (RankReport& report : reports) report.median_step_ps = -1;
  EXPECT_EQ(SpeedsOf(reports).slowest, nullptr);
  ASSERT_NE(SpeedsOf(reports).waits_most, nullptr) << "without any steps, the whole time is compared";
  EXPECT_EQ(SpeedsOf(reports).waits_most->rank, 1);
  reports[0].share_basis = VerdictBasis::kLoop;
  EXPECT_EQ(SpeedsOf(reports).waits_most, nullptr) << "a loop is no whole run";
}

// torchrun --max-restarts: rank 1 fails, all are started again, and rank 0 fails.
TEST(RankReportsTest, FailureBeforeARestart_IsTheFirst) {
  Timeline timeline;
  timeline.by_rank = {Ended(0, 1, 0, 17 * kSecond), Ended(1, -1, SIGTERM, 18 * kSecond)};
  timeline.by_rank[0].pid = 7538;
  timeline.by_rank[0].steps_pid = 7480;
  timeline.by_rank[0].last_step = 59;
  timeline.by_rank[0].earlier_failures = timeline.by_rank[1].earlier_failures = 1;
  timeline.by_rank[0].earlier_failure = "killed by SIGTERM";
  timeline.by_rank[0].earlier_end_ps = 12 * kSecond + 1;
  timeline.by_rank[1].earlier_failure = "exit status 7";
  timeline.by_rank[1].earlier_end_ps = 12 * kSecond;
  const std::vector<std::string> texts = RankWarnings(timeline);
  ASSERT_GE(texts.size(), 3u);
  EXPECT_EQ(texts[0], "rank 1: exit status 7 at 12.0 s (the first to fail; then it was started again)");
  EXPECT_EQ(texts[1], "rank 0: exit status 1 at 17.0 s") << "the steps are those of the process before";
  EXPECT_EQ(texts[2], "rank 1: killed by SIGTERM at 18.0 s");
}

// The last step of a part of the time is not the last before the rank ended.
TEST(RankReportsTest, StepsOfAPart_HaveNoLastNumber) {
  for (const bool in_part : {true, false}) {
    Timeline timeline;
    timeline.rank = 0;
    timeline.by_rank.push_back(Ended(0, 0, 0, 9 * kSecond));
    timeline.step_source = StepSource::kInferred;
    timeline.step_source_text = "repeated launches";
    timeline.steps_in_detail = in_part;
    timeline.full_detail = {kSecond, 2 * kSecond};
    for (int64_t i = 0; i < 5; ++i) {
      Step step;
      step.start_ps = kSecond + i * kSecond / 5;
      step.end_ps = step.start_ps + kSecond / 5;
      step.number = i;
      step.is_regular = true;
      timeline.steps.push_back(step);
    }
    FillRankReport(&timeline);
    EXPECT_EQ(timeline.by_rank[0].steps, 5u);
    EXPECT_EQ(timeline.by_rank[0].last_step, in_part ? -1 : 4);
    EXPECT_EQ(timeline.by_rank[0].searched_to_ps, in_part ? 2 * kSecond : -1);
  }
}

TEST(RankReportsOfSummary, WrittenReport_IsReadBack) {
  RankReport report = Ended(4, -1, SIGSEGV, 2 * kSecond);
  report.has_numbers = true;
  report.host = "node_r4";
  report.processes = 2;
  report.threads = 3;
  report.records = 4;
  report.steps = 5;
  report.step_source = "marker";
  report.median_step_ps = kSecond / 4;
  report.last_step = 6;
  report.searched_from_ps = kSecond;
  report.searched_to_ps = 2 * kSecond;
  report.waited_ps = 7 * kSecond;
  report.verdict = "60 % of the step: waits for the data loader";
  report.cause = Cause::kSlowLoader;
  report.collectives_share = 0.25;
  report.share_basis = VerdictBasis::kSteps;
  report.places = {{"train.py", 41, "main", 0.25}};
  report.waits = {{"read", "Load (a.py:1)", 8, kSecond, kSecond / 2}};
  nlohmann::ordered_json json = {{"start_unix_ns", 11'000'000'000}};
  json["by_rank"] = nlohmann::ordered_json::array({RankReportJson(report)});
  const std::vector<RankReport> read = RankReportsOfSummary(json.dump(), 10'000'000'000, 10'000'000'000);
  ASSERT_THAT(read, SizeIs(1));
  EXPECT_TRUE(read[0].of_other_launcher);
  EXPECT_EQ(read[0].cause, Cause::kSlowLoader);
  ASSERT_EQ(read[0].places.size(), 1u);
  EXPECT_EQ(read[0].places[0].line, 41);
  EXPECT_EQ(read[0].places[0].share, 0.25);
  EXPECT_EQ(read[0].end_ps, 3 * kSecond) << "its window began a second later than ours";
  nlohmann::ordered_json again = RankReportJson(read[0]);
  again["end_s"] = 2.0;
  again["of_other_launcher"] = false;
  EXPECT_EQ(again, RankReportJson(report));
}

TEST(RankReportsOfSummary, OfAnEarlierRunOfTheSameName_AreNone) {
  const std::string summary = R"({"start_unix_ns":100000000000,"wall_s":5.0,"by_rank":[{"rank":1,"state":"ended"}]})";
  EXPECT_THAT(RankReportsOfSummary(summary, 200'000'000'000, 104'000'000'000), SizeIs(1));
  EXPECT_THAT(RankReportsOfSummary(summary, 200'000'000'000, 110'000'000'000), SizeIs(1)) << "clocks differ";
  EXPECT_THAT(RankReportsOfSummary(summary, 200'000'000'000, 200'000'000'000), IsEmpty());
}

TEST(RankReportsOfSummary, InvalidReport_IsUnknown) {
  for (const char* text :
       {"", "[]", "{", R"({"by_rank":7})", R"({"by_rank":[1,null,[]]})", R"({"by_rank":[{"rank":-5,"state":"ended"}]})",
        R"({"by_rank":[{"rank":"0","state":"ended"}]})", R"({"by_rank":[{"rank":0,"state":"missing"}]})",
        R"({"by_rank":[{"rank":0,"state":"ended","of_other_launcher":true}]})",
        R"({"ranks":["a",-1,1e99,70000000]})"}) {
    EXPECT_THAT(RankReportsOfSummary(text, 1, 1), IsEmpty()) << text;
  }
  const auto read = RankReportsOfSummary(
      R"({"start_unix_ns":1e300,"by_rank":[{"rank":1,"state":"ended","end_s":1e300,"exit_code":1e18,"exit_signal":1e18,)"
      R"("steps":[],"wait_sites":{},"host":{},"records":-1,"own_cost_s":"x"}]})",
      1, 1);
  ASSERT_THAT(read, SizeIs(1));
  EXPECT_FALSE(read[0].has_numbers);
  // A summary of an earlier version of tbprof.
  EXPECT_THAT(RankReportsOfSummary(R"({"ranks":[2,3]})", 1, 1), SizeIs(2));
}

}  // namespace
}  // namespace tbprof
