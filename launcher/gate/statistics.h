// SPDX-License-Identifier: Apache-2.0
//
// Whether one side's runs are slower than the other's: worse, better, equivalent, or cannot tell. The run is the unit:
// logs of one number of each run, compared by Student's t. Method, levels and measured error rates: docs/gate.md.
//
//   const Estimate change = EstimateChange(base, now, {});
//   const Decision decision = Decide(change, 0.03);
//
// Process: launcher, for `tbprof compare` and `ab`. Pure functions.
#ifndef TBPROF_LAUNCHER_GATE_STATISTICS_H_
#define TBPROF_LAUNCHER_GATE_STATISTICS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "launcher/gate/comparison.h"

namespace tbprof {

// Of one-sided tests. Worse and better: also the share of A/A comparisons that may come out so, each.
inline constexpr double kWorseLevel = 0.005, kEquivalentLevel = 0.05;
// In their place where the machine was disturbed: all that is known then is that a test's assumptions do not hold.
inline constexpr double kDisturbedLevel = 0.0002;
// Runs that scatter by more are of a disturbed machine.
inline constexpr double kDisturbedSd = 0.02;
// One-sided, each: a trend, and likeness of runs that follow each other, disturb from here on.
inline constexpr double kDisturbanceLevel = 0.005;
// Two-sided: a trend within the sides counts from here on where their runs are not interleaved.
inline constexpr double kTrendLevel = 0.30;
// Smaller changes are neither worse nor better, however sure: another layout of the same code in memory makes them.
inline constexpr double kSmallestChange = 0.0025;
inline constexpr double kWantedPower = 0.95;
// Between runs, where nothing is known; only for how many runs are needed.
inline constexpr double kAssumedRunSd = 0.01;

// The number of a run, as its logarithm.
struct RunValue {
  double log = 0;
  double error = 0;  // standard error from within the run: what the runs' scatter cannot be below
  int64_t start_ns = 0;
};

// How runs scatter, from earlier runs of the same program: standard deviation of the logarithm, and its degrees of
// freedom.
struct RunNoise {
  double sd = 0;
  double degrees = 0;
};

struct Estimate {
  bool known = false;      // false: there are too few runs for an error
  double change = 0;       // log(now / base)
  double error = 0;        // its standard error
  double degrees = 0;      // of freedom
  double run_sd = 0;       // of one run, or of the difference of one pair
  uint64_t runs = 0;       // of the smaller side
  bool paired = false;     // `run_sd` is of pairs
  bool trend = false;      // the runs' times rise or fall in the order of the runs, significantly
  bool apart = false;      // the sides' runs do not alternate in time
  bool disturbed = false;  // trend, warming, runs that follow each other are alike, or scatter: kDisturbedLevel
  bool warming = false;    // the first run of each side was left out: both are slower than all others
};

// Independent runs of both sides, in any order; their starts tell whether the sides alternate.
Estimate EstimateChange(absl::Span<const RunValue> base, absl::Span<const RunValue> now,
                        const std::optional<RunNoise>& noise);

// Runs that were made in pairs, the order within each drawn at random: base[i] with now[i].
Estimate EstimatePairedChange(absl::Span<const RunValue> base, absl::Span<const RunValue> now);

struct Decision {
  Answer answer = Answer::kCannotTell;
  std::optional<uint64_t> more_runs;  // of `cannot tell`: pairs beyond those there are
};
// `budget_share`: of the levels, where there are several looks at the data.
Decision Decide(const Estimate& estimate, double margin, double budget_share = 1);

// The change as a share with its interval of the confidence; `known` only.
struct Interval {
  double low = 0, high = 0;
};
Interval IntervalOf(const Estimate& estimate, double confidence);

// Runs a side (or pairs) with which a change of this size gives another answer than `cannot tell` in 95 % of cases.
// Nothing: more than 10,000.
std::optional<uint64_t> RunsNeeded(double change_log, double run_sd, double margin, bool paired,
                                   bool disturbed = false);

// Of the mean of independent values: its standard error squared. 0: fewer than two values tell nothing of it.
double VarianceOfMean(absl::Span<const double> values);

// Two-sided, by Welch. Variances are at least `floor` squared. 1 where a side has fewer than two values.
double WelchP(absl::Span<const double> a, absl::Span<const double> b, double floor);

// Which hypotheses fall when the chance of one false one among all of them is `level` at most.
std::vector<bool> Holm(absl::Span<const double> p, double level);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_GATE_STATISTICS_H_
