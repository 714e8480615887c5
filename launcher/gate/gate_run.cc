// SPDX-License-Identifier: Apache-2.0
#include "launcher/gate/gate_run.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "launcher/base/text.h"
#include "launcher/gate/baseline_store.h"
#include "launcher/gate/compare.h"
#include "launcher/gate/fail_on.h"
#include "launcher/gate/gate_end.h"
#include "launcher/gate/gate_output.h"
#include "launcher/gate/sides.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

bool HasCount(const Side& base, const std::string& quantity) {
  return std::ranges::any_of(base.runs, [&](const RunNumbers& run) {
    return std::ranges::any_of(run.counts,
                               [&](const Count& count) { return StrCat(count.name, "_per_step") == quantity; });
  });
}

}  // namespace

bool CanGateRun(const Options& options, Terminal* terminal) {
  const absl::StatusOr<Side> base = LoadBaseline(options.store, options.baseline);
  if (!base.ok()) {
    terminal->Error(StrCat("--baseline: ", PrintableUtf8(std::string(base.status().message()))));
    return false;
  }
  const std::optional<std::vector<FailRule>> rules = ReadRules(options, terminal);
  if (!rules.has_value()) return false;
  for (const FailRule& rule : *rules) {
    const bool is_known =
        std::ranges::any_of(KnownQuantities(), [&](const KnownQuantity& known) { return known.name == rule.name; });
    if (rule.kind.has_value() || is_known || HasCount(*base, rule.name)) continue;
    terminal->Error(StrCat("--fail-on: no quantity `", rule.name, "`: neither tbprof nor the baseline has it"));
    return false;
  }
  return true;
}

std::optional<bool> IsRunWorse(const Options& options, const std::string& run, Terminal* terminal) {
  const auto fail = [&](std::string_view why) -> std::optional<bool> {
    terminal->Error(StrCat("not compared with ", PrintableUtf8(options.baseline), ": ", why));
    if (!options.unclear_fails) return std::nullopt;
    terminal->Error("gate: fails: the run was not compared (--unclear=fail)");
    return true;
  };
  if (run.empty()) return fail("the run has no profile");
  absl::StatusOr<Side> base = LoadBaseline(options.store, options.baseline);
  if (!base.ok()) return fail(PrintableUtf8(std::string(base.status().message())));
  absl::StatusOr<Side> now = ReadSide({run}, std::nullopt, options.store);
  if (!now.ok()) return fail(PrintableUtf8(std::string(now.status().message())));
  CompareOptions compare;
  compare.margin = options.margin;
  compare.any_program = options.any_program;
  const bool has_failed = !now->runs.empty() && now->runs.front().failed;
  Comparison comparison = Compare(*std::move(base), *std::move(now), compare);
  const std::optional<std::vector<FailRule>> rules = ReadRules(options, terminal);
  if (!rules) return std::nullopt;
  ApplyRules(*rules, !options.unclear_fails, &comparison);
  const bool fails = comparison.gate != GateState::kPasses;
  // Its own status is returned, whatever the gate says.
  if (has_failed) comparison.gate.reset();
  const std::vector<std::string> lines = absl::StrSplit(ComparisonAsText(comparison), '\n', absl::SkipEmpty());
  // The launcher returns its own exit status here, so the reason is printed even with --quiet. That nothing was found
  // out is printed, too: its status is that of a run that is not worse.
  const bool is_unclear = comparison.answer == Answer::kCannotTell;
  for (size_t i = 0; i < lines.size(); ++i) {
    const bool is_needed = (fails && !has_failed) || (is_unclear && i == 0);
    is_needed ? terminal->Error(lines[i]) : terminal->Print(lines[i]);
  }
  if (has_failed) terminal->Error("gate: not asked: the command failed, and tbprof returns its status");
  return fails;
}

}  // namespace tbprof
