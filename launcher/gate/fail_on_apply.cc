// SPDX-License-Identifier: Apache-2.0
//
// Applies a rule. A range covers all values that the rule's quantity may have at the confidence of the comparison: the
// rule fails if all of them break it, and holds if none does.
#include <algorithm>
#include <cmath>
#include <limits>

#include "launcher/base/text.h"
#include "launcher/gate/compare.h"
#include "launcher/gate/fail_on.h"
#include "launcher/gate/gate_output.h"
#include "launcher/gate/statistics.h"
#include "launcher/gate/window_error.h"

namespace tbprof {
namespace {

// For counts per step, which are quotients: smaller differences are rounding errors.
constexpr double kRounding = 1e-9;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Range {
  std::optional<double> middle;  // the value that is shown
  double low = 0, high = 0;
  bool exact = false;
};

struct Judged {
  std::optional<Range> range;
  std::string why;  // the reason if there is no range
};

// An interval for the median of the distribution of the values, from their order only: the k-th smallest to the k-th
// largest value. k is the largest for which a binomial distribution leaves at most 1 - confidence outside.
// std::nullopt: too few values for any k.
std::optional<Range> MedianInterval(std::vector<double> values, double confidence) {
  std::ranges::sort(values);
  const size_t n = values.size();
  double below = 0;  // P(at most `k` of n values lie below the median) for k = 0, 1, ...
  double term = std::pow(0.5, static_cast<double>(n));
  size_t k = 0;
  while (k < n) {
    if (1 - 2 * (below + term) < confidence) break;
    below += term;
    ++k;
    term *= static_cast<double>(n - k + 1) / static_cast<double>(k);
  }
  if (k == 0 || 2 * k > n) return std::nullopt;
  return Range{MiddleOf(values), values[k - 1], values[n - k]};
}

std::string TooFew(std::string_view which, size_t runs) {
  return StrCat("too few runs for an interval of ", which, ": ", runs);
}

std::optional<double> ValueOf(const RunNumbers& run, AmountKind kind, const std::string& name) {
  for (const Amount& amount : run.amounts) {
    if (amount.kind == kind && amount.name == name) return amount.per_step;
  }
  // A missing amount is 0, unless the kind was not measured or the summary lists only the largest amounts.
  const bool is_measured = std::ranges::find(run.amounts, kind, &Amount::kind) != run.amounts.end();
  return is_measured && !IsListFull(run, kind) ? std::optional(0.0) : std::nullopt;
}

// std::nullopt: a run lacks the amount. `steps`: totals are divided by this number of steps, not by the run's own.
std::optional<std::vector<double>> ValuesOf(const Side& side, AmountKind kind, const std::string& name,
                                            std::optional<double> steps) {
  std::vector<double> values;
  for (const RunNumbers& run : side.runs) {
    const std::optional<double> one = ValueOf(run, kind, name);
    if (!one.has_value() || !std::isfinite(*one)) return std::nullopt;
    values.push_back(steps.has_value() ? *one * run.AllSteps() / *steps : *one);
  }
  if (values.empty()) return std::nullopt;
  return values;
}

// The range of a quantity that repeats. A change up to kEqualShare counts as none, unless each side has the same number
// in all its runs.
Judged ExactRange(const FailRule& rule, const QuantityResult& quantity) {
  const double base = *quantity.base, now = *quantity.now;
  const double tolerance = quantity.constant ? 0 : kEqualShare;
  // The new side's number, the least and the greatest that it may be.
  double least = now, greatest = now;
  if (rule.limit_kind != LimitKind::kValue && std::abs(now - base) <= tolerance * std::abs(base)) {
    least = greatest = base;
  } else if (base != 0 && quantity.low != quantity.high) {
    least = std::min(now, base * (1 + quantity.low.value_or(0)));
    greatest = std::max(now, base * (1 + quantity.high.value_or(0)));
  }
  const auto limited = [&](double value) {
    double number = value;
    if (rule.limit_kind == LimitKind::kShare) number = base != 0 ? value / base - 1 : value == 0 ? 0 : kInfinity;
    if (rule.limit_kind == LimitKind::kDifference) number = value - base;
    const double rounding = kRounding * std::max({1.0, std::abs(rule.limit), std::abs(value)});
    return std::abs(number - rule.limit) <= rounding ? rule.limit : number;
  };
  Range range;
  range.low = limited(least);
  range.high = limited(greatest);
  range.exact = range.low == range.high;
  range.middle = least == greatest ? range.low : limited(now);
  return {range, ""};
}

// The range of the new side's own value. Of few runs, that of all: a rule fails if each of them breaks it.
Judged NewRange(std::vector<double> values, double confidence) {
  const std::optional<Range> range = MedianInterval(values, confidence);
  if (range.has_value()) return {range, ""};
  if (values.empty()) return {{}, TooFew("the new side", 0)};
  std::ranges::sort(values);
  const double middle = MiddleOf(values);
  return {Range{middle, values.front(), values.back(), values.size() == 1}, ""};
}

// The range of the change. Each side gets half of the error probability that the confidence permits.
Judged ChangeRange(const FailRule& rule, const std::vector<double>& base_values, const std::vector<double>& now_values,
                   double confidence) {
  const double of_each = 1 - (1 - confidence) / 2;
  const std::optional<Range> base = MedianInterval(base_values, of_each);
  const std::optional<Range> now = MedianInterval(now_values, of_each);
  if (!base.has_value() || !now.has_value()) {
    return {{}, TooFew("a difference", std::min(base_values.size(), now_values.size()))};
  }
  if (rule.limit_kind == LimitKind::kDifference) {
    return {Range{*now->middle - *base->middle, now->low - base->high, now->high - base->low}, ""};
  }
  if (base->low <= 0) return {{}, StrCat(rule.name, " is 0 on the base side: give a limit in units")};
  return {Range{*now->middle / *base->middle - 1, now->low / base->high - 1, now->high / base->low - 1}, ""};
}

Judged JudgeQuantity(const FailRule& rule, const Comparison& comparison, const QuantityResult& quantity) {
  if (quantity.exact && quantity.base.has_value() && quantity.now.has_value()) {
    return ExactRange(rule, quantity);
  }
  const bool is_window = comparison.IsOneWindowASide() && quantity.name == "step_time";
  if (rule.limit_kind == LimitKind::kValue && !is_window && !quantity.now_values.empty()) {
    return NewRange(quantity.now_values, comparison.confidence);
  }
  if (!quantity.low.has_value() || !quantity.high.has_value()) {
    if (!quantity.reason.empty()) return {{}, quantity.reason};
    return {{}, quantity.unit == Unit::kCount ? "not countable: it differs between runs of one side" : "no interval"};
  }
  if (rule.limit_kind == LimitKind::kValue) {
    // The interval of the change is wider than that of the new side alone.
    const double base = *quantity.base;
    return {Range{quantity.now, base * (1 + *quantity.low), base * (1 + *quantity.high)}, ""};
  }
  if (rule.limit_kind == LimitKind::kShare) return {Range{quantity.change, *quantity.low, *quantity.high}, ""};
  if (!quantity.base.has_value()) return {{}, "the base side is not known"};
  // The interval is for the quotient. The base's own uncertainty changes a small difference only by a small share.
  const double base = *quantity.base;
  return {Range{quantity.change.has_value() ? std::optional(*quantity.change * base) : std::nullopt,
                *quantity.low * base, *quantity.high * base},
          ""};
}

// Why amounts of a kind cannot be compared; empty: they can. Bytes do not depend on the speed of the machine, as times
// do.
std::string WhyNotCompared(const Comparison& comparison, AmountKind kind) {
  if (kind == AmountKind::kAllocationSite) return comparison.no_totals;
  const QuantityResult* step = StepTime(comparison);
  if (step != nullptr && step->low.has_value() && step->high.has_value()) return "";
  return step != nullptr && !step->reason.empty() ? step->reason : "the step times are not compared";
}

// An amount of a window: from `value` to `value + unlisted`, with this error.
struct WindowAmount {
  double value = 0, error = 0, unlisted = 0;
};

std::optional<WindowAmount> AmountOf(const RunNumbers& run, AmountKind kind, const std::string& name) {
  WindowAmount out;
  double samples = 0;
  bool listed = false, measured = false;
  for (const Amount& amount : run.amounts) {
    measured |= amount.kind == kind;
    if (amount.kind != kind || amount.name != name) continue;
    listed = true;
    out.value += amount.per_step;
    samples += amount.samples;
  }
  if (!measured || !std::isfinite(out.value)) return std::nullopt;
  if (!listed) out.unlisted = LeastListed(run, kind);
  const std::optional<double> error = AmountError(run, kind, out.value, samples);
  if (!error.has_value()) return std::nullopt;
  out.error = *error;
  return out;
}

// The range of an amount of two windows of one process, by the errors within the windows.
Judged WindowRange(const FailRule& rule, const Comparison& comparison) {
  const AmountKind kind = *rule.kind;
  const auto base = AmountOf(comparison.BaseOf(kind).runs[0], kind, rule.name);
  const auto now = AmountOf(comparison.NowOf(kind).runs[0], kind, rule.name);
  const double factor = IntervalFactor(comparison.confidence, kAmountDegrees);
  if (!now.has_value()) return {{}, StrCat("the new window does not have ", rule.name)};
  if (rule.limit_kind == LimitKind::kValue) {
    const double half = factor * now->error;
    return {Range{now->value, now->value - half, now->value + now->unlisted + half}, ""};
  }
  if (!base.has_value()) return {{}, StrCat("the base window does not have ", rule.name)};
  const double change = now->value - base->value, half = factor * std::hypot(base->error, now->error);
  const Range range{change, change - base->unlisted - half, change + now->unlisted + half};
  if (rule.limit_kind == LimitKind::kDifference) return {range, ""};
  const double least = base->value - factor * base->error;
  if (least <= 0) return {{}, StrCat(rule.name, " is too small in the base window for a share: give a limit in units")};
  // A range of a quotient, by both ends of the base.
  const double most = base->value + factor * base->error;
  const double now_low = now->value - factor * now->error, now_high = now->value + now->unlisted + factor * now->error;
  return {Range{change / base->value, now_low / most - 1, now_high / least - 1}, ""};
}

Judged JudgeValues(const FailRule& rule, const Comparison& comparison, std::optional<double> steps) {
  const AmountKind kind = *rule.kind;
  if (comparison.IsOneWindowASide()) return WindowRange(rule, comparison);
  const std::optional<std::vector<double>> base = ValuesOf(comparison.BaseOf(kind), kind, rule.name, steps);
  const std::optional<std::vector<double>> now = ValuesOf(comparison.NowOf(kind), kind, rule.name, steps);
  const bool needs_base = rule.limit_kind != LimitKind::kValue;
  if (!now.has_value() || (needs_base && !base.has_value())) return {{}, StrCat("not each run has ", rule.name)};
  return needs_base ? ChangeRange(rule, *base, *now, comparison.confidence) : NewRange(*now, comparison.confidence);
}

Judged JudgeAmount(const FailRule& rule, const Comparison& comparison) {
  const AmountKind kind = *rule.kind;
  if (const std::string why = WhyNotCompared(comparison, kind); !why.empty()) return {{}, why};
  const auto has = [&](const Side& side) {
    return std::ranges::any_of(side.runs, [&](const RunNumbers& run) {
      return std::ranges::any_of(run.amounts,
                                 [&](const Amount& amount) { return amount.kind == kind && amount.name == rule.name; });
    });
  };
  const Side& base = comparison.BaseOf(kind);
  if (!has(base) && !has(comparison.NowOf(kind))) return {{}, StrCat("no run has ", rule.name)};
  Judged judged = JudgeValues(rule, comparison, std::nullopt);
  const double base_steps = MeanAllSteps(base);
  if (kind != AmountKind::kAllocationSite || !judged.range.has_value() || base_steps <= 0) return judged;
  // The bytes are totals of the whole run. If the runs have other numbers of steps, either view may be right.
  const Judged by_base_steps = JudgeValues(rule, comparison, base_steps);
  if (!by_base_steps.range.has_value()) return by_base_steps;
  judged.range->low = std::min(judged.range->low, by_base_steps.range->low);
  judged.range->high = std::max(judged.range->high, by_base_steps.range->high);
  return judged;
}

// kFails if the whole range breaks the rule, kHolds if no value of it does.
RuleResult::State StateOf(const FailRule& rule, const Range& range) {
  const double limit = rule.limit;
  bool all = false, none = false;
  switch (rule.op) {
    case FailOperator::kGreater:
      all = range.low > limit, none = range.high <= limit;
      break;
    case FailOperator::kAtLeast:
      all = range.low >= limit, none = range.high < limit;
      break;
    case FailOperator::kLess:
      all = range.high < limit, none = range.low >= limit;
      break;
    case FailOperator::kAtMost:
      all = range.high <= limit, none = range.low > limit;
      break;
    case FailOperator::kNotEqual:
      all = range.low > limit || range.high < limit, none = range.low == limit && range.high == limit;
      break;
  }
  return all ? RuleResult::State::kFails : none ? RuleResult::State::kHolds : RuleResult::State::kCannotTell;
}

std::string Shown(const FailRule& rule, Unit unit, double value) {
  if (rule.limit_kind == LimitKind::kShare) return value == kInfinity ? "from 0" : SignedPercent(value);
  return rule.limit_kind == LimitKind::kDifference ? SignedValueText(unit, value) : ValueText(unit, value);
}

std::string RangeText(const FailRule& rule, Unit unit, const Range& range) {
  std::string text = range.middle.has_value() ? Shown(rule, unit, *range.middle) : "";
  if (range.exact) return text;
  const std::string interval = rule.limit_kind == LimitKind::kShare
                                   ? SignedInterval(range.low, range.high)
                                   : StrCat(Shown(rule, unit, range.low), " to ", Shown(rule, unit, range.high));
  return text.empty() ? interval : StrCat(text, " (", interval, ")");
}

// Why the comparison lacks a quantity.
std::string WhyNoQuantity(const FailRule& rule, const Comparison& comparison) {
  if (comparison.quantities.empty() && !comparison.reason.empty()) return comparison.reason;
  const bool is_of_step = rule.name.starts_with("step_time") || rule.name.ends_with("_per_step");
  if (comparison.whole_runs && is_of_step) return "the steps of the runs are not known: use wall_time";
  if (rule.name.ends_with("_per_step") && !comparison.no_totals.empty()) return comparison.no_totals;
  return StrCat("no run has ", rule.name);
}

}  // namespace

RuleResult ApplyFailRule(const FailRule& rule, const Comparison& comparison) {
  RuleResult result;
  result.rule = rule.text;
  const QuantityResult* const step = StepTime(comparison);
  result.of_answer = !rule.kind.has_value() && (step == nullptr ? rule.name == "step_time" : rule.name == step->name);
  Judged judged;
  Unit unit = rule.kind.has_value() ? UnitOf(*rule.kind) : Unit::kSeconds;
  std::string values;
  if (rule.kind.has_value()) {
    judged = JudgeAmount(rule, comparison);
  } else {
    // Some steps became much longer: the typical step does not show it.
    const bool of_mean = result.of_answer && comparison.long_steps && rule.limit_kind != LimitKind::kValue;
    const std::string_view name = of_mean ? "step_time_mean" : std::string_view(rule.name);
    const auto found = std::ranges::find(comparison.quantities, name, &QuantityResult::name);
    if (found == comparison.quantities.end()) {
      judged.why = WhyNoQuantity(rule, comparison);
    } else {
      unit = found->unit;
      // A person can judge what the rule cannot.
      if (found->base.has_value() && found->now.has_value() && found->unit != Unit::kCount) {
        values = StrCat(" (", ValueText(unit, *found->base), " -> ", ValueText(unit, *found->now), ")");
      }
      judged = JudgeQuantity(rule, comparison, *found);
    }
  }
  if (!judged.range.has_value() || std::isnan(judged.range->low) || std::isnan(judged.range->high)) {
    result.text = StrCat(judged.why.empty() ? "not known" : judged.why, values);
    return result;
  }
  result.state = StateOf(rule, *judged.range);
  result.text = RangeText(rule, unit, *judged.range);
  if (result.state == RuleResult::State::kCannotTell) StrAppend(&result.text, ": the limit lies in between");
  return result;
}

}  // namespace tbprof
