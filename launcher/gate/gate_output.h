// SPDX-License-Identifier: Apache-2.0
//
// Prints a comparison for a terminal, a program, a job summary and GitHub annotations. Names in a comparison come from
// summaries and may be hostile: no output has control characters except newlines, a name that ends its cell or line, or
// text that a CI runner takes for a command.
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
// GitHub refuses a job summary of over 1 MiB (sum of all steps).
inline constexpr size_t kGateMarkdownBytes = 64 << 10;
// GitHub shows 10 annotations per kind and step.
inline constexpr size_t kMostAnnotations = 10;

// The answer is the first line. Lines have at most kGateColumns columns.
std::string ComparisonAsText(const Comparison& comparison);
// Format: docs/gate.schema.json.
std::string ComparisonAsJson(const Comparison& comparison);
// At most `max_bytes`: the least important rows are cut first, and the last line counts them.
std::string ComparisonAsMarkdown(const Comparison& comparison, size_t max_bytes = kGateMarkdownBytes);
// Workflow commands of GitHub Actions, one per line: `::error title=tbprof%3A worse::…`.
std::string ComparisonAsAnnotations(const Comparison& comparison);

// ---- words, in gate_words.cc

// `answer`: for instance `worse`; `detail`: the text after the colon. `is_ours`: the texts contain only numbers and
// fixed words, nothing from a summary.
struct AnswerText {
  std::string answer, detail;
  bool is_ours = true;
};
AnswerText TextOfAnswer(const Comparison& comparison);
// `worse: the step takes 4.1 % longer (3.2 to 5.0 %), 31.2 ms -> 32.5 ms, 10 + 10 runs`.
std::string AnswerLine(const Comparison& comparison);
// `gate: fails: rule step_time>+3%`: what the answer and the rules mean for the job. Empty: the answer alone decides.
std::string GateLine(const Comparison& comparison);
std::string_view GateStateName(GateState state);  // `passes`, `fails`, `cannot_tell`
// The recommended next step; empty: none.
std::string NextLine(const Comparison& comparison);
// `ranks: they wait for rank 1, mostly at train.py:10 tokenize; its lines: tbprof compare --rank=1 BASE NEW`; empty:
// they do not.
std::string SlowRankText(const Comparison& comparison);

std::string ValueText(Unit unit, double value);          // `31.2 ms`, `1.20 GiB`, `108`
std::string SignedValueText(Unit unit, double value);    // `+1.30 ms`
std::string SignedPercent(double share);                 // `+4.1 %`, `-0.3 %`
std::string SignedInterval(double low, double high);     // `-0.4 to +0.8 %`
std::string ChangeText(const QuantityResult& quantity);  // `+4.1 % (+3.2 to +5.0 %)`, `from 0`; empty: not known
std::string ShareText(const BlameRow& row);  // `85 %`; empty: the row is not in seconds, or there is no difference
std::string_view RuleStateName(RuleResult::State state);             // `holds`, `fails`, `cannot_tell`
std::string_view AmountKindTitle(AmountKind kind);                   // `parts of the step`, `kernels`, ...
std::string PointsText(const ShareRow& row);                         // `+36 points`: the change of a share
std::string_view ShownName(AmountKind kind, std::string_view name);  // of a part its title; not made printable
Unit UnitOf(AmountKind kind);                                        // unit of an amount per step
const QuantityResult* StepTime(const Comparison& comparison);        // nullptr: no step time in the comparison
bool IsChanged(const QuantityResult& quantity);  // better or worse, or a constant count changed at all
std::vector<const QuantityResult*> ChangedQuantities(const Comparison& comparison);  // without the step time
// The at most `most` rows of a kind that explain most; significant rows first.
std::vector<const BlameRow*> BlameOf(const Comparison& comparison, AmountKind kind, size_t most);
// The row of the line, wait, function or operation that explains the difference first, if it has a quarter of it;
// nullptr: none.
const BlameRow* FirstCauseOf(const Comparison& comparison);
// Changes the line so that no CI runner takes it for a command: neither `::` at its start nor `##[` anywhere.
std::string WithoutCommands(std::string_view line);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_GATE_GATE_OUTPUT_H_
