// SPDX-License-Identifier: Apache-2.0
#include "launcher/gate/gate_end.h"

#include <algorithm>
#include <utility>

#include "launcher/cli/commands.h"
#include "launcher/gate/gate_output.h"

namespace tbprof {

std::optional<std::vector<FailRule>> ReadRules(const Options& options, Terminal* terminal) {
  std::vector<FailRule> rules;
  for (const std::string& text : options.fail_on) {
    FailOnProblem problem;
    absl::StatusOr<FailRule> rule = ParseFailRule(text, &problem);
    if (rule.ok()) {
      rules.push_back(*std::move(rule));
      continue;
    }
    for (const std::string& line : FailOnErrorLines(text, problem)) terminal->Error(line);
    return std::nullopt;
  }
  return rules;
}

bool CanEndGate(const Options& options, Terminal* terminal) {
  if (int{options.json} + int{options.markdown} + int{options.annotations} > 1) {
    terminal->Error("--json, --md and --annotations exclude each other: give one of them");
    return false;
  }
  return ReadRules(options, terminal).has_value();
}

void ApplyRules(const std::vector<FailRule>& rules, bool unclear_passes, Comparison* comparison) {
  for (const FailRule& rule : rules) comparison->rules.push_back(ApplyFailRule(rule, *comparison));
  comparison->gate = StateOfGate(*comparison, unclear_passes);
}

GateState StateOfGate(const Comparison& comparison, bool unclear_passes) {
  const bool replaced = std::ranges::any_of(comparison.rules, &RuleResult::of_answer);
  // Who gives rules for a program without steps asks for those numbers: its wall time is noisier than a step's.
  const bool asks_for_others = comparison.whole_runs && !comparison.rules.empty();
  bool fails = comparison.answer == Answer::kWorse && !replaced && !asks_for_others;
  bool unclear = comparison.rules.empty() && comparison.answer == Answer::kCannotTell;
  for (const RuleResult& rule : comparison.rules) {
    fails |= rule.state == RuleResult::State::kFails;
    unclear |= rule.state == RuleResult::State::kCannotTell;
  }
  if (fails) return GateState::kFails;
  return unclear && !unclear_passes ? GateState::kCannotTell : GateState::kPasses;
}

int EndGate(const Options& options, Comparison comparison, Terminal* terminal) {
  const std::optional<std::vector<FailRule>> rules = ReadRules(options, terminal);
  if (!rules) return kExitGateFailed;
  ApplyRules(*rules, options.unclear_passes, &comparison);
  const std::string text = options.json          ? ComparisonAsJson(comparison)
                           : options.markdown    ? ComparisonAsMarkdown(comparison)
                           : options.annotations ? ComparisonAsAnnotations(comparison)
                                                 : ComparisonAsText(comparison);
  if (!PrintOut(text)) return kExitGateFailed;
  switch (*comparison.gate) {
    case GateState::kFails:
      return kExitWorse;
    case GateState::kCannotTell:
      return kExitCannotTell;
    case GateState::kPasses:
      break;
  }
  return kExitEquivalent;
}

}  // namespace tbprof
