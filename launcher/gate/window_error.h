// SPDX-License-Identifier: Apache-2.0
//
// How sure the numbers of one window of a process are, from the variation of its own steps and the number of its
// samples. Two windows of one process are compared by it: there is no variation between runs.
//
//   const WindowValue value = StepOfWindow(run, /*medians=*/false, seed);
//   const double error = AmountError(run, amount.kind, amount.per_step, amount.samples);
//
// Process: launcher, for `tbprof compare`. Pure functions. Method: docs/gate.md.
#ifndef TBPROF_LAUNCHER_GATE_WINDOW_ERROR_H_
#define TBPROF_LAUNCHER_GATE_WINDOW_ERROR_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "launcher/gate/bootstrap.h"
#include "launcher/gate/run_numbers.h"

namespace tbprof {

// Degrees of freedom of AmountError: as of the steps' own error.
inline constexpr double kAmountDegrees = 9;

struct WindowValue {
  double seconds = 0;
  SeriesError error;  // relative
};

// The typical step: the trimmed mean of all steps; with `medians`, the median, whose error is that of the medians of
// blocks of steps.
WindowValue StepOfWindow(const RunNumbers& run, bool medians, uint64_t seed);

// The mean of all regular steps.
WindowValue MeanStepOfWindow(const RunNumbers& run);

// The geometric mean of windows of one side. Its error is never below that of the scatter between them.
WindowValue PooledWindows(const std::vector<WindowValue>& windows);

// Standard error of an amount per step, in its unit. std::nullopt: the window has too few steps. `value` 0: the window
// has none of it. An amount that is a part of the step varies no more than the whole step; one of samples or calls has
// the error of their number, too.
std::optional<double> AmountError(const RunNumbers& run, AmountKind kind, double value, double samples);

// By how much totals of two windows, each divided by its steps, may differ by chance, in events per step: they have
// parts of steps at both ends, and events that do not belong to each step. `counter`: they are not counted from records
// with a time, but from counters of the threads, which are read near the ends of the window.
double CountTolerance(const RunNumbers& base, double base_per_step, const RunNumbers& now, double now_per_step,
                      bool counter);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_GATE_WINDOW_ERROR_H_
