// SPDX-License-Identifier: Apache-2.0
//
// What a comparison means for the job, by its answer and the rules of the command line.
#include "launcher/gate/gate_end.h"

#include <gtest/gtest.h>

#include <optional>

#include "launcher/cli/terminal.h"
#include "launcher/gate/gate_run.h"

namespace tbprof {
namespace {

using State = RuleResult::State;
using enum GateState;

Comparison Make(Answer answer, const std::vector<RuleResult>& rules = {}) {
  Comparison comparison;
  comparison.answer = answer;
  comparison.rules = rules;
  return comparison;
}

TEST(StateOfGate, WithoutRules_IsTheAnswer) {
  EXPECT_EQ(StateOfGate(Make(Answer::kWorse), false), kFails);
  EXPECT_EQ(StateOfGate(Make(Answer::kBetter), false), kPasses);
  EXPECT_EQ(StateOfGate(Make(Answer::kEquivalent), false), kPasses);
  EXPECT_EQ(StateOfGate(Make(Answer::kCannotTell), false), kCannotTell);
  EXPECT_EQ(StateOfGate(Make(Answer::kCannotTell), true), kPasses);
}

TEST(StateOfGate, RuleForTheStepTime_DecidesInTheAnswersPlace) {
  EXPECT_EQ(StateOfGate(Make(Answer::kWorse, {{"step_time>+3%", State::kHolds, "+1.0 %", true}}), false), kPasses);
  EXPECT_EQ(StateOfGate(Make(Answer::kWorse, {{"step_time>+3%", State::kFails, "+4.0 %", true}}), false), kFails);
  EXPECT_EQ(StateOfGate(Make(Answer::kWorse, {{"step_time>+3%", State::kCannotTell, "", true}}), false), kCannotTell);
}

TEST(StateOfGate, OtherRules_StandBesideTheAnswer) {
  const RuleResult holds = {"kernels_per_step!=0%", State::kHolds, "", false};
  EXPECT_EQ(StateOfGate(Make(Answer::kWorse, {holds}), false), kFails);
  EXPECT_EQ(StateOfGate(Make(Answer::kCannotTell, {holds}), false), kPasses)
      << "who asks for counts does not need times";
  EXPECT_EQ(StateOfGate(Make(Answer::kEquivalent, {{"kernels_per_step!=0%", State::kFails, "", false}}), false),
            kFails);
}

// A job that asked to fail when nothing can be told must not pass because there is nothing at all.
TEST(IsRunWorse, RunWithoutAProfile_FailsIfUnclearFails) {
  Options options;
  options.baseline = "main";
  Terminal terminal(options);
  EXPECT_EQ(IsRunWorse(options, "", &terminal), std::nullopt);
  options.unclear_fails = true;
  EXPECT_EQ(IsRunWorse(options, "", &terminal), true);
}

}  // namespace
}  // namespace tbprof
