// SPDX-License-Identifier: Apache-2.0
#include "launcher/gate/gate_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "launcher/base/text.h"
#include "tests/integration/schema_check.h"
#include "tests/unit/launcher/gate_maker.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  for (const std::string_view line : Split(text, '\n')) lines.emplace_back(line);
  EXPECT_FALSE(lines.empty());
  EXPECT_EQ(lines.back(), "") << "the last line ends";
  lines.pop_back();
  return lines;
}

// Every text that comes from a summary or the command line is `evil`.
Comparison MakeHostile(const std::string& evil) {
  Comparison comparison = MakeWorse();
  for (Side* side : {&comparison.base, &comparison.now}) {
    for (RunNumbers& run : side->runs) {
      run.path = run.unfit = run.no_times = evil;
      run.identity = {evil, evil, evil, evil, evil, evil, evil, 2, {evil}, 1};
    }
  }
  for (QuantityResult& quantity : comparison.quantities) quantity.reason = evil;
  comparison.quantities.back() = MakeCount(evil, 3, 4);
  for (BlameRow& row : comparison.blame) row.name = evil;
  for (RuleResult& rule : comparison.rules) rule.rule = rule.text = evil;
  comparison.warnings = {evil};
  comparison.reason = evil;
  return comparison;
}

std::string Schema() {
  std::ifstream file(TBPROF_SOURCE_DIR "/docs/gate.schema.json");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> Faults(const Comparison& comparison) {
  return integration::SchemaFaults(nlohmann::json::parse(Schema()),
                                   nlohmann::json::parse(ComparisonAsJson(comparison)));
}

TEST(GateText, Worse_StartsWithTheAnswerAndItsCauses) {
  const std::vector<std::string> lines = LinesOf(ComparisonAsText(MakeWorse()));
  EXPECT_EQ(lines[0], "worse: the step takes 4.1 % longer (3.2 to 5.0 %), 31.2 ms -> 32.5 ms, 10 + 10 runs");
  EXPECT_THAT(lines[1], StartsWith("why: +1.30 ms a step"));
  EXPECT_EQ(lines[3], "     +1.10 ms    12.5 ms    13.6 ms    85 %  input");
  const std::string text = ComparisonAsText(MakeWorse());
  EXPECT_THAT(text, HasSubstr("  ~   +100 us    18.7 ms    18.8 ms     8 %  native code\n"));
  EXPECT_THAT(text, HasSubstr("lines of Python\n"));
  EXPECT_THAT(text, HasSubstr("  +1.00 MiB   1.00 MiB   2.00 MiB          data.py:18 fetch"));
  EXPECT_THAT(text, HasSubstr("+100 us                                not explained by any part"));
  EXPECT_THAT(text, HasSubstr("108        112   +3.7 %  kernels_per_step"));
  EXPECT_THAT(text, Not(HasSubstr("allocations_per_step  "))) << "it has not changed";
  EXPECT_THAT(text, HasSubstr("rule step_time>+3% fails: +4.1 %"));
  EXPECT_THAT(text, HasSubstr("warning: base: other processes"));
  EXPECT_EQ(lines.back(), "next: tbprof report new0");
}

TEST(GateText, WaitsForARank_NameItAndItsLines) {
  Comparison comparison = MakeWorse();
  EXPECT_THAT(ComparisonAsText(comparison), Not(HasSubstr("ranks:")));
  comparison.waits_for_rank = 1;
  comparison.waits_for = "rank 1, mostly at train.py:10 tokenize";
  EXPECT_THAT(ComparisonAsText(comparison), HasSubstr("ranks: they seem to wait for rank 1"));
  comparison.are_waits_sure = true;
  const std::string expected = "ranks: they wait for rank 1, mostly at train.py:10 tokenize; its lines: tbprof compare";
  EXPECT_THAT(ComparisonAsText(comparison), HasSubstr(expected));
  EXPECT_THAT(ComparisonAsMarkdown(comparison, 10'000), HasSubstr(expected));
  EXPECT_THAT(Faults(comparison), testing::IsEmpty());
}

// What is not significant is not known to be chance either.
TEST(GateText, FirstCause_IsShownAsUnsure) {
  for (const size_t runs : {1, 2}) {
    Comparison comparison = MakeWorse();
    comparison.base.runs.resize(runs);
    comparison.now.runs.resize(runs);
    comparison.blame = {{AmountKind::kPythonLine, "data.py:17 fetch", 0.010, 0.0111, 0.84, false},
                        {AmountKind::kPythonLine, "data.py:90 other", 0.010, 0.0101, 0.08, false}};
    comparison.has_first_cause = true;
    const std::string text = ComparisonAsText(comparison);
    EXPECT_THAT(text, HasSubstr("  ~  +1.10 ms")) << text;
    EXPECT_THAT(ComparisonAsMarkdown(comparison), HasSubstr("data.py:17 fetch"));
    EXPECT_THAT(ComparisonAsAnnotations(comparison), HasSubstr("+1.10 ms data.py:17 fetch (not significant)"));
    EXPECT_THAT(text, Not(HasSubstr("data.py:90")));
  }
}

TEST(GateText, EachAnswer_IsItsFirstWord) {
  Comparison comparison = MakeWorse();
  comparison.answer = Answer::kBetter;
  comparison.quantities[0] = MakeQuantity("step_time", Unit::kSeconds, 0.0325, 0.0312, -0.05, -0.03, Answer::kBetter);
  EXPECT_EQ(AnswerLine(comparison),
            "better: the step takes 4.0 % less (3.0 to 5.0 %), 32.5 ms -> 31.2 ms, 10 + 10 runs");
  comparison.answer = Answer::kEquivalent;
  comparison.quantities[0] =
      MakeQuantity("step_time", Unit::kSeconds, 0.0312, 0.03126, -0.004, 0.008, Answer::kEquivalent);
  EXPECT_EQ(
      AnswerLine(comparison),
      "equivalent: the step changes by +0.19 % (-0.40 to +0.80 %), margin 3.0 %, 31.2 ms -> 31.3 ms, 10 + 10 runs");
  comparison.answer = Answer::kCannotTell;
  comparison.quantities[0].more_runs = 12;
  EXPECT_EQ(
      AnswerLine(comparison),
      "cannot tell: 12 more pairs of runs needed; the step changes by +0.19 % (-0.40 to +0.80 %), 31.2 ms -> 31.3 "
      "ms, 10 + 10 runs");
  EXPECT_THAT(NextLine(comparison), HasSubstr("--pairs=22"));
  comparison = {};
  comparison.reason = "the commands differ";
  EXPECT_EQ(ComparisonAsText(comparison), "cannot tell: the commands differ\n");
}

TEST(GateText, WorseByARule_NamesTheRule) {
  Comparison comparison = MakeWorse();
  comparison.quantities[0].answer = Answer::kEquivalent;
  EXPECT_EQ(AnswerLine(comparison), "worse: rule step_time>+3%: +4.1 % (+3.2 to +5.0 %)");
  comparison.rules.clear();
  EXPECT_EQ(AnswerLine(comparison), "worse: kernels_per_step +3.7 %, 10 + 10 runs");
}

TEST(GateText, TimesNotCompared_HasRowsInBytesOnly) {
  Comparison comparison = MakeWorse();
  comparison.answer = Answer::kCannotTell;
  comparison.reason = "the CPU model differs: a and b";
  comparison.quantities.clear();
  comparison.difference_s = comparison.unexplained_s = std::nullopt;
  comparison.blame.erase(comparison.blame.begin(), comparison.blame.end() - 1);
  const std::vector<std::string> lines = LinesOf(ComparisonAsText(comparison));
  EXPECT_EQ(lines[1], "changes in a step, whose time is not compared:");
  EXPECT_EQ(lines[4], "    +1.00 MiB   1.00 MiB   2.00 MiB          data.py:18 fetch");
}

// The first line is about the step time. With rules, a second one has what the job ends with.
TEST(GateText, Rules_HaveALineForTheJob) {
  Comparison comparison = MakeWorse();
  EXPECT_EQ(GateLine(comparison), "") << "not decided";
  comparison.answer = Answer::kCannotTell;
  comparison.gate = GateState::kFails;
  EXPECT_THAT(ComparisonAsText(comparison), HasSubstr("\ngate: fails: rule step_time>+3%\n"));
  EXPECT_THAT(ComparisonAsMarkdown(comparison), HasSubstr("\n`gate: fails: rule step_time>+3%`\n"));
  comparison.rules[0].state = RuleResult::State::kCannotTell;
  comparison.gate = GateState::kCannotTell;
  EXPECT_EQ(GateLine(comparison), "gate: cannot tell: rule step_time>+3% and 1 more");
  comparison.gate = GateState::kPasses;
  EXPECT_EQ(GateLine(comparison), "gate: passes: no rule fails, 2 of 3 cannot be told");
  comparison.rules.clear();
  EXPECT_EQ(GateLine(comparison), "gate: passes: an unclear answer passes");
  comparison.answer = Answer::kWorse;
  comparison.gate = GateState::kFails;
  EXPECT_EQ(GateLine(comparison), "") << "the answer says it";
}

TEST(GateText, EqualCount_IsNotListedAsChanged) {
  Comparison comparison = MakeWorse();
  QuantityResult& count = comparison.quantities[2];
  count = MakeCount("kernels_per_step", 10000, 10000.2);
  count.answer = Answer::kEquivalent;
  EXPECT_THAT(ComparisonAsText(comparison), Not(HasSubstr("kernels_per_step")));
  // Unless it is the same in all runs of each side.
  count.constant = true;
  EXPECT_THAT(ComparisonAsText(comparison), HasSubstr("+0.00200 %  kernels_per_step"));
}

TEST(GateText, HostileNames_StayInTheirLines) {
  for (const std::string& evil :
       {std::string("::error::x ::stop-commands::t"), std::string("##[add-mask]a ##[error]b"), std::string(5000, 'x'),
        StrCat(std::string(97, 'a'), " ::add-mask::x ::set-output name=a::b")}) {
    const std::vector<std::string> lines = LinesOf(ComparisonAsText(MakeHostile(evil)));
    ASSERT_GT(lines.size(), 8u);
    for (const std::string& line : lines) {
      if (!line.starts_with("next: ")) EXPECT_LE(Utf8Columns(line), kGateColumns);
      EXPECT_NE(Strip(line).substr(0, 2), "::") << line;
      EXPECT_THAT(line, Not(HasSubstr("##[")));
    }
  }
}

TEST(GateText, CommandWithALongPath_IsWhole) {
  Comparison comparison = MakeWorse();
  const std::string path = StrCat("/data/", std::string(150, 'd'), "/plugins/profile/run 7");
  comparison.now.runs.front().path = path;
  EXPECT_THAT(ComparisonAsText(comparison), testing::EndsWith(StrCat("next: tbprof report '", path, "'\n")));
  // A run that was given by its name is found again from any directory.
  comparison.now.runs.front().path = "slow";
  comparison.now.runs.front().logdir = "/data/logs";
  EXPECT_THAT(ComparisonAsText(comparison),
              testing::EndsWith(StrCat("next: tbprof report slow --logdir=/data/logs\n")));
}

TEST(GateText, ManyOfEach_AreCounted) {
  Comparison comparison = MakeWorse();
  for (int i = 0; i < 100; ++i) {
    comparison.quantities.push_back(MakeCount(StrCat("count", i), 1, 2));
    comparison.rules.push_back({StrCat("rule", i), RuleResult::State::kHolds, "x"});
    comparison.warnings.push_back("w");
    comparison.blame.push_back({AmountKind::kKernel, StrCat("k", i), 0, 0.001, 0.1, true});
  }
  const std::string text = ComparisonAsText(comparison);
  EXPECT_THAT(LinesOf(text), SizeIs(::testing::Lt(80u)));
  EXPECT_THAT(text, HasSubstr("89 more changed: --json"));
  EXPECT_THAT(text, HasSubstr("73 more rules: --json"));
  EXPECT_THAT(text, HasSubstr("93 more warnings: --json"));
}

TEST(GateJson, EachComparison_MatchesTheSchema) {
  EXPECT_THAT(Faults(MakeWorse()), ElementsAre());
  EXPECT_THAT(Faults(Comparison()), ElementsAre());
  EXPECT_THAT(Faults(MakeHostile("\"}]\\\xff")), ElementsAre());
  Comparison odd = MakeWorse();
  odd.difference_s = std::numeric_limits<double>::quiet_NaN();
  odd.quantities[0].change = std::numeric_limits<double>::infinity();
  odd.blame[0].share = -std::numeric_limits<double>::infinity();
  odd.base.runs[0].median_step_s = std::nan("");
  EXPECT_THAT(Faults(odd), ElementsAre());
  EXPECT_TRUE(nlohmann::json::parse(ComparisonAsJson(odd))["difference_s"].is_null());
}

// Windows whose steps are not known.
TEST(GateJson, Shares_AreInEachOutput) {
  Comparison comparison;
  comparison.one_process = true;
  comparison.reason = "before: its steps are not known";
  comparison.now.runs.emplace_back().path = "after";
  comparison.shares = {{AmountKind::kPart, "python", 0.43, 0.8}, {AmountKind::kOwnLine, "job.py:4 parse", 0.34, 0.7}};
  EXPECT_THAT(Faults(comparison), ElementsAre());
  const std::string text = ComparisonAsText(comparison);
  EXPECT_THAT(text, HasSubstr("  +37 points       43 %       80 %  Python\n"));
  EXPECT_THAT(text, HasSubstr("  +36 points       34 %       70 %  job.py:4 parse\n"));
  EXPECT_THAT(text, HasSubstr("next: tbprof report after"));
  EXPECT_EQ(nlohmann::json::parse(ComparisonAsJson(comparison))["shares"][1]["new"], 0.7);
  EXPECT_THAT(ComparisonAsMarkdown(comparison), HasSubstr("| +37 points | 43 % | 80 % | parts | `Python` |"));
}

// 0 would be a number.
TEST(GateJson, NotKnown_IsNull) {
  const auto json = [](const Comparison& comparison) { return nlohmann::json::parse(ComparisonAsJson(comparison)); };
  const nlohmann::json empty = json(Comparison());
  for (const char* name : {"difference_s", "unexplained_s", "reason", "next"}) {
    ASSERT_TRUE(empty.contains(name));
    EXPECT_TRUE(empty[name].is_null()) << name;
  }
  Comparison comparison = MakeWorse();
  comparison.base.runs[0].steps = 0;
  comparison.base.runs[0].memory_peak_bytes.reset();
  comparison.blame[2].base = 0;
  comparison.blame[2].base_listed = false;
  const nlohmann::json out = json(comparison);
  EXPECT_TRUE(out["base"]["runs"][0]["steps"].is_null());
  EXPECT_EQ(out["base"]["runs"][1]["steps"], 20);
  EXPECT_TRUE(out["base"]["runs"][0]["memory_peak_bytes"].is_null());
  EXPECT_TRUE(out["blame"][2]["base"].is_null());
  EXPECT_EQ(out["blame"][2]["new"], 0.0111);
  EXPECT_TRUE(out["blame"][3]["share"].is_null()) << "bytes have no share of a time";
  EXPECT_EQ(out["quantities"][0]["base_runs"], 10);
  EXPECT_THAT(Faults(comparison), ElementsAre());
}

TEST(GateJson, Answers_HaveStableNames) {
  const nlohmann::json out = nlohmann::json::parse(ComparisonAsJson(MakeWorse()));
  EXPECT_EQ(out["gate_schema_version"], 1);
  EXPECT_EQ(out["answer"], "worse");
  EXPECT_EQ(out["quantities"][0]["name"], "step_time");
  EXPECT_EQ(out["quantities"][0]["low"], 0.032);
  EXPECT_EQ(out["quantities"][2]["exact"], true);
  EXPECT_TRUE(out["quantities"][2]["low"].is_null());
  EXPECT_EQ(out["rules"][1]["state"], "cannot_tell");
  EXPECT_EQ(out["blame"][3]["unit"], "bytes");
  EXPECT_EQ(out["base"]["runs"].size(), 10u);
  EXPECT_EQ(out["new"]["run_count"], 10);
}

TEST(GateJson, ManyRows_AreCounted) {
  Comparison comparison = MakeWorse();
  comparison.blame.resize(1234);
  const nlohmann::json out = nlohmann::json::parse(ComparisonAsJson(comparison));
  EXPECT_EQ(out["blame"].size(), 1000u);
  EXPECT_EQ(out["blame_left_out"], 234);
}

TEST(GateMarkdown, WithRoom_HasAllParts) {
  const std::string text = ComparisonAsMarkdown(MakeWorse());
  EXPECT_THAT(text, StartsWith("### tbprof: worse\n\n**the step takes 4.1 % longer (3.2 to 5.0 %), "));
  for (const char* part : {"#### Rules", "#### Numbers", "#### Why: +1.30 ms a step",
                           "#### Difference by lines of Python", "#### Warnings", "#### Runs"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(text, HasSubstr("| +1.10 ms | 12.5 ms | 13.6 ms | 85 % | `input` |"));
  EXPECT_THAT(text, HasSubstr("`native code` (not significant)"));
  EXPECT_THAT(text, Not(HasSubstr("left out")));
}

TEST(GateMarkdown, EachLimit_IsKept) {
  Comparison comparison = MakeHostile("größe|`x`");
  for (int i = 0; i < 200; ++i) comparison.warnings.push_back(StrCat("warning ", i));
  for (size_t most = 0; most <= 9000; most += 7) {
    const std::string text = ComparisonAsMarkdown(comparison, most);
    ASSERT_LE(text.size(), most);
    ASSERT_EQ(ValidUtf8Prefix(text), text.size()) << most;
  }
  EXPECT_THAT(ComparisonAsMarkdown(comparison), HasSubstr("151 rows left out"));
  EXPECT_THAT(ComparisonAsMarkdown(comparison, 40), StartsWith("### tbprof: worse\n"));
}

// Outside its code span a name could be a link, a mention, HTML, or the next cell.
TEST(GateMarkdown, HostileNames_StayInTheirCodeSpan) {
  for (const std::string evil :
       {"a`b|c", "`` ` ``", "x\\`y\\|z", "</td><script>", "![i](http://x)", "@team #1 $x$", "|"}) {
    const std::string text = ComparisonAsMarkdown(MakeHostile(evil));
    size_t rows = 0;
    std::string columns;
    for (const std::string& line : LinesOf(text)) {
      EXPECT_EQ(std::ranges::count(line, '`') % 2, 0) << line;
      std::string outside;
      bool in_code = false;
      for (const char c : line) {
        if (c == '`') {
          in_code = !in_code;
        } else if (!in_code) {
          outside += c;
        } else {
          EXPECT_NE(c, '|') << line;
        }
      }
      EXPECT_THAT(outside, Not(HasSubstr("<"))) << line;
      EXPECT_THAT(outside, Not(HasSubstr("["))) << line;
      EXPECT_THAT(outside, Not(HasSubstr("@"))) << line;
      EXPECT_THAT(outside, Not(HasSubstr("$"))) << line;
      if (!line.starts_with("|")) {
        columns.clear();
        continue;
      }
      ++rows;
      const std::string pipes(static_cast<size_t>(std::ranges::count(outside, '|')), '|');
      if (columns.empty()) columns = pipes;
      EXPECT_EQ(pipes, columns) << line;
    }
    EXPECT_GT(rows, 15u);
  }
}

TEST(GateAnnotations, Worse_IsAnErrorWithItsCauses) {
  const std::vector<std::string> lines = LinesOf(ComparisonAsAnnotations(MakeWorse()));
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0],
            "::error title=tbprof%3A worse::worse: the step takes 4.1 %25 longer (3.2 to 5.0 %25), 31.2 ms -> 32.5 ms, "
            "10 + 10 runs%0Aparts of the step: +1.10 ms input%0Alines of Python: +1.10 ms data.py:17 "
            "fetch%0Aallocated bytes, estimated from samples: +1.00 MiB data.py:18 fetch");
  EXPECT_EQ(lines[1], "::error title=tbprof%3A rule step_time>+3%25 fails::+4.1 %25 (+3.2 to +5.0 %25)");
  EXPECT_THAT(lines[2], StartsWith("::warning title=tbprof%3A rule memory_peak>+1%25 cannot be told::"));
  EXPECT_THAT(lines[3], StartsWith("::warning title=tbprof%3A less sure::base: other"));
}

TEST(GateAnnotations, WorseThatPasses_IsAWarning) {
  Comparison comparison = MakeWorse();
  comparison.gate = GateState::kPasses;
  EXPECT_THAT(ComparisonAsAnnotations(comparison), StartsWith("::warning title=tbprof%3A worse::"));
}

TEST(GateAnnotations, OtherAnswers_AreNoErrors) {
  Comparison comparison;
  comparison.reason = "too few runs";
  EXPECT_EQ(ComparisonAsAnnotations(comparison), "::warning title=tbprof%3A cannot tell::cannot tell: too few runs\n");
  comparison.answer = Answer::kEquivalent;
  EXPECT_THAT(ComparisonAsAnnotations(comparison), StartsWith("::notice title=tbprof%3A equivalent::"));
}

TEST(GateAnnotations, ManyAndHostile_AreTenLinesOfOneCommandEach) {
  Comparison comparison = MakeHostile("a,b:c%d\r\n::error::x");
  for (int i = 0; i < 40; ++i) comparison.warnings.push_back(std::string(100'000, '%'));
  const std::string text = ComparisonAsAnnotations(comparison);
  const std::vector<std::string> lines = LinesOf(text);
  EXPECT_EQ(lines.size(), kMostAnnotations);
  EXPECT_LT(text.size(), 100'000u);
  EXPECT_THAT(lines.back(), HasSubstr("more failed rules and warnings"));
  for (const std::string& line : lines) {
    const size_t title = line.find(" title="), end = line.find("::", 2);
    ASSERT_NE(title, std::string::npos);
    // No character ends the title early or begins another property.
    const std::string value = line.substr(title + 7, end - title - 7);
    EXPECT_THAT(value, Not(HasSubstr(":")));
    EXPECT_THAT(value, Not(HasSubstr(",")));
    EXPECT_THAT(line, Not(HasSubstr("\r")));
  }
}

}  // namespace
}  // namespace tbprof
