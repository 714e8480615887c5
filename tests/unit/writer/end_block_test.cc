// SPDX-License-Identifier: Apache-2.0
// The text at the end of a run: what its first line names, and leaves out where the line is too short.
#include "writer/outputs/end_block.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "writer/outputs/summary_verdict.h"

namespace tbprof {
namespace {

// Without steps: garbage collection in the loop at the lines 31 to 47 of `file`.
Timeline InLoop(const std::string& file, Cause cause = Cause::kGarbageCollection) {
  Timeline timeline;
  timeline.processes.resize(1);
  timeline.threads.resize(1);
  timeline.threads[0].is_main = true;
  Verdict& verdict = timeline.verdict;
  verdict.basis = VerdictBasis::kLoop;
  verdict.cause = cause;
  verdict.part = StepPart::kGarbageCollection;
  verdict.share = 0.92;
  verdict.total_ps = 100;
  verdict.loop = {timeline.strings.Intern("/home/me/" + file), timeline.strings.Intern("main"), 31, 47};
  Where where;
  where.file = verdict.loop.file;
  where.line = 35;
  where.function = verdict.loop.function;
  where.share = 0.9;
  verdict.where.push_back(where);
  return timeline;
}

std::string FirstLine(const Timeline& timeline, int width = 100) {
  SummaryOptions options;
  options.width = width;
  return EndBlock(timeline, {}, options).front();
}

// A helper that a library kills at its end is no crash: it stands behind what the command did.
TEST(EndBlock, ProcessKilledByACommandThatEndedWell_ComesLate) {
  for (const int exit_code : {0, 1}) {
    Timeline timeline = InLoop("train.py");
    timeline.exit_code = exit_code;
    timeline.warnings = {"something to know"};
    timeline.processes.resize(2);
    timeline.processes[1].name = "monitor.py";
    timeline.processes[1].exit_signal = 9;
    timeline.threads.resize(2);
    timeline.threads[1].process = 1;
    PythonLastStack last;
    last.thread = 1;
    timeline.python.last_stacks = {last};
    const std::vector<std::string> lines = EndBlock(timeline, {}, {});
    const auto line_of = [&](std::string_view text) {
      return std::ranges::find_if(lines, [&](const std::string& line) { return line.find(text) != std::string::npos; });
    };
    ASSERT_NE(line_of("something to know"), lines.end());
    EXPECT_EQ(line_of("last samples of monitor.py") < line_of("something to know"), exit_code == 1);
  }
}

TEST(EndBlock, WithoutSteps_NamesTheLoop) {
  EXPECT_EQ(FirstLine(InLoop("train.py")),
            "verdict: 92 % of the main loop (train.py:31-47): garbage collection, at train.py:35 main");
  Timeline timeline = InLoop("train.py");
  timeline.verdict.loop.last = 31;
  EXPECT_EQ(FirstLine(timeline),
            "verdict: 92 % of the main loop (train.py:31): garbage collection, at train.py:35 main");
  timeline.verdict.loop = {};
  EXPECT_EQ(FirstLine(timeline), "verdict: 92 % of the main loop: garbage collection, at train.py:35 main");
  timeline.threads[0].is_main = false;
  EXPECT_EQ(FirstLine(timeline), "verdict: 92 % of the thread's loop: garbage collection, at train.py:35 main");
}

// The program's own message stands right above it.
TEST(EndBlock, CommandThatFailedAtItsStart_HasFewLines) {
  Timeline timeline = InLoop("train.py", Cause::kUnknown);
  timeline.verdict.reason = "the main thread did nothing but import";
  timeline.step_source = StepSource::kWholeCapture;
  timeline.duration_ps = 1'000'000'000'000;
  const auto lines_of = [&timeline] { return EndBlock(timeline, {}, {}); };
  const size_t usual = lines_of().size();
  timeline.exit_code = 1;
  const std::vector<std::string> lines = lines_of();
  EXPECT_LT(lines.size(), usual);
  for (const std::string_view start : {"steps", "where:"}) {
    EXPECT_TRUE(std::ranges::none_of(lines, [&](const std::string& line) { return line.starts_with(start); }));
  }
  EXPECT_EQ(lines.front(), "verdict: what bounds the program is not known: the main thread did nothing but import");
  // What failed later is judged: its lines of Python may say why.
  timeline.duration_ps *= 60;
  EXPECT_EQ(lines_of().size(), usual);
}

TEST(EndBlock, HangsOfRanks_AreOneLineForEachPlace) {
  Timeline timeline = InLoop("train.py");
  timeline.rank = 0;
  timeline.verdict.hangs = {"main thread, in pthread_cond_wait at train.py:21 validate", "thread saver, in write"};
  for (int rank = 0; rank < 8; ++rank) {
    RankReport report;
    report.rank = rank;
    report.hangs = {rank < 7 ? "main thread, in pthread_cond_wait at train.py:38 step" : "main thread, in read"};
    timeline.by_rank.push_back(report);
  }
  std::vector<std::string> lines;
  for (const std::string& line : EndBlock(timeline, {}, {})) {
    if (line.starts_with("hangs: ")) lines.push_back(line);
  }
  EXPECT_THAT(
      lines, testing::ElementsAre("hangs: rank 0: main thread, in pthread_cond_wait at train.py:21 validate",
                                  "hangs: rank 0: thread saver, in write",
                                  "hangs: rank 1, 2, 3, 4, 5, 6: main thread, in pthread_cond_wait at train.py:38 step",
                                  "hangs: rank 7: main thread, in read"));
  for (int i = 0; i < 9; ++i) timeline.verdict.hangs.push_back("thread, in read");
  const std::vector<std::string> block = EndBlock(timeline, {}, {});
  EXPECT_TRUE(
      std::ranges::any_of(block, [](const std::string& line) { return line.ends_with(" more: tbprof report)"); }));
  EXPECT_TRUE(std::ranges::any_of(block, [](const std::string& line) { return line.starts_with("next: "); }));
}

TEST(EndBlock, EvidenceThatIsLong_HasTwoLines) {
  Timeline timeline = InLoop("train.py");
  timeline.verdict.facts = {std::string(70, 'a'), std::string(60, 'b'), "c", std::string(90, 'd')};
  SummaryOptions options;
  options.width = 100;
  std::vector<std::string> lines;
  for (const std::string& line : EndBlock(timeline, {}, options)) {
    if (line.starts_with("evidence: ")) lines.push_back(line);
  }
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], "evidence: " + std::string(70, 'a'));
  EXPECT_TRUE(lines[1].starts_with("evidence: " + std::string(60, 'b') + "; c; d")) << lines[1];
}

TEST(EndBlock, FurtherOutputs_AreNamedButNotProfilesOfFurtherRanks) {
  const std::vector<std::string> lines =
      EndBlock(InLoop("train.py"),
               {{"/l/h_r0.xplane.pb"}, {"/l/h_r1.xplane.pb"}, {"/l/h.flamegraph.html"}, {"/l/summary.json"}}, {});
  const auto with = [&](std::string_view part) {
    return std::ranges::count_if(lines, [&](const std::string& line) { return line.find(part) != std::string::npos; });
  };
  EXPECT_EQ(with("/l/h_r0.xplane.pb"), 1);
  EXPECT_EQ(with("/l/h_r1.xplane.pb"), 0);
  EXPECT_EQ(with("/l/h.flamegraph.html"), 1);
  EXPECT_EQ(with("summary.json"), 0);
}

TEST(EndBlock, LongNames_LeaveTheCauseWhole) {
  const std::string file = "train_with_a_long_name.py";
  EXPECT_EQ(FirstLine(InLoop(file)), "verdict: 92 % of the main loop (" + file + ":31-47): garbage collection")
      << "the third line shows the place";
  EXPECT_EQ(FirstLine(InLoop(file, Cause::kAllocationChurn), 90),
            "verdict: 92 % of the main loop: page faults at the first use of memory");
  // The third line shows what the other thread does: the first keeps the place.
  Timeline timeline = InLoop("train_long_name.py", Cause::kPrefetchThread);
  timeline.verdict.where.push_back(timeline.verdict.where.front());
  timeline.verdict.where.back().role = WhereRole::kWaitedFor;
  EXPECT_EQ(FirstLine(timeline),
            "verdict: 92 % of the main loop: waits for a prefetch thread, at train_long_name.py:35 main");
}

TEST(VerdictJson, Loop_HasItsLines) {
  Timeline timeline = InLoop("train.py");
  EXPECT_EQ(VerdictJson(timeline)["split"]["loop"],
            (nlohmann::ordered_json{
                {"file", "/home/me/train.py"}, {"first_line", 31}, {"last_line", 47}, {"function", "main"}}));
  timeline.verdict.basis = VerdictBasis::kMainThread;
  EXPECT_TRUE(VerdictJson(timeline)["split"]["loop"].is_null());
}

}  // namespace
}  // namespace tbprof
