// SPDX-License-Identifier: Apache-2.0
//
// The result of comparing two sides of runs. compare.cc fills it in, gate_*.cc prints it.
//
// Process: launcher. Data only. Method and assumptions: docs/gate.md.
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

// One quantity on both sides.
struct QuantityResult {
  std::string name;  // `step_time`, `memory_peak`, `kernels_per_step`, ...: the names for --fail-on
  Unit unit = Unit::kSeconds;
  bool exact = false;  // a count that repeats in each run: no statistics needed
  std::optional<double> base, now;
  std::optional<double> change;     // now / base - 1
  std::optional<double> low, high;  // interval of the change, at `Comparison::confidence`
  Answer answer = Answer::kCannotTell;
  std::string reason;                 // for kCannotTell: one line
  std::optional<uint64_t> more_runs;  // for kCannotTell: additional pairs that are needed
};

// A row of the attribution of the difference.
struct BlameRow {
  AmountKind kind = AmountKind::kPart;
  std::string name;
  double base = 0, now = 0;  // per step, in seconds; kAllocationSite: bytes
  double share = 0;          // of the difference of the step time; may be below 0 or above 1
  bool significant = false;  // after correction for the number of rows
  double error = 0;          // standard error of now - base
};

// The result of one rule of --fail-on.
struct RuleResult {
  std::string rule;  // as given by the user
  enum class State { kHolds, kFails, kCannotTell } state = State::kCannotTell;
  std::string text;        // one line: the numbers, or why the state is unknown
  bool of_answer = false;  // the rule limits the step time: it replaces the answer in the exit status
};

struct Side {
  std::vector<RunNumbers> runs;
};

struct Comparison {
  Side base, now;
  double margin = 0.03;      // for the step time, as a share
  double confidence = 0.95;  // of each interval
  Answer answer = Answer::kCannotTell;
  std::string reason;                      // for kCannotTell: one line, for instance the difference between the runs
  std::vector<QuantityResult> quantities;  // step_time first
  // Rows of kPart and `unexplained_s` add up to the difference of the step time; each other kind is another view of the
  // same difference.
  std::vector<BlameRow> blame;
  double difference_s = 0, unexplained_s = 0;
  std::vector<RuleResult> rules;
  std::vector<std::string> warnings;  // reasons for doubt: load, throttling, other versions
};

// Exit statuses of `compare`, `ab` and `run --baseline` (the latter uses 3 for worse).
inline constexpr int kExitEquivalent = 0, kExitWorse = 1, kExitCannotTell = 2, kExitGateFailed = 125;

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_GATE_COMPARISON_H_
