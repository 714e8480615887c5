// SPDX-License-Identifier: Apache-2.0
//
// Markdown for a job summary. Text from a summary appears only in code spans: there GitHub and GitLab parse no links,
// mentions, HTML or formulas.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"
#include "launcher/base/text.h"
#include "launcher/gate/gate_output.h"
#include "launcher/report/markdown_page.h"
#include "writer/base/summary_format.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

constexpr size_t kMostNameBytes = 300;
constexpr size_t kMostRows = 50;
constexpr size_t kMostOfAKind = 10;
// Parts with a smaller share of the difference are not shown.
constexpr double kLeastShare = 0.01;

using Part = MarkdownPart;

std::string Code(std::string_view name) { return MarkdownCode(name, kMostNameBytes); }

std::string OrDash(std::string text) { return text.empty() ? "-" : text; }

Part QuantityPart(const Comparison& comparison) {
  Part part{80, "Numbers", "| what | base | new | change | answer |\n|---|--:|--:|--:|---|\n", {}};
  const auto add = [&](const QuantityResult& quantity) {
    const auto value = [&](const std::optional<double>& number) {
      return number.has_value() ? ValueText(quantity.unit, *number) : "-";
    };
    std::string answer(quantity.answer == Answer::kCannotTell ? "cannot tell" : AnswerName(quantity.answer));
    if (quantity.answer == Answer::kCannotTell && !quantity.reason.empty()) {
      StrAppend(&answer, ": ", Code(quantity.reason));
    }
    part.rows.push_back(StrCat("| ", Code(quantity.name), " | ", value(quantity.base), " | ", value(quantity.now),
                               " | ", OrDash(ChangeText(quantity)), " | ", answer, " |"));
  };
  // Changed quantities first: the rows at the end are cut.
  if (const QuantityResult* step = StepTime(comparison); step != nullptr) add(*step);
  for (const bool changed : {true, false}) {
    for (const QuantityResult& quantity : comparison.quantities) {
      if (&quantity != StepTime(comparison) && IsChanged(quantity) == changed) add(quantity);
    }
  }
  return part;
}

Part RulePart(const Comparison& comparison) {
  Part part{90, "Rules", "| rule | state | |\n|---|---|---|\n", {}};
  for (const RuleResult::State state :
       {RuleResult::State::kFails, RuleResult::State::kCannotTell, RuleResult::State::kHolds}) {
    for (const RuleResult& rule : comparison.rules) {
      if (rule.state != state) continue;
      part.rows.push_back(StrCat("| ", Code(rule.rule), " | ",
                                 state == RuleResult::State::kCannotTell ? "cannot tell" : RuleStateName(state), " | ",
                                 Code(rule.text), " |"));
    }
  }
  return part;
}

Part BlamePart(const Comparison& comparison, AmountKind kind) {
  const bool part_of_step = kind == AmountKind::kPart;
  Part part{part_of_step ? 85 : 60,
            StrCat("Difference by ", AmountKindTitle(kind)),
            "| change | base | new | of the difference | name |\n|--:|--:|--:|--:|---|\n",
            {}};
  if (part_of_step) {
    part.title = StrCat("Why: ", SignedValueText(Unit::kSeconds, comparison.difference_s.value_or(0)),
                        comparison.whole_runs ? "" : " a step");
  }
  const Unit unit = UnitOf(kind);
  for (const BlameRow* row : BlameOf(comparison, kind, kMostOfAKind)) {
    const bool counts = row->significant || row == FirstCauseOf(comparison);
    if (part_of_step ? std::abs(row->share.value_or(0)) < kLeastShare : !counts) continue;
    const std::string share = ShareText(*row);
    part.rows.push_back(StrCat(
        "| ", SignedValueText(unit, row->now - row->base), " | ", row->base_listed ? ValueText(unit, row->base) : "-",
        " | ", row->now_listed ? ValueText(unit, row->now) : "-", " | ", share.empty() ? "-" : share, " | ",
        Code(ShownName(row->kind, row->name)), row->significant ? "" : " (not significant)", " |"));
  }
  const double least_s = kLeastShare * std::abs(comparison.difference_s.value_or(0));
  const bool is_known = comparison.answer != Answer::kCannotTell;
  if (part_of_step && is_known && !part.rows.empty() && std::abs(comparison.unexplained_s.value_or(0)) > least_s) {
    part.rows.push_back(StrCat("| ", SignedValueText(Unit::kSeconds, *comparison.unexplained_s),
                               " | - | - | - | not explained by any part |"));
  }
  return part;
}

Part SharesPart(const Comparison& comparison) {
  Part part{
      75, "Shares of the time that changed", "| change | base | new | kind | name |\n|--:|--:|--:|---|---|\n", {}};
  for (const ShareRow& row : comparison.shares) {
    part.rows.push_back(StrCat("| ", PointsText(row), " | ", HumanPercent(row.base), " | ", HumanPercent(row.now),
                               " | ", row.kind == AmountKind::kPart ? "parts" : AmountKindTitle(row.kind), " | ",
                               Code(ShownName(row.kind, row.name)), " |"));
  }
  return part;
}

Part WarningPart(const Comparison& comparison) {
  Part part{70, "Warnings", "", {}};
  for (const std::string& warning : comparison.warnings) part.rows.push_back(StrCat("- ", Code(warning)));
  return part;
}

Part RunsPart(const Comparison& comparison) {
  Part part{50, "Runs", "| side | runs | command | machine | tbprof |\n|---|--:|---|---|---|\n", {}};
  for (const auto& [name, side] : {std::pair("base", &comparison.base), std::pair("new", &comparison.now)}) {
    if (side->runs.empty()) continue;
    const RunIdentity& identity = side->runs.front().identity;
    std::string machine = identity.cpu_model;
    for (const std::string& device : identity.devices) StrAppend(&machine, machine.empty() ? "" : ", ", device);
    part.rows.push_back(StrCat("| ", name, " | ", side->runs.size(), " | ", Code(identity.command), " | ",
                               Code(machine), " | ", Code(identity.tbprof_version), " |"));
  }
  return part;
}

std::string Page(const std::string& lead, const std::vector<Part>& parts) {
  std::string text = lead;
  size_t cut = 0;
  for (const Part& part : parts) {
    cut += part.cut_rows;
    if (part.rows.empty()) continue;
    StrAppend(&text, "\n#### ", part.title, "\n\n", part.header);
    for (const std::string& row : part.rows) StrAppend(&text, row, "\n");
  }
  if (cut > 0) StrAppend(&text, "\n", Counted(cut, "row"), " left out: `--json` has all.\n");
  return text;
}

}  // namespace

std::string ComparisonAsMarkdown(const Comparison& comparison, size_t max_bytes) {
  const AnswerText answer = TextOfAnswer(comparison);
  std::string lead = StrCat("### tbprof: ", answer.answer, "\n\n",
                            answer.is_ours ? StrCat("**", answer.detail, "**") : Code(answer.detail), "\n");
  if (const std::string gate = GateLine(comparison); !gate.empty()) StrAppend(&lead, "\n", Code(gate), "\n");
  if (const std::string slow = SlowRankText(comparison); !slow.empty()) StrAppend(&lead, "\n", Code(slow), "\n");
  if (const std::string next = NextLine(comparison); !next.empty()) StrAppend(&lead, "\n", Code(next), "\n");
  std::vector<Part> parts = {RulePart(comparison), QuantityPart(comparison)};
  for (const AmountKind kind : kAmountKinds) parts.push_back(BlamePart(comparison, kind));
  parts.push_back(SharesPart(comparison));
  parts.push_back(WarningPart(comparison));
  parts.push_back(RunsPart(comparison));
  const std::string text = FitMarkdown(std::move(parts), kMostRows, max_bytes,
                                       [&](const std::vector<Part>& cut) { return Page(lead, cut); });
  if (text.size() <= max_bytes) return text;
  // The lead is too long: only its first line stays, which has no text from a summary.
  return std::string(TruncateUtf8(StrCat("### tbprof: ", answer.answer, "\n"), max_bytes));
}

}  // namespace tbprof
