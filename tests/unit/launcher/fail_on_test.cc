// SPDX-License-Identifier: Apache-2.0
#include "launcher/gate/fail_on.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/base/text.h"
#include "tests/unit/launcher/gate_maker.h"

namespace tbprof {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using State = RuleResult::State;

FailRule Parsed(const std::string& text) {
  const absl::StatusOr<FailRule> rule = ParseFailRule(text);
  EXPECT_TRUE(rule.ok()) << text << ": " << rule.status();
  return rule.ok() ? *rule : FailRule();
}

std::string ErrorOf(const std::string& text) {
  const absl::StatusOr<FailRule> rule = ParseFailRule(text);
  EXPECT_FALSE(rule.ok()) << text;
  return std::string(rule.status().message());
}

RuleResult Applied(const std::string& text, const Comparison& comparison) {
  return ApplyFailRule(Parsed(text), comparison);
}

TEST(FailOnParser, EachForm_HasItsLimit) {
  FailRule rule = Parsed("step_time>+3%");
  EXPECT_EQ(rule.name, "step_time");
  EXPECT_EQ(rule.op, FailOperator::kGreater);
  EXPECT_EQ(rule.limit_kind, LimitKind::kShare);
  EXPECT_DOUBLE_EQ(rule.limit, 0.03);
  rule = Parsed(" memory_peak >= +50 MiB ");
  EXPECT_EQ(rule.op, FailOperator::kAtLeast);
  EXPECT_EQ(rule.limit_kind, LimitKind::kDifference);
  EXPECT_DOUBLE_EQ(rule.limit, 50.0 * (1 << 20));
  rule = Parsed("step_time>40ms");
  EXPECT_EQ(rule.limit_kind, LimitKind::kValue);
  EXPECT_DOUBLE_EQ(rule.limit, 0.04);
  rule = Parsed("kernels_per_step!=0%");
  EXPECT_EQ(rule.op, FailOperator::kNotEqual);
  EXPECT_EQ(rule.limit_kind, LimitKind::kShare);
  rule = Parsed("kernels_per_step<=120");
  EXPECT_EQ(rule.op, FailOperator::kAtMost);
  EXPECT_DOUBLE_EQ(rule.limit, 120);
  rule = Parsed("step_time<-2.5%");
  EXPECT_EQ(rule.op, FailOperator::kLess);
  EXPECT_DOUBLE_EQ(rule.limit, -0.025);
  for (const auto& [unit, factor] : {std::pair("ns", 1e-9), {"us", 1e-6}, {"ms", 1e-3}, {"s", 1.0}}) {
    EXPECT_DOUBLE_EQ(Parsed(StrCat("step_time>2", unit)).limit, 2 * factor);
  }
}

TEST(FailOnParser, NamesOfAmounts_MayHaveOperators) {
  const FailRule rule = Parsed("kernel:gemm<float, 2> (a==b)>=+10%");
  EXPECT_EQ(rule.kind, AmountKind::kKernel);
  EXPECT_EQ(rule.name, "gemm<float, 2> (a==b)");
  EXPECT_EQ(rule.op, FailOperator::kAtLeast);
  EXPECT_EQ(Parsed("part:input>+10%").kind, AmountKind::kPart);
  EXPECT_EQ(Parsed("operation:aten::mm>+10%").name, "aten::mm");
  EXPECT_EQ(Parsed("line:train.py:41 main>1ms").name, "train.py:41 main");
  EXPECT_EQ(Parsed("allocation:f>+1KiB").kind, AmountKind::kAllocationSite);
  EXPECT_EQ(Parsed("cache_misses_per_step>+1").name, "cache_misses_per_step");
}

// The parts are a fixed list: a rule for another name would hold forever.
TEST(FailOnParser, UnknownPart_IsAnError) {
  FailOnProblem problem;
  EXPECT_FALSE(ParseFailRule("part:inptu>+10%", &problem).ok());
  EXPECT_EQ(problem.column, 6u);
  EXPECT_EQ(problem.message, "no part `inptu`; did you mean input?");
  EXPECT_TRUE(ParseFailRule("part:gc>+10%").ok());
  // As the terminal shows it.
  EXPECT_EQ(Parsed("part: native code >+10%").name, "operations");
}

TEST(FailOnParser, EachError_HasItsPlace) {
  EXPECT_EQ(ErrorOf("step_time>+x"), "column 12: expected a number, got `x`");
  EXPECT_EQ(ErrorOf("step_time>"), "column 11: expected a number, but the rule ends");
  EXPECT_EQ(ErrorOf("step_time"), "column 10: expected >, >=, <, <= or !=, but the rule ends");
  EXPECT_EQ(ErrorOf("step_time +3%"), "column 10: expected >, >=, <, <= or !=, got ` +3%`");
  EXPECT_EQ(ErrorOf("step_time==3s"), "column 11: expected >, >=, <, <= or !=, got `=3s`");
  EXPECT_EQ(ErrorOf("step_time>3%"), "column 11: expected + or - before a share of the base, got `3%`");
  EXPECT_EQ(ErrorOf("step_time>+3"), "column 13: step_time is a time: expected ns, us, ms, s or %, but the rule ends");
  EXPECT_EQ(ErrorOf("step_time>+3MiB"), "column 13: step_time is a time: expected ns, us, ms, s or %, got `MiB`");
  EXPECT_EQ(ErrorOf("kernels_per_step>+3ms"),
            "column 20: kernels_per_step is a count: expected no unit or %, got `ms`");
  EXPECT_EQ(ErrorOf("memory_peak>+3%%"), "column 15: memory_peak is a size: expected B, KiB, MiB, GiB or %, got `%%`");
  EXPECT_EQ(ErrorOf(">+3%"), "column 1: expected a name, got `>+3%`");
  EXPECT_EQ(ErrorOf("part:>+3%"), "column 6: expected the name of a part, got `>+3%`");
  EXPECT_THAT(ErrorOf("step_time!=0%"), HasSubstr("column 10: != is for counts"));
  EXPECT_THAT(ErrorOf("step_time<-200%"), HasSubstr("column 11: nothing falls by over 100 %"));
  EXPECT_THAT(ErrorOf("step_time>99999999999999999999s"), HasSubstr("column 11: expected a number up to 10^15"));
  EXPECT_THAT(ErrorOf("step_time>1e3s"), HasSubstr("column 12: step_time is a time"));
  EXPECT_THAT(ErrorOf("  "), HasSubstr("column 1: expected a rule such as"));
  EXPECT_THAT(ErrorOf(std::string(5000, 'a')), HasSubstr("a rule of over 1000 bytes"));
}

TEST(FailOnParser, UnknownNames_SuggestTheNearest) {
  EXPECT_EQ(ErrorOf("steptime>+3%"), "column 1: no quantity `steptime`; did you mean step_time?");
  EXPECT_EQ(ErrorOf("kernal_per_step!=0%"), "column 1: no quantity `kernal_per_step`; did you mean kernels_per_step?");
  EXPECT_EQ(ErrorOf("parts:input>+1%"), "column 1: no kind `parts`; did you mean part?");
  EXPECT_THAT(ErrorOf("zzzzzzzzzzzzzz>+1%"), HasSubstr("no quantity `zzzzzzzzzzzzzz`; there is step_time, "));
}

TEST(FailOnParser, CaretLines_PointAtTheCharacter) {
  FailOnProblem problem;
  EXPECT_FALSE(ParseFailRule("größe:x>+3%", &problem).ok());
  EXPECT_FALSE(ParseFailRule("kernel:größe>+x", &problem).ok());
  EXPECT_EQ(problem.column, 15u) << "in characters";
  EXPECT_THAT(
      FailOnErrorLines("kernel:größe>+x", problem),
      ElementsAre("--fail-on: column 15: expected a number, got `x`", "  kernel:größe>+x", "                ^"));
  const std::string longer = StrCat("kernel:", std::string(500, 'a'), ">+x");
  EXPECT_FALSE(ParseFailRule(longer, &problem).ok());
  const std::vector<std::string> lines = FailOnErrorLines(longer, problem);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_LE(lines[1].size(), 100u);
  EXPECT_EQ(lines[1][lines[2].find('^')], 'x');
}

TEST(FailOnParser, HostileText_MakesOnePrintableLine) {
  for (const std::string& text :
       {std::string("part:\x1b[2J\n>+x"), std::string("\xff\xfe>+3%"), std::string("a\0b>1", 5)}) {
    EXPECT_EQ(ErrorOf(text).find_first_of("\n\x1b"), std::string::npos);
  }
}

TEST(FailOnRule, OfATime_NeedsTheInterval) {
  const auto with = [](double low, double high) {
    Comparison comparison = MakeWorse();
    comparison.quantities[0].low = low;
    comparison.quantities[0].high = high;
    return comparison;
  };
  EXPECT_EQ(Applied("step_time>+3%", with(0.031, 0.05)).state, State::kFails);
  EXPECT_EQ(Applied("step_time>+3%", with(0.01, 0.03)).state, State::kHolds);
  const RuleResult between = Applied("step_time>+3%", with(0.01, 0.05));
  EXPECT_EQ(between.state, State::kCannotTell);
  EXPECT_EQ(between.text, "+4.1 % (+1.0 to +5.0 %): the limit lies in between");
  EXPECT_EQ(Applied("step_time>=+3%", with(0.03, 0.05)).state, State::kFails);
  EXPECT_EQ(Applied("step_time<-3%", with(-0.05, -0.031)).state, State::kFails);
  EXPECT_EQ(Applied("step_time<-3%", with(-0.03, 0.01)).state, State::kHolds);
  EXPECT_EQ(Applied("step_time<=-3%", with(-0.05, -0.03)).state, State::kFails);
  // 0.0312 s * 3.1 % is 0.97 ms.
  EXPECT_EQ(Applied("step_time>+0.9ms", with(0.031, 0.05)).state, State::kFails);
  EXPECT_EQ(Applied("step_time>+2ms", with(0.031, 0.05)).state, State::kHolds);
  Comparison without = MakeWorse();
  without.quantities[0].low = without.quantities[0].high = std::nullopt;
  without.quantities[0].reason = "one run a side";
  const RuleResult one = Applied("step_time>+3%", without);
  EXPECT_EQ(one.state, State::kCannotTell);
  EXPECT_EQ(one.text, "one run a side (31.2 ms -> 32.5 ms)");
}

TEST(FailOnRule, OfTheNewSide_FewRunsDecideTogether) {
  Comparison comparison = MakeWorse();
  std::vector<double>& values = comparison.quantities[0].now_values;
  values = {0.041, 0.042, 0.043, 0.044, 0.045, 0.046};
  EXPECT_EQ(Applied("step_time>40ms", comparison).state, State::kFails);
  EXPECT_EQ(Applied("step_time>46ms", comparison).state, State::kHolds);
  EXPECT_EQ(Applied("step_time>42ms", comparison).state, State::kCannotTell);
  values.pop_back();
  EXPECT_EQ(Applied("step_time>40ms", comparison).state, State::kFails);
  EXPECT_EQ(Applied("step_time>41ms", comparison).state, State::kCannotTell);
  EXPECT_EQ(Applied("step_time>45ms", comparison).state, State::kHolds);
  values = {0.041};
  comparison.quantities[0].low = comparison.quantities[0].high = std::nullopt;
  EXPECT_EQ(Applied("step_time>40ms", comparison).state, State::kFails) << "one run has one value";
  EXPECT_EQ(Applied("step_time>41ms", comparison).state, State::kHolds);
  EXPECT_EQ(Applied("step_time>40ms", comparison).text, "41.0 ms");
  // The interval from the second smallest to the second largest of ten runs has 1 - 2 * (1 + 10) / 1024 = 97.9 %.
  values = {0.01, 0.041, 0.042, 0.043, 0.044, 0.045, 0.046, 0.047, 0.048, 0.049};
  EXPECT_EQ(Applied("step_time>40ms", comparison).state, State::kFails);
}

TEST(FailOnRule, OfAnExactCount_ComparesExactly) {
  const auto with = [](double base, double now) {
    Comparison comparison;
    comparison.quantities = {MakeCount("kernels_per_step", base, now)};
    return comparison;
  };
  EXPECT_EQ(Applied("kernels_per_step!=0%", with(108, 108)).state, State::kHolds);
  EXPECT_EQ(Applied("kernels_per_step!=0%", with(108, 108.01)).state, State::kHolds) << "one run may differ so much";
  EXPECT_EQ(Applied("kernels_per_step!=0%", with(108, 108.2)).state, State::kFails);
  Comparison constant = with(108, 108.01);
  constant.quantities[0].constant = true;
  EXPECT_EQ(Applied("kernels_per_step!=0%", constant).state, State::kFails) << "all runs of a side agree";
  EXPECT_EQ(Applied("kernels_per_step!=0%", with(0, 1)).state, State::kFails);
  EXPECT_EQ(Applied("kernels_per_step>+1%", with(0, 1)).text, "from 0");
  EXPECT_EQ(Applied("kernels_per_step!=0%", with(0, 0)).state, State::kHolds);
  EXPECT_EQ(Applied("kernels_per_step!=0%", with(0.1 + 0.2, 0.3)).state, State::kHolds) << "rounding";
  EXPECT_EQ(Applied("kernels_per_step>+1%", with(100, 101)).state, State::kHolds);
  EXPECT_EQ(Applied("kernels_per_step>=+1%", with(100, 101)).state, State::kFails);
  EXPECT_EQ(Applied("kernels_per_step>+2", with(100, 103)).state, State::kFails);
  EXPECT_EQ(Applied("kernels_per_step>110", with(100, 103)).state, State::kHolds);
}

// The number of steps may differ by what was found to be one.
TEST(FailOnRule, OfACountInTwoViews_NeedsBoth) {
  Comparison comparison;
  comparison.quantities = {MakeCount("kernels_per_step", 100, 102)};
  comparison.quantities[0].low = 0.02;
  comparison.quantities[0].high = 0.04;
  EXPECT_EQ(Applied("kernels_per_step>+1%", comparison).state, State::kFails);
  EXPECT_EQ(Applied("kernels_per_step!=0%", comparison).state, State::kFails);
  EXPECT_EQ(Applied("kernels_per_step>+4%", comparison).state, State::kHolds);
  EXPECT_EQ(Applied("kernels_per_step>+5", comparison).state, State::kHolds);
  const RuleResult between = Applied("kernels_per_step>+3%", comparison);
  EXPECT_EQ(between.state, State::kCannotTell);
  EXPECT_EQ(between.text, "+2.0 % (+2.0 to +4.0 %): the limit lies in between");
}

TEST(FailOnRule, OfWhatIsNotCountable_CannotBeTold) {
  Comparison comparison;
  comparison.quantities = {MakeCount("kernels_per_step", 1, 2)};
  comparison.quantities[0].exact = false;
  EXPECT_THAT(Applied("kernels_per_step!=0%", comparison).text, HasSubstr("not countable"));
  EXPECT_EQ(Applied("kernels_per_step!=0%", comparison).state, State::kCannotTell);
  EXPECT_EQ(Applied("launches_per_step!=0%", comparison).text, "no run has launches_per_step");
  comparison.reason = "one run a side";
  EXPECT_EQ(Applied("launches_per_step!=0%", comparison).text, "no run has launches_per_step");
  comparison.no_totals = "12 records were dropped";
  EXPECT_EQ(Applied("launches_per_step!=0%", comparison).text, "12 records were dropped");
  EXPECT_EQ(Applied("memory_peak>+1%", comparison).text, "no run has memory_peak");
  comparison = {};
  comparison.reason = "the commands differ";
  EXPECT_EQ(Applied("step_time>+3%", comparison).text, "the commands differ");
}

// Bytes do not depend on the CPU: a rule for them is decided where times are not compared.
TEST(FailOnRule, OfAnAllocation_NeedsNoTimes) {
  Comparison comparison = MakeWorse();
  comparison.quantities[0].low = comparison.quantities[0].high = std::nullopt;
  comparison.quantities[0].reason = "the CPU model differs";
  for (RunNumbers& run : comparison.now.runs) run.amounts.back().per_step *= 1.5;
  EXPECT_EQ(Applied("allocation:train.py:12 main>+10%", comparison).state, State::kFails);
  EXPECT_EQ(Applied("allocation:train.py:12 main>+4KiB", comparison).state, State::kHolds);
  Comparison other_steps = comparison;
  for (RunNumbers& run : other_steps.now.runs) run.steps = 21;
  EXPECT_EQ(Applied("allocation:train.py:12 main>+52%", other_steps).state, State::kCannotTell);
  EXPECT_EQ(Applied("part:input>+10%", comparison).text, "the CPU model differs");
  // Runs of another CPU, which the times leave out.
  comparison.counted =
      Sides{MakeSide("base", std::vector<double>(8, 0.03)), MakeSide("new", std::vector<double>(8, 0.03))};
  EXPECT_EQ(Applied("allocation:train.py:12 main>+10%", comparison).state, State::kHolds);
  comparison.no_totals = "what a step is differs";
  const RuleResult other = Applied("allocation:train.py:12 main>+10%", comparison);
  EXPECT_EQ(other.state, State::kCannotTell);
  EXPECT_EQ(other.text, "what a step is differs");
}

TEST(FailOnRule, OfAPart_ComparesTheRuns) {
  Comparison comparison = MakeWorse();
  // MakeRun's parts are shares of its step; input has 40 %.
  comparison.base = MakeSide("base", {1.00, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06});
  comparison.now = MakeSide("new", {1.30, 1.31, 1.32, 1.33, 1.34, 1.35, 1.36});
  EXPECT_EQ(Applied("part:input>+10%", comparison).state, State::kFails);
  EXPECT_EQ(Applied("part:input>+50%", comparison).state, State::kHolds);
  EXPECT_EQ(Applied("part:input>+30%", comparison).state, State::kCannotTell);
  EXPECT_EQ(Applied("part:input>+50ms", comparison).state, State::kFails);
  EXPECT_EQ(Applied("part:input>500ms", comparison).state, State::kFails);
  EXPECT_EQ(Applied("kernel:gemm<float, 2>>+10%", comparison).state, State::kFails);
  EXPECT_EQ(Applied("part:network>+10%", comparison).text, "no run has network");
  // If the times of steps are not compared, the times of their parts are not compared either.
  comparison.quantities[0].low = std::nullopt;
  comparison.quantities[0].reason = "throttled";
  EXPECT_EQ(Applied("part:input>+10%", comparison).text, "throttled");
  comparison = MakeWorse();
  comparison.now.runs.resize(6);
  EXPECT_THAT(Applied("part:input>+10%", comparison).text, HasSubstr("too few runs"));
  // What the base does not list is 0 there.
  comparison = MakeWorse();
  for (RunNumbers& run : comparison.now.runs) run.amounts.push_back({AmountKind::kKernel, "conv", 0.001});
  EXPECT_EQ(Applied("kernel:conv>+0.5ms", comparison).state, State::kFails);
  EXPECT_THAT(Applied("kernel:conv>+10%", comparison).text, HasSubstr("is 0 on the base side"));
  for (int i = 0; i < 200; ++i) {
    comparison.base.runs[2].amounts.push_back({AmountKind::kKernel, StrCat("k", i), 0.002});
  }
  EXPECT_THAT(Applied("kernel:conv>+0.5ms", comparison).text, HasSubstr("not each run has")) << "its list is full";
  comparison = MakeWorse();
  comparison.now.runs[3].amounts.erase(comparison.now.runs[3].amounts.begin() + 2);
  EXPECT_THAT(Applied("kernel:gemm<float, 2>>+10%", comparison).text, HasSubstr("not each run has"));
}

}  // namespace
}  // namespace tbprof
