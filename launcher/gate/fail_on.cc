// SPDX-License-Identifier: Apache-2.0
#include "launcher/gate/fail_on.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <utility>

#include "launcher/base/text.h"
#include "launcher/cli/options.h"
#include "writer/base/parse_number.h"
#include "writer/base/utf8.h"
#include "writer/timeline/timeline_verdict.h"

namespace tbprof {
namespace {

constexpr size_t kMostRuleBytes = 1000;

constexpr KnownQuantity kQuantities[] = {
    {"step_time", Unit::kSeconds},
    {"step_time_mean", Unit::kSeconds},
    {"wall_time", Unit::kSeconds},
    {"cpu_time", Unit::kSeconds},
    {"memory_peak", Unit::kBytes},
    {"copied_bytes_per_step", Unit::kBytes},
    {"allocations_per_step", Unit::kCount},
    {"copies_per_step", Unit::kCount},
    {"io_calls_per_step", Unit::kCount},
    {"kernels_per_step", Unit::kCount},
    {"launches_per_step", Unit::kCount},
    {"lock_waits_per_step", Unit::kCount},
    {"operations_per_step", Unit::kCount},
    {"process_calls_per_step", Unit::kCount},
    {"synchronizations_per_step", Unit::kCount},
    {"thread_calls_per_step", Unit::kCount},
};

constexpr std::pair<std::string_view, AmountKind> kKinds[] = {
    {"part", AmountKind::kPart},
    {"operation", AmountKind::kOperation},
    {"kernel", AmountKind::kKernel},
    {"wait", AmountKind::kWait},
    {"line", AmountKind::kPythonLine},
    {"own_line", AmountKind::kOwnLine},
    {"other_line", AmountKind::kOtherLine},
    {"function", AmountKind::kFunction},
    {"own_function", AmountKind::kOwnFunction},
    {"allocation", AmountKind::kAllocationSite},
};

struct NamedUnit {
  std::string_view name;
  Unit unit;
  double factor;
};
constexpr NamedUnit kUnits[] = {
    {"ns", Unit::kSeconds, 1e-9},
    {"us", Unit::kSeconds, 1e-6},
    {"ms", Unit::kSeconds, 1e-3},
    {"s", Unit::kSeconds, 1},
    {"B", Unit::kBytes, 1},
    {"KiB", Unit::kBytes, 1024},
    {"MiB", Unit::kBytes, 1024. * 1024},
    {"GiB", Unit::kBytes, 1024. * 1024 * 1024},
};

std::string_view UnitsText(Unit unit) {
  switch (unit) {
    case Unit::kSeconds:
      return "a time: expected ns, us, ms, s";
    case Unit::kBytes:
      return "a size: expected B, KiB, MiB, GiB";
    case Unit::kCount:
      break;
  }
  return "a count: expected no unit";
}

bool IsBlank(char c) { return c == ' ' || c == '\t'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsWord(std::string_view name) {
  return name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string_view::npos;
}

class RuleParser {
 public:
  explicit RuleParser(std::string_view text) : text_(text) {}

  // False: problem() describes the first fault.
  bool Parse(FailRule* rule) {
    rule->text = PrintableUtf8(text_.substr(0, kMostRuleBytes));
    if (text_.size() > kMostRuleBytes) return Fault(0, StrCat("a rule of over ", kMostRuleBytes, " bytes"));
    if (text_.find_first_not_of(" \t") == std::string_view::npos) {
      return Fault(0, "expected a rule such as step_time>+3%");
    }
    size_t name_end = 0;
    return ParseOperator(rule, &name_end) && ParseName(name_end, rule) && ParseLimit(rule) && CheckTogether(*rule);
  }

  const FailOnProblem& problem() const { return problem_; }

 private:
  bool Fault(size_t at, std::string message) {
    problem_ = {Utf8Columns(PrintableUtf8(text_.substr(0, at))) + 1, std::move(message)};
    return false;
  }
  // `, got `x``, or a text for the end of the rule.
  std::string Got(size_t at) const {
    if (at >= text_.size()) return ", but the rule ends";
    const std::string rest = PrintableUtf8(text_.substr(at));
    return StrCat(", got `", TruncateUtf8(rest, 40), "`");
  }
  size_t SkipBlanks(size_t at) const {
    while (at < text_.size() && IsBlank(text_[at])) ++at;
    return at;
  }

  // Searches from the end: kernel names may contain `<`, `=` and `>`, limits cannot.
  bool ParseOperator(FailRule* rule, size_t* name_end) {
    const size_t last = text_.find_last_of("<>=");
    if (last == std::string_view::npos) {
      size_t end = SkipBlanks(0);
      while (end < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[end])) || text_[end] == '_')) ++end;
      return Fault(end, StrCat("expected >, >=, <, <= or !=", Got(end)));
    }
    const char before = last > 0 ? text_[last - 1] : '\0';
    operator_at_ = last;
    if (text_[last] == '>') {
      rule->op = FailOperator::kGreater;
    } else if (text_[last] == '<') {
      rule->op = FailOperator::kLess;
    } else if (before == '>' || before == '<' || before == '!') {
      rule->op = before == '>'   ? FailOperator::kAtLeast
                 : before == '<' ? FailOperator::kAtMost
                                 : FailOperator::kNotEqual;
      --operator_at_;
    } else {
      return Fault(last, StrCat("expected >, >=, <, <= or !=", Got(last)));
    }
    limit_at_ = SkipBlanks(last + 1);
    *name_end = operator_at_;
    return true;
  }

  bool ParseName(size_t end, FailRule* rule) {
    const size_t begin = SkipBlanks(0);
    while (end > begin && IsBlank(text_[end - 1])) --end;
    const std::string_view name = text_.substr(begin, end - begin);
    if (name.empty()) return Fault(begin, StrCat("expected a name", Got(begin)));
    const size_t colon = name.find(':');
    if (colon == std::string_view::npos) return ParseQuantity(begin, name, rule);
    for (const auto& [word, kind] : kKinds) {
      if (name.substr(0, colon) == word) rule->kind = kind;
    }
    if (!rule->kind.has_value()) {
      std::vector<std::string> kinds;
      for (const auto& [word, kind] : kKinds) kinds.emplace_back(word);
      return Fault(begin, Unknown("kind", name.substr(0, colon), kinds));
    }
    const std::string_view rest = Strip(name.substr(colon + 1));
    if (rest.empty()) {
      return Fault(begin + colon + 1, StrCat("expected the name of a ", name.substr(0, colon), Got(begin + colon + 1)));
    }
    rule->name = PrintableUtf8(rest);
    if (rule->kind == AmountKind::kPart) {
      const std::optional<StepPart> part = StepPartNamed(rest);
      if (!part.has_value()) {
        std::vector<std::string> parts;
        for (size_t i = 0; i < kStepParts; ++i) parts.emplace_back(StepPartName(static_cast<StepPart>(i)));
        return Fault(begin + colon + 1, Unknown("part", rest, parts));
      }
      rule->name = StepPartName(*part);
    }
    unit_ = rule->kind == AmountKind::kAllocationSite ? Unit::kBytes : Unit::kSeconds;
    return true;
  }

  bool ParseQuantity(size_t at, std::string_view name, FailRule* rule) {
    rule->name = PrintableUtf8(name);
    constexpr std::string_view kPerStep = "_per_step";
    std::vector<std::string> names, counts;
    for (const KnownQuantity& known : kQuantities) {
      if (known.name == name) {
        unit_ = known.unit;
        return true;
      }
      names.emplace_back(known.name);
      if (known.name.ends_with(kPerStep))
        counts.emplace_back(known.name.substr(0, known.name.size() - kPerStep.size()));
    }
    // Accepts unknown counts, because later summaries may have more of them, but not a probable misspelling of a known
    // count.
    const bool is_count = name.size() > kPerStep.size() && name.ends_with(kPerStep) && IsWord(name);
    if (is_count && NearestName(name.substr(0, name.size() - kPerStep.size()), counts).empty()) {
      unit_ = name.find("bytes") != std::string_view::npos ? Unit::kBytes : Unit::kCount;
      return true;
    }
    return Fault(at, Unknown("quantity", name, names));
  }

  static std::string Unknown(std::string_view what, std::string_view name, const std::vector<std::string>& names) {
    const std::string shown = PrintableUtf8(name);
    std::string text = StrCat("no ", what, " `", TruncateUtf8(shown, 60), "`");
    if (const std::string near = NearestName(name, names); !near.empty()) {
      return StrCat(text, "; did you mean ", near, "?");
    }
    for (size_t i = 0; i < names.size(); ++i) StrAppend(&text, i == 0 ? "; there is " : ", ", names[i]);
    return text;
  }

  bool ParseLimit(FailRule* rule) {
    size_t at = limit_at_;
    const bool has_sign = at < text_.size() && (text_[at] == '+' || text_[at] == '-');
    const bool negative = has_sign && text_[at] == '-';
    if (has_sign) ++at;
    const size_t number_at = at;
    while (at < text_.size() && IsDigit(text_[at])) ++at;
    if (at > number_at && at + 1 < text_.size() && text_[at] == '.' && IsDigit(text_[at + 1])) {
      for (++at; at < text_.size() && IsDigit(text_[at]);) ++at;
    }
    if (at == number_at) return Fault(number_at, StrCat("expected a number", Got(number_at)));
    const std::optional<double> number = ParseNumber<double>(text_.substr(number_at, at - number_at));
    // Larger numbers are certainly mistakes: 10^15 bytes, or 30 million years in seconds.
    if (!number.has_value() || !(*number <= 1e15))
      return Fault(number_at, StrCat("expected a number up to 10^15", Got(number_at)));
    rule->limit = negative ? -*number : *number;
    const size_t unit_at = SkipBlanks(at);
    size_t end = text_.size();
    while (end > unit_at && IsBlank(text_[end - 1])) --end;
    return ParseUnit(unit_at, text_.substr(unit_at, end - unit_at), has_sign, rule);
  }

  bool ParseUnit(size_t at, std::string_view word, bool has_sign, FailRule* rule) {
    if (word == "%") {
      if (!has_sign && rule->limit != 0) {
        return Fault(limit_at_, StrCat("expected + or - before a share of the base", Got(limit_at_)));
      }
      rule->limit_kind = LimitKind::kShare;
      rule->limit /= 100;
      return true;
    }
    rule->limit_kind = has_sign ? LimitKind::kDifference : LimitKind::kValue;
    for (const NamedUnit& unit : kUnits) {
      if (unit.name != word || unit.unit != unit_) continue;
      rule->limit *= unit.factor;
      return true;
    }
    if (word.empty() && (unit_ == Unit::kCount || rule->limit == 0)) return true;
    return Fault(at, StrCat(rule->name, " is ", UnitsText(unit_), " or %", Got(at)));
  }

  bool CheckTogether(const FailRule& rule) {
    if (rule.op == FailOperator::kNotEqual && unit_ == Unit::kSeconds) {
      return Fault(operator_at_, "!= is for counts: a time differs from run to run; expected >, >=, < or <=");
    }
    if (rule.limit_kind == LimitKind::kShare && rule.limit < -1) {
      return Fault(limit_at_, StrCat("nothing falls by over 100 %", Got(limit_at_)));
    }
    return true;
  }

  std::string_view text_;
  size_t operator_at_ = 0, limit_at_ = 0;
  Unit unit_ = Unit::kCount;
  FailOnProblem problem_;
};

}  // namespace

absl::Span<const KnownQuantity> KnownQuantities() { return kQuantities; }

absl::StatusOr<FailRule> ParseFailRule(std::string_view text, FailOnProblem* problem) {
  FailRule rule;
  RuleParser parser(text);
  if (parser.Parse(&rule)) return rule;
  if (problem != nullptr) *problem = parser.problem();
  return InvalidArgument(StrCat("column ", parser.problem().column, ": ", parser.problem().message));
}

std::vector<std::string> FailOnErrorLines(std::string_view text, const FailOnProblem& problem) {
  // Shows only the part of a long rule around the fault.
  constexpr size_t kShown = 90, kBefore = 60;
  const std::string printable = PrintableUtf8(text.substr(0, kMostRuleBytes));
  size_t skip = problem.column > kShown ? problem.column - kBefore : 0;
  size_t column = 0;
  std::string shown;
  for (size_t i = 0; i < printable.size(); ++i) {
    if ((printable[i] & 0xC0) != 0x80) ++column;
    if (column > skip && column <= skip + kShown) shown += printable[i];
  }
  const size_t caret = problem.column - skip;
  return {StrCat("--fail-on: column ", problem.column, ": ", problem.message), StrCat("  ", shown),
          StrCat("  ", std::string(caret > 0 ? caret - 1 : 0, ' '), "^")};
}

}  // namespace tbprof
