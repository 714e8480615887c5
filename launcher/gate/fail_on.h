// SPDX-License-Identifier: Apache-2.0
//
// A rule of --fail-on: a condition on base and new that makes the gate fail.
//
//   step_time>+3%              the new side's step takes over 3 % longer
//   kernels_per_step!=0%       any change of an exact count
//   memory_peak>+50MiB         a change by bytes
//   step_time>40ms             the new side's own value
//   part:input>+10%            an amount of the step: part, operation, kernel, wait, line, allocation
//
//   RULE  = NAME OPERATOR LIMIT     NAME = quantity | KIND `:` any name
//   LIMIT = SIGN NUMBER `%` | SIGN NUMBER [UNIT] | NUMBER [UNIT] | `0%`
//
//   FailOnProblem problem;
//   absl::StatusOr<FailRule> rule = ParseFailRule("step_time>+x", &problem);
//   // The error of this rule: `column 12: expected a number, got `x``.
//   RuleResult result = ApplyFailRule(*rule, comparison);
//
// A rule about a time, a memory peak or a count that does not repeat fails only if the whole interval breaks it, and
// holds only if no value of the interval does; else its state is `cannot tell`. See docs/gate.md.
//
// Process: launcher. Pure functions.
#ifndef TBPROF_LAUNCHER_GATE_FAIL_ON_H_
#define TBPROF_LAUNCHER_GATE_FAIL_ON_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "launcher/gate/comparison.h"

namespace tbprof {

enum class FailOperator { kGreater, kAtLeast, kLess, kAtMost, kNotEqual };

// The value that the limit is compared with.
enum class LimitKind {
  kShare,       // change / base
  kDifference,  // new - base
  kValue,       // new
};

struct FailRule {
  std::string text;                // as given by the user
  std::string name;                // of a quantity, or of an amount without its kind
  std::optional<AmountKind> kind;  // only for amounts
  FailOperator op = FailOperator::kGreater;
  LimitKind limit_kind = LimitKind::kShare;
  double limit = 0;  // a share, seconds, bytes or a count
};

struct FailOnProblem {
  size_t column = 0;    // from 1, in characters
  std::string message;  // without the column
};

// An error is one line: `column 12: expected a number, got `x``.
absl::StatusOr<FailRule> ParseFailRule(std::string_view text, FailOnProblem* problem = nullptr);

// Lines for a terminal: the message after `--fail-on: `, the rule, and a caret below the fault.
std::vector<std::string> FailOnErrorLines(std::string_view text, const FailOnProblem& problem);

RuleResult ApplyFailRule(const FailRule& rule, const Comparison& comparison);

// A quantity that a rule can name without a kind, and its unit.
struct KnownQuantity {
  std::string_view name;
  Unit unit;
};
absl::Span<const KnownQuantity> KnownQuantities();

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_GATE_FAIL_ON_H_
