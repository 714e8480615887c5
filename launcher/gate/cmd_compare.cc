// SPDX-License-Identifier: Apache-2.0
//
// `tbprof compare`: recorded runs against others; the exit status is for a CI job.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/base/text.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/terminal.h"
#include "launcher/gate/compare.h"
#include "launcher/gate/sides.h"
#include "writer/base/utf8.h"

namespace tbprof {

std::string ComparisonAsText(const Comparison& comparison);

namespace {

int Fail(std::string_view line) {
  Terminal().Error(line);
  return kExitGateFailed;
}

// The rules decide where there are any: who asks for counts does not ask for times.
int ExitStatus(const Comparison& comparison, bool unclear_passes) {
  bool fails = comparison.answer == Answer::kWorse;
  bool unclear = comparison.rules.empty() && comparison.answer == Answer::kCannotTell;
  for (const RuleResult& rule : comparison.rules) {
    fails |= rule.state == RuleResult::State::kFails;
    unclear |= rule.state == RuleResult::State::kCannotTell;
  }
  if (fails) return kExitWorse;
  return unclear && !unclear_passes ? kExitCannotTell : kExitEquivalent;
}

}  // namespace

int CommandCompare(const Options& options) {
  std::vector<std::string> base = options.base_runs, now = options.new_runs;
  if (!options.operands.empty()) {
    if (options.operands.size() != 2 || !base.empty() || !now.empty()) {
      return Fail(
          "compare takes two operands, BASE and NEW, or --base=PATH and --new=PATH, each as often as there are runs");
    }
    base = {options.operands[0]};
    now = {options.operands[1]};
  }
  if (base.empty() || now.empty()) {
    return Fail("compare needs two sides: tbprof compare BASE NEW, or --base=PATH … --new=PATH …");
  }
  if (int{options.json} + int{options.markdown} + int{options.annotations} > 1) {
    return Fail("--json, --md and --annotations exclude each other: give one of them");
  }
  const std::optional<int64_t> rank = options.rank >= 0 ? std::optional(options.rank) : std::nullopt;
  absl::StatusOr<Side> base_side = ReadSide(base, rank);
  if (!base_side.ok()) return Fail(PrintableUtf8(std::string(base_side.status().message())));
  absl::StatusOr<Side> new_side = ReadSide(now, rank);
  if (!new_side.ok()) return Fail(PrintableUtf8(std::string(new_side.status().message())));
  CompareOptions compare;
  compare.margin = options.margin;
  compare.any_program = options.any_program;
  const Comparison comparison = Compare(*std::move(base_side), *std::move(new_side), compare);
  if (!PrintOut(ComparisonAsText(comparison))) return kExitGateFailed;
  return ExitStatus(comparison, options.unclear_passes);
}

}  // namespace tbprof
