// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/str_format.h"
#include "launcher/base/text.h"
#include "launcher/base/wrapped_lines.h"
#include "launcher/gate/gate_output.h"
#include "writer/base/summary_format.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

constexpr size_t kMostParts = 6;
constexpr size_t kShownOfAKind = 3;
constexpr size_t kShownQuantities = 12;
constexpr size_t kMostRules = 30;
constexpr size_t kMostWarnings = 8;
constexpr size_t kMostWrapped = 3;
// Parts with a smaller share of the difference are not shown.
constexpr double kLeastShownShare = 0.05;
// If the differences of the mean and of the typical step differ by a larger share, a line explains it.
constexpr double kOtherDifference = 0.5;

class Lines {
 public:
  void Add(std::string_view line) { Put(FitColumns(line, kGateColumns)); }
  // Prints the numbers, then a name that may be cut at its end.
  void AddRow(const std::string& numbers, std::string_view name) {
    Put(StrCat(numbers, FitColumns(name, kGateColumns - std::min(kGateColumns - 1, Utf8Columns(numbers)))));
  }
  void AddWrapped(std::string_view text) {
    for (const std::string& line : WrappedLines(text, kGateColumns, kMostWrapped)) Add(line);
  }
  // A command is not cut: a part of it is another command.
  void AddWhole(std::string_view line) { StrAppend(&text_, WithoutCommands(line), "\n"); }
  void AddLeftOut(size_t total, size_t most, std::string_view what) {
    if (total > most) Add(StrCat("      ", total - most, " more ", what, ": --json"));
  }
  std::string Take() { return std::move(text_); }

 private:
  void Put(std::string_view line) {
    // Fits the line again: WithoutCommands may add a character.
    StrAppend(&text_, FitColumns(WithoutCommands(line), kGateColumns), "\n");
  }
  std::string text_;
};

// True: the mean of all steps changes otherwise than the typical step, for instance by pauses.
bool IsOtherDifference(const Comparison& comparison) {
  const QuantityResult* step = StepTime(comparison);
  if (step == nullptr || !step->base.has_value() || !step->now.has_value()) return false;
  const double typical_s = *step->now - *step->base, mean_s = comparison.difference_s.value_or(0);
  return std::abs(typical_s - mean_s) > kOtherDifference * std::max(std::abs(typical_s), std::abs(mean_s));
}

void AddBlameHeading(const Comparison& comparison, Lines* lines) {
  lines->Add(comparison.difference_s.has_value()
                 ? StrCat("why: ", SignedValueText(Unit::kSeconds, *comparison.difference_s),
                          comparison.whole_runs ? "" : " a step",
                          " (~: not significant; kinds are views of the same difference)")
                 : "changes in a step, whose time is not compared:");
  if (comparison.difference_s.has_value() && IsOtherDifference(comparison)) {
    lines->Add(comparison.whole_runs ? "     in the mean of the runs; some of them are far from the others"
                                     : "     in the mean of all steps, with pauses; the typical step changes as above");
  }
  lines->Add("       change       base        new   of it");
}

// With one run a side no row is significant: its largest lines are shown as unsure, like the parts.
bool IsLargeLine(const Comparison& comparison, const BlameRow& row) {
  constexpr double kLeastShareOfLine = 0.25;
  const bool has_errors = comparison.one_process || (comparison.base.runs.size() > 1 && comparison.now.runs.size() > 1);
  const bool is_line = row.kind == AmountKind::kPythonLine || row.kind == AmountKind::kOtherLine ||
                       row.kind == AmountKind::kOwnFunction || row.kind == AmountKind::kFunction;
  const QuantityResult* const step = StepTime(comparison);
  const bool changes = step != nullptr && std::abs(step->change.value_or(0)) > comparison.margin;
  return !has_errors && is_line && changes && std::abs(row.share.value_or(0)) >= kLeastShareOfLine;
}

void AddBlame(const Comparison& comparison, Lines* lines) {
  bool first = true;
  const BlameRow* const first_cause = FirstCauseOf(comparison);
  for (const AmountKind kind : kAmountKinds) {
    const bool part = kind == AmountKind::kPart;
    bool heading = true;
    std::vector<const BlameRow*> rows = BlameOf(comparison, kind, part ? kMostParts : kShownOfAKind);
    const bool is_left_out =
        first_cause != nullptr && first_cause->kind == kind && std::ranges::find(rows, first_cause) == rows.end();
    if (is_left_out) rows.push_back(first_cause);
    for (const BlameRow* row : rows) {
      const bool counts = part ? std::abs(row->share.value_or(0)) >= kLeastShownShare
                               : row->significant || row == first_cause || IsLargeLine(comparison, *row);
      if (!counts) continue;
      if (first) AddBlameHeading(comparison, lines);
      if (heading && !part) lines->Add(StrCat("    ", AmountKindTitle(kind)));
      first = heading = false;
      const Unit unit = UnitOf(kind);
      lines->AddRow(absl::StrFormat("  %s%10s %10s %10s %7s  ", row->significant ? " " : "~",
                                    SignedValueText(unit, row->now - row->base),
                                    row->base_listed ? ValueText(unit, row->base) : "-",
                                    row->now_listed ? ValueText(unit, row->now) : "-", ShareText(*row)),
                    ShownName(row->kind, row->name));
    }
  }
  // Of a change that may be none, nothing remains to be explained.
  if (first || !comparison.unexplained_s.has_value() || comparison.answer == Answer::kCannotTell) return;
  const double unexplained_s = *comparison.unexplained_s;
  if (std::abs(unexplained_s) < kLeastShownShare * std::abs(comparison.difference_s.value_or(0))) return;
  lines->Add(
      absl::StrFormat("   %10s %29s  not explained by any part", SignedValueText(Unit::kSeconds, unexplained_s), ""));
}

// Without step times: what takes another share of the time is where to look.
void AddShares(const Comparison& comparison, Lines* lines) {
  if (comparison.shares.empty()) return;
  lines->Add("shares of the time that changed, in percent of each window:");
  lines->Add("       change       base        new");
  std::optional<AmountKind> kind;
  size_t shown = 0, left_out = 0;
  for (const ShareRow& row : comparison.shares) {
    if (kind != row.kind) {
      shown = 0;
      if (row.kind != AmountKind::kPart) lines->Add(StrCat("    ", AmountKindTitle(row.kind)));
    }
    kind = row.kind;
    if (++shown > kShownOfAKind) {
      ++left_out;
      continue;
    }
    lines->AddRow(
        absl::StrFormat("   %10s %10s %10s  ", PointsText(row), HumanPercent(row.base), HumanPercent(row.now)),
        ShownName(row.kind, row.name));
  }
  lines->AddLeftOut(left_out, 0, "changed shares");
}

void AddQuantities(const Comparison& comparison, Lines* lines) {
  const std::vector<const QuantityResult*> changed = ChangedQuantities(comparison);
  if (!changed.empty()) lines->Add("changed:      base        new   change");
  for (size_t i = 0; i < std::min(changed.size(), kShownQuantities); ++i) {
    const QuantityResult& quantity = *changed[i];
    lines->AddRow(absl::StrFormat("        %10s %10s   ", ValueText(quantity.unit, quantity.base.value_or(0)),
                                  ValueText(quantity.unit, quantity.now.value_or(0))),
                  StrCat(ChangeText(quantity), "  ", quantity.name));
  }
  lines->AddLeftOut(changed.size(), kShownQuantities, "changed");
}

void AddRules(const Comparison& comparison, Lines* lines) {
  // Failed rules first, because at most kMostRules are shown.
  std::vector<const RuleResult*> rules;
  for (const RuleResult& rule : comparison.rules) rules.push_back(&rule);
  std::ranges::stable_sort(rules, [](const RuleResult* a, const RuleResult* b) {
    const auto rank = [](RuleResult::State state) {
      return state == RuleResult::State::kFails ? 0 : state == RuleResult::State::kCannotTell ? 1 : 2;
    };
    return rank(a->state) < rank(b->state);
  });
  for (size_t i = 0; i < std::min(rules.size(), kMostRules); ++i) {
    const std::string_view state =
        rules[i]->state == RuleResult::State::kCannotTell ? "cannot tell" : RuleStateName(rules[i]->state);
    lines->AddWrapped(StrCat("rule ", rules[i]->rule, " ", state, rules[i]->text.empty() ? "" : ": ", rules[i]->text));
  }
  lines->AddLeftOut(rules.size(), kMostRules, "rules");
}

}  // namespace

std::string ComparisonAsText(const Comparison& comparison) {
  Lines lines;
  lines.AddWrapped(AnswerLine(comparison));
  if (const std::string gate = GateLine(comparison); !gate.empty()) lines.AddWrapped(gate);
  AddBlame(comparison, &lines);
  AddShares(comparison, &lines);
  if (const std::string slow = SlowRankText(comparison); !slow.empty()) lines.AddWrapped(slow);
  AddQuantities(comparison, &lines);
  AddRules(comparison, &lines);
  for (size_t i = 0; i < std::min(comparison.warnings.size(), kMostWarnings); ++i) {
    lines.AddWrapped(StrCat("warning: ", comparison.warnings[i]));
  }
  lines.AddLeftOut(comparison.warnings.size(), kMostWarnings, "warnings");
  if (const std::string next = NextLine(comparison); !next.empty()) lines.AddWhole(next);
  return lines.Take();
}

}  // namespace tbprof
