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
  size_t base_runs = 0, now_runs = 0;  // the runs that it was compared by
  std::vector<double> now_values;      // of each new run, for a rule on the new side's own value
  bool constant = false;               // each side has several runs, all with the same number
  std::optional<double> change;        // now / base - 1
  std::optional<double> low, high;     // interval of the change, at `Comparison::confidence`
  Answer answer = Answer::kCannotTell;
  std::string reason;                 // for kCannotTell: one line
  std::optional<uint64_t> more_runs;  // for kCannotTell: additional pairs that are needed
};

// A row of the attribution of the difference.
struct BlameRow {
  AmountKind kind = AmountKind::kPart;
  std::string name;
  double base = 0, now = 0;     // per step, in seconds; kAllocationSite: bytes
  std::optional<double> share;  // of the difference of the step time; may be below 0 or above 1
  bool significant = false;     // after correction for the number of rows
  double error = 0;             // standard error of now - base
  // False: no run of the side lists it, and a list was full: it may be anything up to the least that is listed, not 0.
  bool base_listed = true, now_listed = true;
};

// A part, line or function that takes another share of the time in the new windows.
struct ShareRow {
  AmountKind kind = AmountKind::kPart;
  std::string name;
  double base = 0, now = 0;  // from 0 to 1: of the time of the windows; kFunction: of the thread's CPU time
};

// What the answer and the rules mean for the job.
enum class GateState { kPasses, kFails, kCannotTell };

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

inline double MeanAllSteps(const Side& side) {
  double sum = 0;
  for (const RunNumbers& run : side.runs) sum += run.AllSteps();
  return side.runs.empty() ? 0 : sum / static_cast<double>(side.runs.size());
}

// The runs of both sides by which one kind of numbers is compared.
struct Sides {
  Side base, now;
};

struct Comparison {
  Side base, now;                // the runs of the step time and its parts
  std::optional<Sides> counted;  // the runs of counts per step and of allocated bytes; nothing: the same
  // Why totals of the whole run, divided by its steps, cannot be compared: one line; empty: they can. Allocated bytes
  // are such totals.
  std::string no_totals;
  // No run has known steps: each is compared as a whole, as one step, and `wall_time` takes the place of `step_time`.
  bool whole_runs = false;
  // The answer is worse by the mean of all steps: some steps became much longer, the typical one did not.
  bool long_steps = false;
  // All runs are windows of one process, so that their steps show by how much times vary.
  bool one_process = false;
  double margin = 0.03;      // for the step time, as a share
  double confidence = 0.95;  // of each interval
  Answer answer = Answer::kCannotTell;
  std::string reason;                      // for kCannotTell: one line, for instance the difference between the runs
  std::vector<QuantityResult> quantities;  // StepTime first
  // Rows of kPart and `unexplained_s` add up to the difference of the step time; each other kind is another view of the
  // same difference.
  std::vector<BlameRow> blame;
  bool has_first_cause = false;  // the first row explains the difference; else it is only the largest
  // Nothing: the step times, or their parts, are not compared.
  std::optional<double> difference_s, unexplained_s;
  // Only of windows whose step times are not compared, as where no steps are known.
  std::vector<ShareRow> shares;
  // The rank for which the others wait in the new runs, if such waits explain much of the difference: `rank 1, mostly
  // at train.py:10 tokenize`; empty: none.
  std::string waits_for;
  std::optional<int64_t> waits_for_rank;
  bool are_waits_sure = false;  // the difference of these waits is significant
  std::vector<RuleResult> rules;
  std::optional<GateState> gate;      // nothing: not decided yet
  std::vector<std::string> warnings;  // reasons for doubt: load, throttling, other versions

  // The runs by which amounts of a kind are compared.
  const Side& BaseOf(AmountKind kind) const { return IsCounted(kind) ? counted->base : base; }
  const Side& NowOf(AmountKind kind) const { return IsCounted(kind) ? counted->now : now; }
  bool IsOneWindowASide() const { return one_process && base.runs.size() == 1 && now.runs.size() == 1; }
  bool IsCounted(AmountKind kind) const { return kind == AmountKind::kAllocationSite && counted.has_value(); }
};

// Exit statuses of `compare`, `ab` and `run --baseline` (the latter uses 3 for worse).
inline constexpr int kExitEquivalent = 0, kExitWorse = 1, kExitCannotTell = 2, kExitGateFailed = 125;

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_GATE_COMPARISON_H_
