// SPDX-License-Identifier: Apache-2.0
//
// The forms of a comparison: for a terminal, a program, a job summary and the annotations of GitHub. Names in a
// comparison come from summaries and may be hostile: none of these adds a control character but newlines, lets a name
// end its cell or its line, or prints what a CI runner takes for a command.
//
// Process: launcher, for `tbprof compare`, `ab` and `run --baseline`. Pure functions.
#ifndef TBPROF_LAUNCHER_GATE_GATE_OUTPUT_H_
#define TBPROF_LAUNCHER_GATE_GATE_OUTPUT_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/gate/comparison.h"

namespace tbprof {

inline constexpr size_t kGateColumns = 100;
inline constexpr int kGateSchemaVersion = 1;
// GitHub refuses a job summary of over 1 MiB, all steps together.
inline constexpr size_t kGateMarkdownBytes = 64 << 10;
// GitHub shows 10 annotations of a kind for each step.
inline constexpr size_t kMostAnnotations = 10;

// The answer first; lines of at most kGateColumns columns.
std::string ComparisonAsText(const Comparison& comparison);
// docs/gate.schema.json.
std::string ComparisonAsJson(const Comparison& comparison);
// At most `max_bytes`: the least important rows are cut first, and a line counts them.
std::string ComparisonAsMarkdown(const Comparison& comparison, size_t max_bytes = kGateMarkdownBytes);
// Workflow commands of GitHub Actions, one a line: `::error title=tbprof%3A worse::…`.
std::string ComparisonAsAnnotations(const Comparison& comparison);

// ---- words, in gate_words.cc

// `worse`, and what follows the colon. `is_ours`: of numbers and fixed words alone, nothing from a summary.
struct AnswerText {
  std::string answer, detail;
  bool is_ours = true;
};
AnswerText TextOfAnswer(const Comparison& comparison);
// `worse: the step takes 4.1 % longer (3.2 to 5.0 %), 31.2 ms -> 32.5 ms, 10 + 10 runs`.
std::string AnswerLine(const Comparison& comparison);
// What to do next; empty: nothing.
std::string NextLine(const Comparison& comparison);

std::string ValueText(Unit unit, double value);                // `31.2 ms`, `1.20 GiB`, `108`
std::string SignedValueText(Unit unit, double value);          // `+1.30 ms`
std::string SignedPercent(double share);                       // `+4.1 %`, `-0.3 %`
std::string ChangeText(const QuantityResult& quantity);        // `+4.1 % (+3.2 to +5.0 %)`, `from 0`; empty: not known
std::string_view RuleStateName(RuleResult::State state);       // `holds`, `fails`, `cannot_tell`
std::string_view AmountKindTitle(AmountKind kind);             // `parts of the step`, `kernels`, ...
Unit UnitOf(AmountKind kind);                                  // of an amount in a step
const QuantityResult* StepTime(const Comparison& comparison);  // null: not compared
bool IsChanged(const QuantityResult& quantity);                // by more than rounding, and not shown equivalent
std::vector<const QuantityResult*> ChangedQuantities(const Comparison& comparison);  // without the step time
// The rows of a kind that explain most, at most `most`, significant ones first.
std::vector<const BlameRow*> BlameOf(const Comparison& comparison, AmountKind kind, size_t most);
// The line so that no runner takes it for a command: neither `::` at its start nor `##[` in it.
std::string WithoutCommands(std::string_view line);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_GATE_GATE_OUTPUT_H_
