// SPDX-License-Identifier: Apache-2.0
//
// Finds the steps of a Python program that launches and names nothing, by the lines of its own code at which one of its
// threads repeatedly waits and allocates. These calls have exact times. If there are too few of them, the sampled
// stacks of the thread are used, for steps of at least a few samples.
//
// Only lines of the program's own code count; the work of a library belongs to the line that called it. Lines are also
// distinguished by their callers: a function that two loops call counts as two.
//
// Process: converter.
#ifndef TBPROF_WRITER_STEPS_PYTHON_STEPS_H_
#define TBPROF_WRITER_STEPS_PYTHON_STEPS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "writer/steps/step_detector.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

// Samples alone suffer from aliasing: a period that is nearly a multiple of the sampling interval seems to be long. And
// a line that waits once in ten turns of a loop looks like one that waits in each turn.
inline constexpr double kMostFromSamples = 0.65, kMostFromOneLine = 0.7, kMostFromLines = 0.85;

// Whether each line of the loop occurs once in a step, according to the samples in the steps.
enum class LineOrder : uint8_t {
  kUnknown,  // too few samples, or all of them at one line
  kOnce,     // the lines follow each other in one order
  kAgain,    // a line occurs again behind another one: an inner loop, or the step is shorter than the turns found
};

struct PythonSteps {
  StepDetection found;  // `source` names the line
  // `train.py:42 fit`: the loop's lines that occur in nearly each step, then its callers.
  std::vector<std::string> lines;
  uint32_t thread = 0;             // index into Timeline::threads
  bool exact = false;              // found by calls, not by samples
  bool one_line = false;           // no other line of the loop occurs in nearly each step
  bool called_by_library = false;  // a library calls the program's outermost function: the loop may be the library's
  std::optional<StepLoop> around;  // the loop around the loop of the steps
  LineOrder order = LineOrder::kUnknown;
  double alike = 0;     // median share of the lines that a step has in common with the step before
  double outside = -1;  // time that the thread spent outside of the steps, without imports and the loop's warm-up,
                        // relative to the time of the regular steps; -1: there are no samples
};

// Returns one result for each method and thread that finds steps: calls before samples, the main thread first.
std::vector<PythonSteps> DetectStepsInPython(const Timeline& timeline, uint32_t process);

}  // namespace tbprof

#endif  // TBPROF_WRITER_STEPS_PYTHON_STEPS_H_
