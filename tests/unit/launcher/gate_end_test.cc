// SPDX-License-Identifier: Apache-2.0
//
// The exit status of a comparison, by its answer and the rules of the command line.
#include "launcher/gate/gate_end.h"

#include <gtest/gtest.h>

namespace tbprof {
namespace {

using State = RuleResult::State;

Comparison Make(Answer answer, const std::vector<RuleResult>& rules = {}) {
  Comparison comparison;
  comparison.answer = answer;
  comparison.rules = rules;
  return comparison;
}

TEST(GateStatus, WithoutRules_IsTheAnswer) {
  EXPECT_EQ(GateStatus(Make(Answer::kWorse), false), 1);
  EXPECT_EQ(GateStatus(Make(Answer::kBetter), false), 0);
  EXPECT_EQ(GateStatus(Make(Answer::kEquivalent), false), 0);
  EXPECT_EQ(GateStatus(Make(Answer::kCannotTell), false), 2);
  EXPECT_EQ(GateStatus(Make(Answer::kCannotTell), true), 0);
}

TEST(GateStatus, RuleForTheStepTime_DecidesInTheAnswersPlace) {
  EXPECT_EQ(GateStatus(Make(Answer::kWorse, {{"step_time>+3%", State::kHolds, "+1.0 %", true}}), false), 0);
  EXPECT_EQ(GateStatus(Make(Answer::kWorse, {{"step_time>+3%", State::kFails, "+4.0 %", true}}), false), 1);
  EXPECT_EQ(GateStatus(Make(Answer::kWorse, {{"step_time>+3%", State::kCannotTell, "", true}}), false), 2);
}

TEST(GateStatus, OtherRules_StandBesideTheAnswer) {
  const RuleResult holds = {"kernels_per_step!=0%", State::kHolds, "", false};
  EXPECT_EQ(GateStatus(Make(Answer::kWorse, {holds}), false), 1);
  EXPECT_EQ(GateStatus(Make(Answer::kCannotTell, {holds}), false), 0) << "who asks for counts does not need times";
  EXPECT_EQ(GateStatus(Make(Answer::kEquivalent, {{"kernels_per_step!=0%", State::kFails, "", false}}), false), 1);
}

}  // namespace
}  // namespace tbprof
