// SPDX-License-Identifier: Apache-2.0
//
// Steps of a Python program that launches and names nothing: the lines of its own code at which one of its threads
// waits and allocates, turn after turn. These calls have exact times. Where there are too few of them, the sampled
// stacks of the thread tell, down to steps of a few samples.
//
// A line is one of the program's own: what a library does for it is part of it. Lines are distinguished by their
// callers, too, so that a function that two loops call is two.
//
// Process: converter.
#ifndef TBPROF_WRITER_STEPS_PYTHON_STEPS_H_
#define TBPROF_WRITER_STEPS_PYTHON_STEPS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "writer/steps/step_detector.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

// Samples alone can be as wrong as a film of a wheel: what takes nearly a multiple of their interval seems to take
// long. And what waits once in ten turns of a loop looks as what waits in each.
inline constexpr double kMostFromSamples = 0.65, kMostFromOneLine = 0.7, kMostFromLines = 0.85;

// Whether lines of the loop come once in a step, by the samples in the steps.
enum class LineOrder : uint8_t {
  kUnknown,  // too few samples, or all of them at one line
  kOnce,     // one behind the other
  kAgain,    // a line comes again behind another one: an inner loop, or the step is shorter than the turns found
};

struct PythonSteps {
  StepDetection found;             // `source` names the line
  uint32_t thread = 0;             // index into Timeline::threads
  bool exact = false;              // by calls, not by samples
  bool one_line = false;           // no other line of the loop comes in nearly each step
  bool called_by_library = false;  // the loop may be a library's: it calls the program's outermost function
  std::optional<StepLoop> around;  // the loop around that of the steps
  LineOrder order = LineOrder::kUnknown;
  double alike = 0;     // median share of the lines in common with the step before
  double outside = -1;  // time that the thread spent elsewhere, imports and the loop's own warm-up left out, to that of
                        // the regular steps; -1: there are no samples
};

// One for each way that has a result, the better one first.
std::vector<PythonSteps> DetectStepsInPython(const Timeline& timeline, uint32_t process);

}  // namespace tbprof

#endif  // TBPROF_WRITER_STEPS_PYTHON_STEPS_H_
