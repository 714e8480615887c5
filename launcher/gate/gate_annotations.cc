// SPDX-License-Identifier: Apache-2.0
//
// Workflow commands of GitHub Actions, in the format of docs.github.com ("Workflow commands") and the runner's
// ActionCommand.cs: `::error title=T::MESSAGE`, escaped by %25, %0D, %0A; properties also by %3A and %2C.
#include <algorithm>
#include <utility>

#include "launcher/base/text.h"
#include "launcher/gate/gate_output.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

constexpr size_t kMostMessageBytes = 2000;
constexpr size_t kMostTitleBytes = 200;

std::string Escaped(std::string_view text, bool property) {
  std::string out;
  for (const char c : text) {
    if (c == '%') {
      out += "%25";
    } else if (c == '\r') {
      out += "%0D";
    } else if (c == '\n') {
      out += "%0A";
    } else if (property && c == ':') {
      out += "%3A";
    } else if (property && c == ',') {
      out += "%2C";
    } else {
      out += c;
    }
  }
  return out;
}

struct Annotation {
  std::string_view command;  // `error`, `warning`, `notice`
  std::string title, message;
};

std::string AsLine(const Annotation& annotation) {
  const std::string title = PrintableUtf8(annotation.title), message = annotation.message;
  return StrCat("::", annotation.command, " title=", Escaped(TruncateUtf8(title, kMostTitleBytes), true),
                "::", Escaped(TruncateUtf8(message, kMostMessageBytes), false), "\n");
}

std::string_view CommandOf(const Comparison& comparison) {
  switch (comparison.answer) {
    case Answer::kWorse:
      // A rule for the step time may let it pass.
      return comparison.gate == GateState::kPasses ? "warning" : "error";
    case Answer::kCannotTell:
      return "warning";
    case Answer::kEquivalent:
    case Answer::kBetter:
      break;
  }
  return "notice";
}

// The answer, and the first cause of each kind on its own line.
std::string AnswerMessage(const Comparison& comparison) {
  std::string text = PrintableUtf8(AnswerLine(comparison));
  const bool fails = comparison.gate == GateState::kFails;
  if (comparison.answer != Answer::kWorse && !fails) return text;
  const auto add = [&](const BlameRow& row) {
    StrAppend(&text, "\n", AmountKindTitle(row.kind), ": ", SignedValueText(UnitOf(row.kind), row.now - row.base), " ",
              FitColumns(PrintableUtf8(ShownName(row.kind, row.name)), kGateColumns),
              row.significant ? "" : " (not significant)");
  };
  const BlameRow* const first_cause = FirstCauseOf(comparison);
  bool is_named = false;
  for (const AmountKind kind : kAmountKinds) {
    for (const BlameRow* row : BlameOf(comparison, kind, 1)) {
      if (row->significant) add(*row);
      is_named |= row->significant && row == first_cause;
    }
  }
  if (first_cause != nullptr && !is_named) add(*first_cause);
  return text;
}

}  // namespace

std::string ComparisonAsAnnotations(const Comparison& comparison) {
  const AnswerText answer = TextOfAnswer(comparison);
  std::vector<Annotation> annotations = {
      {CommandOf(comparison), StrCat("tbprof: ", answer.answer), AnswerMessage(comparison)}};
  for (const RuleResult::State state : {RuleResult::State::kFails, RuleResult::State::kCannotTell}) {
    for (const RuleResult& rule : comparison.rules) {
      if (rule.state != state) continue;
      const bool fails = state == RuleResult::State::kFails;
      annotations.push_back({fails ? "error" : "warning",
                             StrCat("tbprof: rule ", rule.rule, fails ? " fails" : " cannot be told"),
                             PrintableUtf8(rule.text)});
    }
  }
  for (const std::string& warning : comparison.warnings) {
    annotations.push_back({"warning", "tbprof: less sure", PrintableUtf8(warning)});
  }
  if (annotations.size() > kMostAnnotations) {
    const size_t more = annotations.size() - (kMostAnnotations - 1);
    annotations.resize(kMostAnnotations - 1);
    annotations.push_back(
        {"warning", "tbprof: more", StrCat(more, " more failed rules and warnings: tbprof's output")});
  }
  std::string text;
  for (const Annotation& annotation : annotations) text += AsLine(annotation);
  return text;
}

}  // namespace tbprof
