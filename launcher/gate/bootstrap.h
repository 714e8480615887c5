// SPDX-License-Identifier: Apache-2.0
//
// The step time of one run, and its random error from the variation of the run's own steps. Neighbouring steps are
// correlated, so the bootstrap draws blocks of steps, never single steps.
//
//   const double step_s = TrimmedMean(steps_s);
//   const double error = BlockError(steps_s, seed);   // relative standard error of step_s
//
// Process: launcher, for `tbprof compare` and `ab`. Pure functions; the same seed gives the same numbers. Method:
// docs/gate.md.
#ifndef TBPROF_LAUNCHER_GATE_BOOTSTRAP_H_
#define TBPROF_LAUNCHER_GATE_BOOTSTRAP_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace tbprof {

// This share of the shortest and the same share of the longest steps are left out: pauses of the machine are among
// them.
inline constexpr double kTrimmedShare = 0.1;

// 0 for an empty list.
double TrimmedMean(absl::Span<const double> steps_s);
double Mean(absl::Span<const double> values);

// Number of steps in a block, from the correlation of neighbours. 1 only for very few steps.
size_t BlockLength(absl::Span<const double> steps_s);

// Standard error of TrimmedMean(steps_s), as a share of it: a circular block bootstrap of the winsorised steps, whose
// mean has the influence function of the trimmed mean. 0 for fewer than 4 steps.
double BlockError(absl::Span<const double> steps_s, uint64_t seed);

// A relative standard error, and its degrees of freedom. 0 degrees: too few values for an error.
struct SeriesError {
  double error = 0;
  double degrees = 0;
  bool wanders = false;  // the level moves slowly within the window, so that the error itself is less certain
};

// The error of TrimmedMean(values) as a share of it, for values whose level may wander within the window, as that of a
// shared machine does. BlockError alone sees correlations between neighbours only: the means of ten batches and the
// correlation of these means are taken into account, too.
SeriesError WanderingError(absl::Span<const double> values, uint64_t seed);
// Of Mean(values).
SeriesError WanderingErrorOfMean(absl::Span<const double> values);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_GATE_BOOTSTRAP_H_
