// SPDX-License-Identifier: Apache-2.0
//
// Decides whether one side's runs are slower than the other's: worse, better, equivalent, or cannot tell. The unit is
// the run: Student's t compares the logarithms of one number per run. Method, levels and measured error rates:
// docs/gate.md.
//
//   const Estimate change = EstimateChange(base, now);
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
#include "launcher/gate/bootstrap.h"
#include "launcher/gate/comparison.h"

namespace tbprof {

// Levels of one-sided tests. kWorseLevel is also the permitted share of A/A comparisons with the answer worse, and of
// those with the answer better.
inline constexpr double kWorseLevel = 0.005, kEquivalentLevel = 0.05;
// Used instead of kWorseLevel if the machine was disturbed: the assumptions of the test do not hold then.
inline constexpr double kDisturbedLevel = 0.0002;
// A larger scatter of the runs means that the machine was disturbed.
inline constexpr double kDisturbedSd = 0.02;
// One-sided level, for each of two signs of a disturbed machine: a trend, and correlation of consecutive runs.
inline constexpr double kDisturbanceLevel = 0.005;
// Two-sided level for a trend within the sides if their runs are not interleaved.
inline constexpr double kTrendLevel = 0.30;
// Smaller changes are neither worse nor better, however certain: another layout of the same code in memory causes them.
inline constexpr double kSmallestChange = 0.0025;
// The same for two windows of one process, between which clock rates and neighbours of the machine change.
inline constexpr double kSmallestWindowChange = 0.01;
// Of two windows whose level wanders: the degrees of freedom are few then, too.
inline constexpr double kDisturbedWindowLevel = 0.001;
inline constexpr double kWantedPower = 0.95;
// Assumed scatter between runs if none is known; used only for the number of runs that are needed.
inline constexpr double kAssumedRunSd = 0.01;

// The logarithm of one number of a run.
struct RunValue {
  double log = 0;
  double error = 0;  // standard error from within the run: lower bound for the scatter of the runs
  int64_t start_ns = 0;
};

// The scatter of earlier runs of the same program: standard deviation of the logarithm, and its degrees of freedom.
struct RunNoise {
  double sd = 0;
  double degrees = 0;
};

struct Estimate {
  bool known = false;      // false: too few runs for an error
  double change = 0;       // log(now / base)
  double error = 0;        // standard error of `change`
  double degrees = 0;      // degrees of freedom of `error`
  double run_sd = 0;       // standard deviation of one run, or of the difference of one pair
  uint64_t runs = 0;       // number of runs of the smaller side
  bool paired = false;     // `run_sd` is for pairs
  bool trend = false;      // significant: times rise or fall in the order of the runs
  bool apart = false;      // the middles of the sides' runs are far apart in time, for their number
  bool in_turns = false;   // a run of one side follows each run of the other
  bool disturbed = false;  // trend, warming, correlated consecutive runs, or large scatter: use kDisturbedLevel
  bool warming = false;    // the first run of each side was slower than all others and is left out
  bool windows = false;    // of two windows of one process
};

// For independent runs of both sides, in any order; their start times show whether the sides alternate.
Estimate EstimateChange(absl::Span<const RunValue> base, absl::Span<const RunValue> now);

// For runs in pairs with random order within each pair: base[i] belongs to now[i].
Estimate EstimatePairedChange(absl::Span<const RunValue> base, absl::Span<const RunValue> now);

// For one window of a process a side: logarithms and errors of the step time. The steps within each window show how
// much it varies: there is no variation between runs. Unknown if a side has no error.
Estimate EstimateWindowChange(double base_log, const SeriesError& base, double now_log, const SeriesError& now);

struct Decision {
  Answer answer = Answer::kCannotTell;
  std::optional<uint64_t> more_runs;  // for kCannotTell: additional pairs that are needed
};
// `budget_share`: this look's share of the levels, if there are several looks.
Decision Decide(const Estimate& estimate, double margin, double budget_share = 1);

// The change as a share, with its confidence interval. Requires `known`.
struct ConfidenceInterval {
  double low = 0, high = 0;
};
ConfidenceInterval IntervalOf(const Estimate& estimate, double confidence);

// Number of runs per side (or pairs) with which a change of this size gives an answer other than `cannot tell` in 95 %
// of cases. std::nullopt: more than 10,000.
std::optional<uint64_t> RunsNeeded(double change_log, double run_sd, double margin, bool paired,
                                   bool disturbed = false);

// The median; of an even count, the mean of the two in the middle. `sorted` is not empty.
double MiddleOf(absl::Span<const double> sorted);

// Two-sided p-value of Student's t, and the factor of a standard error for an interval.
double StudentP(double t, double degrees);
double IntervalFactor(double confidence, double degrees);

// Squared standard error of the mean of independent values. 0 if there are fewer than two values.
double VarianceOfMean(absl::Span<const double> values);

// Two-sided p-value of Welch's test. Variances are at least `floor` squared. 1 if a side has fewer than two values.
double WelchP(absl::Span<const double> a, absl::Span<const double> b, double floor);

// True for each rejected hypothesis, by Holm's method: the probability of any false rejection is at most `level`.
std::vector<bool> Holm(absl::Span<const double> p, double level);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_GATE_STATISTICS_H_
