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
  return Range{(values[(n - 1) / 2] + values[n / 2]) / 2, values[k - 1], values[n - k]};
}

std::string TooFew(std::string_view which, size_t runs) {
  return StrCat("too few runs for an interval of ", which, ": ", runs);
}

std::string_view CountOf(std::string_view quantity) {
  constexpr std::string_view kEnd = "_per_step";
  return quantity.ends_with(kEnd) ? quantity.substr(0, quantity.size() - kEnd.size()) : "";
}

// The run's value of a quantity.
std::optional<double> ValueOf(const RunNumbers& run, const std::string& quantity) {
  if (quantity == "step_time") return run.median_step_s > 0 ? std::optional(run.median_step_s) : std::nullopt;
  if (quantity == "memory_peak") return run.memory_peak_bytes;
  if (quantity == "wall_time") return run.wall_s;
  for (const Count& count : run.counts) {
    if (count.name == CountOf(quantity)) return count.per_step;
  }
  return std::nullopt;
}

std::optional<double> ValueOf(const RunNumbers& run, AmountKind kind, const std::string& name) {
  for (const Amount& amount : run.amounts) {
    if (amount.kind == kind && amount.name == name) return amount.per_step;
  }
  // Parts cover the whole step, so a missing part is 0. For the other kinds a summary lists only the largest amounts.
  return kind == AmountKind::kPart && !run.amounts.empty() ? std::optional(0.0) : std::nullopt;
}

// std::nullopt: a run lacks the value. `of_steps`: it comes from the times of steps.
template <typename Value>
std::optional<std::vector<double>> ValuesOf(const Side& side, bool of_steps, Value value) {
  std::vector<double> values;
  for (const RunNumbers& run : side.runs) {
    const bool fits = run.unfit.empty() && (!of_steps || run.no_times.empty());
    const std::optional<double> one = fits ? value(run) : std::nullopt;
    if (!one.has_value() || !std::isfinite(*one)) return std::nullopt;
    values.push_back(*one);
  }
  if (values.empty()) return std::nullopt;
  return values;
}

// True: the side has several runs with the same number.
bool IsConstant(const Side& side, const std::string& quantity) {
  const auto differs = [&](const RunNumbers& run) {
    return ValueOf(run, quantity) != ValueOf(side.runs.front(), quantity);
  };
  return side.runs.size() > 1 && ValueOf(side.runs.front(), quantity).has_value() &&
         std::ranges::none_of(side.runs, differs);
}

// `tolerance`: a change up to this share counts as none.
Judged ExactRange(const FailRule& rule, double base, double now, double tolerance) {
  if (rule.limit_kind != LimitKind::kValue && std::abs(now - base) <= tolerance * std::abs(base)) now = base;
  Range range;
  range.exact = true;
  if (rule.limit_kind == LimitKind::kShare) {
    range.low = base != 0 ? now / base - 1 : now == 0 ? 0 : kInfinity;
  } else {
    range.low = rule.limit_kind == LimitKind::kDifference ? now - base : now;
  }
  if (std::abs(range.low - rule.limit) <= kRounding * std::max({1.0, std::abs(rule.limit), std::abs(now)})) {
    range.low = rule.limit;
  }
  range.middle = range.high = range.low;
  return {range, ""};
}

// The range of the new side's own value.
template <typename Value>
Judged NewRange(const Comparison& comparison, const std::string& name, bool of_steps, Value value) {
  const std::optional<std::vector<double>> values = ValuesOf(comparison.now, of_steps, value);
  if (!values.has_value()) return {{}, StrCat("not each run has ", name)};
  const std::optional<Range> range = MedianInterval(*values, comparison.confidence);
  if (!range.has_value()) return {{}, TooFew("the new side", values->size())};
  return {range, ""};
}

// The range of the change. Each side gets half of the error probability that the confidence permits.
template <typename Value>
Judged ChangeRange(const FailRule& rule, const Comparison& comparison, Value value) {
  const std::optional<std::vector<double>> base_values = ValuesOf(comparison.base, true, value);
  const std::optional<std::vector<double>> now_values = ValuesOf(comparison.now, true, value);
  if (!base_values.has_value() || !now_values.has_value()) return {{}, StrCat("not each run has ", rule.name)};
  const double confidence = 1 - (1 - comparison.confidence) / 2;
  const std::optional<Range> base = MedianInterval(*base_values, confidence);
  const std::optional<Range> now = MedianInterval(*now_values, confidence);
  if (!base.has_value() || !now.has_value()) {
    return {{}, TooFew("a difference", std::min(base_values->size(), now_values->size()))};
  }
  if (rule.limit_kind == LimitKind::kDifference) {
    return {Range{*now->middle - *base->middle, now->low - base->high, now->high - base->low}, ""};
  }
  if (base->low <= 0) return {{}, StrCat(rule.name, " is 0 on the base side: give a limit in units")};
  return {Range{*now->middle / *base->middle - 1, now->low / base->high - 1, now->high / base->low - 1}, ""};
}

Judged JudgeQuantity(const FailRule& rule, const Comparison& comparison, const QuantityResult& quantity) {
  if (quantity.exact && quantity.base.has_value() && quantity.now.has_value()) {
    // The base of a count may be other runs of a baseline than those of the times.
    const std::optional<double> first =
        comparison.base.runs.empty() ? std::nullopt : ValueOf(comparison.base.runs.front(), rule.name);
    const bool same_base =
        first.has_value() && std::abs(*first - *quantity.base) <= kRounding * std::max(1.0, std::abs(*first));
    const bool constant = same_base && IsConstant(comparison.base, rule.name) && IsConstant(comparison.now, rule.name);
    return ExactRange(rule, *quantity.base, *quantity.now, constant ? 0 : kEqualShare);
  }
  if (!quantity.low.has_value() || !quantity.high.has_value()) {
    if (!quantity.reason.empty()) return {{}, quantity.reason};
    return {{}, quantity.unit == Unit::kCount ? "not countable: it differs between runs of one side" : "no interval"};
  }
  if (rule.limit_kind == LimitKind::kValue) {
    return NewRange(comparison, rule.name, rule.name == "step_time",
                    [&](const RunNumbers& run) { return ValueOf(run, rule.name); });
  }
  if (rule.limit_kind == LimitKind::kShare) return {Range{quantity.change, *quantity.low, *quantity.high}, ""};
  if (!quantity.base.has_value()) return {{}, "the base side is not known"};
  // The interval is for the quotient. The base's own uncertainty changes a small difference only by a small share.
  const double base = *quantity.base;
  return {Range{quantity.change.has_value() ? std::optional(*quantity.change * base) : std::nullopt,
                *quantity.low * base, *quantity.high * base},
          ""};
}

Judged JudgeAmount(const FailRule& rule, const Comparison& comparison) {
  // If step times cannot be compared, neither can their parts.
  const QuantityResult* step = StepTime(comparison);
  if (step == nullptr || !step->low.has_value() || !step->high.has_value()) {
    return {{}, step != nullptr && !step->reason.empty() ? step->reason : "the step times are not compared"};
  }
  const auto value = [&](const RunNumbers& run) { return ValueOf(run, *rule.kind, rule.name); };
  const auto has = [&](const Side& side) {
    return std::ranges::any_of(side.runs, [&](const RunNumbers& run) {
      return std::ranges::any_of(
          run.amounts, [&](const Amount& amount) { return amount.kind == *rule.kind && amount.name == rule.name; });
    });
  };
  if (!has(comparison.base) && !has(comparison.now)) return {{}, StrCat("no run has ", rule.name)};
  return rule.limit_kind == LimitKind::kValue ? NewRange(comparison, rule.name, true, value)
                                              : ChangeRange(rule, comparison, value);
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
  return StrCat(text, text.empty() ? "" : " (", Shown(rule, unit, range.low), " to ", Shown(rule, unit, range.high),
                text.empty() ? "" : ")");
}

}  // namespace

RuleResult ApplyFailRule(const FailRule& rule, const Comparison& comparison) {
  RuleResult result;
  result.rule = rule.text;
  result.of_answer = !rule.kind.has_value() && rule.name == "step_time";
  Judged judged;
  Unit unit = rule.kind.has_value() ? UnitOf(*rule.kind) : Unit::kSeconds;
  if (rule.kind.has_value()) {
    judged = JudgeAmount(rule, comparison);
  } else {
    const auto found = std::ranges::find_if(comparison.quantities,
                                            [&](const QuantityResult& quantity) { return quantity.name == rule.name; });
    if (found == comparison.quantities.end()) {
      judged.why = comparison.reason.empty() ? StrCat("no run has ", rule.name) : comparison.reason;
    } else {
      unit = found->unit;
      judged = JudgeQuantity(rule, comparison, *found);
    }
  }
  if (!judged.range.has_value() || std::isnan(judged.range->low) || std::isnan(judged.range->high)) {
    result.text = judged.why.empty() ? "not known" : judged.why;
    return result;
  }
  result.state = StateOf(rule, *judged.range);
  result.text = RangeText(rule, unit, *judged.range);
  if (result.state == RuleResult::State::kCannotTell) StrAppend(&result.text, ": the limit lies in between");
  return result;
}

}  // namespace tbprof
