// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include "absl/strings/str_format.h"
#include "launcher/base/text.h"
#include "launcher/cli/options.h"
#include "launcher/gate/gate_output.h"
#include "writer/base/summary_format.h"
#include "writer/base/utf8.h"
#include "writer/timeline/timeline_verdict.h"

namespace tbprof {
namespace {

// Rounding error of counts per step, which are quotients.
constexpr double kRounding = 1e-9;

double Finite(double value) { return std::isfinite(value) ? value : 0; }

// `4.1` or `0.32`, without sign and unit.
std::string PercentDigits(double share) {
  const double percent = std::min(std::abs(Finite(share)) * 100, 1e9);
  if (percent >= 5e-6 && percent < 0.005) return absl::StrFormat("%.5f", percent);
  return absl::StrFormat("%.*f", percent < 0.995 ? 2 : percent < 99.95 ? 1 : 0, percent);
}

std::string Sign(double value) { return value < 0 ? "-" : "+"; }

// `3.2 to 5.0 %`, or with signs `-0.4 to +0.8 %`.
std::string IntervalText(double low, double high, bool with_signs) {
  if (!with_signs && low > high) std::swap(low, high);
  return StrCat(with_signs ? Sign(low) : "", PercentDigits(low), " to ", with_signs ? Sign(high) : "",
                PercentDigits(high), " %");
}

std::string RunsText(size_t base, size_t now) {
  return StrCat(base, " + ", now, base == 1 && now == 1 ? " run" : " runs");
}
std::string RunsText(const Comparison& comparison) {
  if (comparison.one_process) {
    const size_t base = comparison.base.runs.size(), now = comparison.now.runs.size();
    return StrCat(base == 1 && now == 1 ? std::string("two") : StrCat(base, " + ", now), " windows of one process");
  }
  return RunsText(comparison.base.runs.size(), comparison.now.runs.size());
}

// `31.2 ms -> 32.5 ms, 10 + 10 runs`.
std::string TimesText(const Comparison& comparison, const QuantityResult& step) {
  std::string text;
  if (step.base.has_value() && step.now.has_value()) {
    text = StrCat(ValueText(step.unit, *step.base), " -> ", ValueText(step.unit, *step.now), ", ");
  }
  return text + RunsText(comparison);
}

// In seconds: within one process, the sizes of both windows' steps are known to the reader.
std::string ChangedStepOfWindows(const Comparison& comparison, const QuantityResult& step) {
  const double base = *step.base;
  const auto size = [&](double change) { return ValueText(Unit::kSeconds, std::abs(change) * base); };
  const double change = step.change.value_or(0);
  std::string text = StrCat("the step takes ", size(change), change < 0 ? " less" : " longer");
  if (step.low.has_value() && step.high.has_value() && (*step.low < 0) == (*step.high < 0)) {
    std::string least = size(change < 0 ? *step.high : *step.low);
    const std::string most = size(change < 0 ? *step.low : *step.high);
    // `15.1 to 16.8 ms`
    const size_t unit = most.rfind(' ');
    if (unit != std::string::npos && least.ends_with(most.substr(unit)))
      least.resize(least.size() - most.size() + unit);
    StrAppend(&text, " (", least, " to ", most, ")");
  }
  return StrCat(text, ", ", TimesText(comparison, step));
}

std::string ChangedStep(const Comparison& comparison, const QuantityResult& step) {
  if (comparison.one_process && step.base.has_value()) return ChangedStepOfWindows(comparison, step);
  const double change = step.change.value_or(0);
  std::string text = StrCat("the ", comparison.whole_runs ? "run" : "step", " takes ", PercentDigits(change),
                            change < 0 ? " % less" : " % longer");
  if (step.low.has_value() && step.high.has_value()) {
    const bool one_sign = (*step.low < 0) == (*step.high < 0);
    StrAppend(&text, " (",
              one_sign ? IntervalText(std::abs(*step.low), std::abs(*step.high), false)
                       : IntervalText(*step.low, *step.high, true),
              ")");
  }
  return StrCat(text, ", ", TimesText(comparison, step));
}

std::string SameStep(const Comparison& comparison, const QuantityResult& step) {
  std::string text = step.change.has_value()
                         ? StrCat("the ", comparison.whole_runs ? "run" : "step", " changes by ", ChangeText(step))
                         : "no steps compared";
  StrAppend(&text, comparison.answer == Answer::kEquivalent
                       ? StrCat(", margin ", PercentDigits(comparison.margin), " %")
                       : "");
  return StrCat(text, ", ", TimesText(comparison, step));
}

// `some steps take much longer: the mean step changes by +66.7 % (+50.4 to +84.9 %), the typical one by +3.1 %, ...`.
std::string LongSteps(const Comparison& comparison) {
  std::string text = "some steps take much longer";
  for (const QuantityResult& quantity : comparison.quantities) {
    if (quantity.name == "step_time_mean") StrAppend(&text, ": the mean step changes by ", ChangeText(quantity));
  }
  const QuantityResult* const step = StepTime(comparison);
  if (step != nullptr && step->change.has_value()) {
    StrAppend(&text, ", the typical one by ", SignedPercent(*step->change));
  }
  return StrCat(text, ", ", RunsText(comparison));
}

// The reason for the answer `worse` if the step time did not cause it.
AnswerText WorseWithoutStep(const Comparison& comparison) {
  for (const RuleResult& rule : comparison.rules) {
    if (rule.state == RuleResult::State::kFails) return {"worse", StrCat("rule ", rule.rule, ": ", rule.text), false};
  }
  for (const QuantityResult& quantity : comparison.quantities) {
    if (quantity.answer == Answer::kWorse) {
      const std::string runs = RunsText(quantity.base_runs, quantity.now_runs);
      return {"worse", StrCat(quantity.name, " ", ChangeText(quantity), ", ", runs), false};
    }
  }
  return {"worse", comparison.reason.empty() ? RunsText(comparison) : comparison.reason, comparison.reason.empty()};
}

AnswerText CannotTell(const Comparison& comparison, const QuantityResult* step) {
  AnswerText text{"cannot tell", comparison.reason, comparison.reason.empty()};
  if (step == nullptr) {
    if (text.detail.empty()) text.detail = "no step times";
    return text;
  }
  if (text.detail.empty() && !step->reason.empty()) {
    text.detail = step->reason;
    text.is_ours = false;
  }
  if (step->more_runs.value_or(0) > 0 && text.detail.empty()) {
    text.detail = StrCat(Counted(*step->more_runs, "more pair"), " of runs needed");
  }
  if (step->change.has_value()) {
    StrAppend(&text.detail, text.detail.empty() ? "" : "; ", SameStep(comparison, *step));
  }
  if (text.detail.empty()) text.detail = RunsText(comparison);
  return text;
}

}  // namespace

AnswerText TextOfAnswer(const Comparison& comparison) {
  const QuantityResult* step = StepTime(comparison);
  switch (comparison.answer) {
    case Answer::kWorse:
      if (comparison.long_steps) return {"worse", LongSteps(comparison)};
      if (step == nullptr || step->answer != Answer::kWorse) return WorseWithoutStep(comparison);
      return {"worse", ChangedStep(comparison, *step)};
    case Answer::kBetter:
      if (step == nullptr || step->answer != Answer::kBetter) break;
      return {"better", ChangedStep(comparison, *step)};
    case Answer::kEquivalent:
      break;
    case Answer::kCannotTell:
      return CannotTell(comparison, step);
  }
  return {comparison.answer == Answer::kBetter ? "better" : "equivalent",
          step == nullptr ? RunsText(comparison) : SameStep(comparison, *step)};
}

std::string AnswerLine(const Comparison& comparison) {
  const AnswerText text = TextOfAnswer(comparison);
  return StrCat(text.answer, ": ", text.detail);
}

std::string GateLine(const Comparison& comparison) {
  if (!comparison.gate.has_value()) return "";
  const bool unclear_passes = comparison.gate == GateState::kPasses && comparison.answer == Answer::kCannotTell;
  if (comparison.rules.empty()) return unclear_passes ? "gate: passes: an unclear answer passes" : "";
  const auto all_in = [&](RuleResult::State state) {
    std::vector<const RuleResult*> rules;
    for (const RuleResult& rule : comparison.rules) {
      if (rule.state == state) rules.push_back(&rule);
    }
    return rules;
  };
  const auto named = [](const std::vector<const RuleResult*>& rules) {
    return StrCat("rule ", rules[0]->rule, rules.size() > 1 ? StrCat(" and ", rules.size() - 1, " more") : "");
  };
  const auto failing = all_in(RuleResult::State::kFails), unclear = all_in(RuleResult::State::kCannotTell);
  switch (*comparison.gate) {
    case GateState::kFails:
      return StrCat("gate: fails: ", failing.empty() ? "the answer is worse" : named(failing));
    case GateState::kCannotTell:
      return StrCat("gate: cannot tell: ", unclear.empty() ? "the answer is not known" : named(unclear));
    case GateState::kPasses:
      break;
  }
  const size_t rules = comparison.rules.size();
  if (!unclear.empty())
    return StrCat("gate: passes: no rule fails, ", unclear.size(), " of ", rules, " cannot be told");
  return StrCat("gate: passes: ", Counted(rules, "rule"), rules == 1 ? " holds" : " hold");
}

std::string_view GateStateName(GateState state) {
  switch (state) {
    case GateState::kPasses:
      return "passes";
    case GateState::kFails:
      return "fails";
    case GateState::kCannotTell:
      break;
  }
  return "cannot_tell";
}

std::string NextLine(const Comparison& comparison) {
  const QuantityResult* step = StepTime(comparison);
  if (comparison.answer == Answer::kCannotTell && comparison.shares.empty()) {
    if (step == nullptr || step->more_runs.value_or(0) == 0) return "";
    const uint64_t pairs =
        std::max(comparison.base.runs.size(), comparison.now.runs.size()) + std::min<uint64_t>(*step->more_runs, 1e9);
    // `tbprof ab` does not accept more pairs.
    if (pairs > kMostPairs)
      return StrCat("next: a quieter machine; on this one ", pairs, " runs of each side would be needed");
    return StrCat("next: ", pairs, " runs of each side: tbprof ab --pairs=", pairs, " --base 'CMD A' --new 'CMD B'");
  }
  if (comparison.answer != Answer::kWorse && comparison.shares.empty()) return "";
  if (comparison.now.runs.empty()) return "";
  const auto& [path, logdir] = std::tie(comparison.now.runs.front().path, comparison.now.runs.front().logdir);
  if (path.empty()) return "";
  return StrCat("next: tbprof report ", ShellQuoted(path),
                logdir.empty() ? "" : StrCat(" --logdir=", ShellQuoted(logdir)));
}

std::string SlowRankText(const Comparison& comparison) {
  if (!comparison.waits_for_rank.has_value()) return "";
  return StrCat("ranks: they ", comparison.are_waits_sure ? "" : "seem to ", "wait for ",
                PrintableUtf8(comparison.waits_for), "; its lines: tbprof compare --rank=", *comparison.waits_for_rank,
                " BASE NEW");
}

std::string ValueText(Unit unit, double value) {
  value = Finite(value);
  switch (unit) {
    case Unit::kSeconds:
      return HumanSeconds(value);
    case Unit::kBytes:
      return HumanBytes(std::clamp(value, -1e18, 1e18));
    case Unit::kCount:
      break;
  }
  const double size = std::abs(value);
  if (size >= 9999.5) return StrCat(value < 0 ? "-" : "", HumanCount(static_cast<uint64_t>(std::min(size, 1e18))));
  if (std::abs(size - std::round(size)) < 5e-3) return absl::StrFormat("%.0f", value);
  if (size < 0.0995) return absl::StrFormat("%.2g", value);
  return absl::StrFormat("%.*f", size < 9.995 ? 2 : 1, value);
}

std::string SignedValueText(Unit unit, double value) {
  return StrCat(Finite(value) < 0 ? "" : "+", ValueText(unit, value));
}

std::string SignedPercent(double share) { return StrCat(Sign(Finite(share)), PercentDigits(share), " %"); }

std::string SignedInterval(double low, double high) { return IntervalText(low, high, true); }

std::string ChangeText(const QuantityResult& quantity) {
  if (!quantity.change.has_value()) {
    return quantity.base == 0.0 && quantity.now.value_or(0) > 0 ? "from 0" : "";
  }
  std::string text = SignedPercent(*quantity.change);
  if (!quantity.low.has_value() || !quantity.high.has_value()) return text;
  if (quantity.exact && *quantity.low == *quantity.high) return text;
  return StrCat(text, " (", SignedInterval(*quantity.low, *quantity.high), ")");
}

std::string ShareText(const BlameRow& row) {
  if (!row.share.has_value() || !std::isfinite(*row.share)) return "";
  // A part that changed much more than the whole, beside others that changed the other way, is no share of it.
  constexpr double kMost = 2;
  return std::abs(*row.share) > kMost ? "" : absl::StrFormat("%.0f %%", *row.share * 100);
}

std::string_view RuleStateName(RuleResult::State state) {
  switch (state) {
    case RuleResult::State::kHolds:
      return "holds";
    case RuleResult::State::kFails:
      return "fails";
    case RuleResult::State::kCannotTell:
      break;
  }
  return "cannot_tell";
}

std::string PointsText(const ShareRow& row) {
  return absl::StrFormat("%+.0f points", 100 * (Finite(row.now) - Finite(row.base)));
}

std::string_view AmountKindTitle(AmountKind kind) {
  switch (kind) {
    case AmountKind::kPart:
      return "parts of the step";
    case AmountKind::kOperation:
      return "operations";
    case AmountKind::kKernel:
      return "kernels";
    case AmountKind::kWait:
      return "waits";
    case AmountKind::kPythonLine:
      return "lines of Python";
    case AmountKind::kOwnLine:
      return "lines of the program, with what they call";
    case AmountKind::kOtherLine:
      return "lines of Python in other threads and processes";
    case AmountKind::kOwnFunction:
      return "functions of the program, with what they call, in all threads";
    case AmountKind::kFunction:
      return "native functions";
    case AmountKind::kAllocationSite:
      break;
  }
  return "allocated bytes, estimated from samples";
}

std::string_view ShownName(AmountKind kind, std::string_view name) {
  const std::optional<StepPart> part = kind == AmountKind::kPart ? StepPartNamed(std::string(name)) : std::nullopt;
  return part.has_value() ? StepPartTitle(*part) : name;
}

Unit UnitOf(AmountKind kind) { return kind == AmountKind::kAllocationSite ? Unit::kBytes : Unit::kSeconds; }

const QuantityResult* StepTime(const Comparison& comparison) {
  for (const QuantityResult& quantity : comparison.quantities) {
    if (quantity.name == (comparison.whole_runs ? "wall_time" : "step_time")) return &quantity;
  }
  return nullptr;
}

bool IsChanged(const QuantityResult& quantity) {
  if (quantity.exact && quantity.constant) {
    if (!quantity.base.has_value() || !quantity.now.has_value()) return false;
    return std::abs(*quantity.now - *quantity.base) > kRounding * std::max(std::abs(*quantity.base), 1.0);
  }
  return quantity.answer == Answer::kWorse || quantity.answer == Answer::kBetter;
}

std::vector<const QuantityResult*> ChangedQuantities(const Comparison& comparison) {
  std::vector<const QuantityResult*> changed;
  for (const QuantityResult& quantity : comparison.quantities) {
    if (&quantity != StepTime(comparison) && IsChanged(quantity)) changed.push_back(&quantity);
  }
  return changed;
}

std::vector<const BlameRow*> BlameOf(const Comparison& comparison, AmountKind kind, size_t most) {
  std::vector<const BlameRow*> rows;
  for (const BlameRow& row : comparison.blame) {
    if (row.kind == kind && row.now != row.base) rows.push_back(&row);
  }
  std::ranges::stable_sort(rows, [](const BlameRow* a, const BlameRow* b) {
    if (a->significant != b->significant) return a->significant;
    return std::abs(Finite(a->now - a->base)) > std::abs(Finite(b->now - b->base));
  });
  if (rows.size() > most) rows.resize(most);
  return rows;
}

const BlameRow* FirstCauseOf(const Comparison& comparison) {
  constexpr double kLeastShareOfCause = 0.25;
  const QuantityResult* const step = StepTime(comparison);
  if (step == nullptr || comparison.blame.empty() || !comparison.has_first_cause) return nullptr;
  // The first row is the first cause (blame.cc).
  const BlameRow& row = comparison.blame.front();
  const bool is_detail = row.kind != AmountKind::kPart && row.kind != AmountKind::kAllocationSite;
  const bool changes = std::abs(Finite(step->change.value_or(0))) > comparison.margin;
  return is_detail && changes && Finite(row.share.value_or(0)) >= kLeastShareOfCause ? &row : nullptr;
}

std::string WithoutCommands(std::string_view line) {
  std::string text(line);
  const size_t begin = text.find_first_not_of(' ');
  if (begin != std::string::npos && text.compare(begin, 2, "::") == 0) text.insert(begin, ".");
  for (size_t at; (at = text.find("##[")) != std::string::npos;) text[at + 1] = '.';
  return text;
}

}  // namespace tbprof
