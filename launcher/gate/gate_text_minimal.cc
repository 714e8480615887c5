// SPDX-License-Identifier: Apache-2.0
//
// The answer and the largest causes of a comparison in plain lines.
#include <cstdio>
#include <string>

#include "launcher/base/text.h"
#include "launcher/gate/comparison.h"
#include "writer/base/summary_format.h"

namespace tbprof {
namespace {

std::string Number(double number) {
  char text[40];
  snprintf(text, sizeof text, "%.6g", number);
  return text;
}

}  // namespace

std::string ComparisonAsText(const Comparison& comparison) {
  std::string text =
      StrCat(AnswerName(comparison.answer), comparison.reason.empty() ? "" : ": ", comparison.reason, "\n");
  for (const QuantityResult& quantity : comparison.quantities) {
    StrAppend(&text, "  ", quantity.name, ": ", AnswerName(quantity.answer), ", ", Number(quantity.base.value_or(0)),
              " -> ", Number(quantity.now.value_or(0)));
    if (quantity.low.has_value())
      StrAppend(&text, " (", Number(*quantity.low * 100), " to ", Number(*quantity.high * 100), " %)");
    if (quantity.more_runs.has_value()) StrAppend(&text, ", ", *quantity.more_runs, " more runs a side");
    StrAppend(&text, quantity.reason.empty() ? "" : "; ", quantity.reason, "\n");
  }
  size_t rows = 0;
  for (const BlameRow& row : comparison.blame) {
    if (++rows > 12) break;
    StrAppend(&text, "  ", AmountKindName(row.kind), " ", row.name, ": ", Number(row.base), " -> ", Number(row.now),
              row.significant ? ", significant" : "", ", share ", Number(row.share), "\n");
  }
  StrAppend(&text, "  difference ", Number(comparison.difference_s), " s, unexplained ",
            Number(comparison.unexplained_s), " s\n");
  for (const std::string& warning : comparison.warnings) StrAppend(&text, "  note: ", warning, "\n");
  return text;
}

}  // namespace tbprof
