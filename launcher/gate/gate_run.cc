// SPDX-License-Identifier: Apache-2.0
#include "launcher/gate/gate_run.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "launcher/base/text.h"
#include "launcher/gate/baseline_store.h"
#include "launcher/gate/compare.h"
#include "launcher/gate/gate_end.h"
#include "launcher/gate/gate_output.h"
#include "launcher/gate/sides.h"
#include "writer/base/utf8.h"

namespace tbprof {

bool CanGateRun(const Options& options, Terminal* terminal) {
  if (const absl::StatusOr<Side> base = LoadBaseline(options.store, options.baseline); !base.ok()) {
    terminal->Error(StrCat("--baseline: ", PrintableUtf8(std::string(base.status().message()))));
    return false;
  }
  return ReadRules(options, terminal).has_value();
}

std::optional<bool> IsRunWorse(const Options& options, const std::string& run, Terminal* terminal) {
  const auto fail = [&](std::string_view why) -> std::optional<bool> {
    terminal->Error(StrCat("not compared with ", PrintableUtf8(options.baseline), ": ", why));
    return std::nullopt;
  };
  if (run.empty()) return fail("the run has no profile");
  absl::StatusOr<Side> base = LoadBaseline(options.store, options.baseline);
  if (!base.ok()) return fail(PrintableUtf8(std::string(base.status().message())));
  absl::StatusOr<Side> now = ReadSide({run}, std::nullopt, options.store);
  if (!now.ok()) return fail(PrintableUtf8(std::string(now.status().message())));
  CompareOptions compare;
  compare.margin = options.margin;
  Comparison comparison = Compare(*std::move(base), *std::move(now), compare);
  const std::optional<std::vector<FailRule>> rules = ReadRules(options, terminal);
  if (!rules) return std::nullopt;
  ApplyRules(*rules, !options.unclear_fails, &comparison);
  const std::vector<std::string> lines = absl::StrSplit(ComparisonAsText(comparison), '\n', absl::SkipEmpty());
  const bool fails = comparison.gate != GateState::kPasses;
  // The launcher returns its own exit status here, so the reason is printed even with --quiet.
  for (const std::string& line : lines) fails ? terminal->Error(line) : terminal->Say(line);
  return fails;
}

}  // namespace tbprof
