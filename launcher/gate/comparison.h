// SPDX-License-Identifier: Apache-2.0
//
// What came out of comparing two sides of runs. Filled in by compare.cc, printed by gate_*.cc.
//
// Process: launcher. Data alone. Method and assumptions: docs/gate.md.
#ifndef TBPROF_LAUNCHER_GATE_COMPARISON_H_
#define TBPROF_LAUNCHER_GATE_COMPARISON_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/gate/run_numbers.h"

namespace tbprof {

enum class Answer { kEquivalent, kBetter, kWorse, kCannotTell };
std::string_view AnswerName(Answer answer);  // `equivalent`, `better`, `worse`, `cannot_tell`

enum class Unit { kSeconds, kBytes, kCount };

// One number of both sides.
struct QuantityResult {
  std::string name;  // `step_time`, `memory_peak`, `kernels_per_step`, ... : what --fail-on names
  Unit unit = Unit::kSeconds;
  bool exact = false;  // a count that repeats: no statistics needed
  std::optional<double> base, now;
  std::optional<double> change;     // now / base - 1
  std::optional<double> low, high;  // of the change, by the confidence of `Comparison`
  Answer answer = Answer::kCannotTell;
  std::string reason;                 // of `cannot tell`: one line
  std::optional<uint64_t> more_runs;  // of `cannot tell`: pairs that would be needed beyond these
};

// A part of the difference.
struct BlameRow {
  AmountKind kind = AmountKind::kPart;
  std::string name;
  double base = 0, now = 0;  // in a step: s, of kAllocationSite bytes
  double share = 0;          // of the difference of the step time; may be below 0 or above 1
  bool significant = false;  // also when it is corrected for how many rows there are
  double error = 0;          // standard error of now - base
};

// A rule of --fail-on, and whether it failed.
struct RuleResult {
  std::string rule;  // as it was given
  enum class State { kHolds, kFails, kCannotTell } state = State::kCannotTell;
  std::string text;        // one line: the numbers, or why it cannot be told
  bool of_answer = false;  // it limits the step time, which the answer is about: it decides in the answer's place
};

struct Side {
  std::vector<RunNumbers> runs;
};

struct Comparison {
  Side base, now;
  double margin = 0.03;      // of the step time, as a share
  double confidence = 0.95;  // of each interval
  Answer answer = Answer::kCannotTell;
  std::string reason;                      // of `cannot tell`: one line, for instance what differs
  std::vector<QuantityResult> quantities;  // step_time first
  // Rows of kPart add up to the difference of the step time, but for `unexplained_s`; the other kinds are another look
  // at the same difference.
  std::vector<BlameRow> blame;
  double difference_s = 0, unexplained_s = 0;
  std::vector<RuleResult> rules;
  std::vector<std::string> warnings;  // what makes it less sure: load, throttling, other versions
};

// Exit statuses of `compare`, `ab` and `run --baseline` (there 3 for worse).
inline constexpr int kExitEquivalent = 0, kExitWorse = 1, kExitCannotTell = 2, kExitGateFailed = 125;

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_GATE_COMPARISON_H_
