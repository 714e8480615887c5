// SPDX-License-Identifier: Apache-2.0
//
// The loop in the program's own code whose turns are the steps: its function, its lines, and where a turn begins.
//
// Process: converter.
#ifndef TBPROF_WRITER_STEPS_PYTHON_LOOP_H_
#define TBPROF_WRITER_STEPS_PYTHON_LOOP_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "writer/steps/python_paths.h"
#include "writer/steps/step_detector.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

// A visit of a thread to a line of the program's own code: it waited or allocated there, or was sampled.
struct LineVisit {
  int64_t start_ps = 0;
  int64_t end_ps = 0;
  uint32_t path = 0;
  uint64_t symbol = 0;  // hash of the path and of the call
  bool waits = false;
  bool for_clock = false;  // ended by its timeout
};

// Merges waits of a thread at one line that follow each other directly: a library takes several locks to wait for one
// result, or waits repeatedly with a timeout. The gaps between the waits determine the limit: a turn of the loop takes
// longer.
void MergeWaits(std::vector<LineVisit>* visits);

// Finds steps by a single line that is visited at about regular distances, for loops without another line in each step.
// Whether the line is visited in each turn of its loop is unknown.
StepDetection DetectStepsAtOneLine(const std::vector<LineVisit>& visits);

struct PythonLoop {
  uint32_t frame = 0;  // PythonPaths::Path::frame; 0: most visits have no frame in common
  uint32_t depth = 0;  // depth of its paths
};

// Returns the innermost function that nearly all visits in the regular steps are in, directly or through its callees.
PythonLoop FindPythonLoop(const PythonPaths& paths, const std::vector<LineVisit>& visits,
                          const std::vector<DetectedStep>& steps);

// Returns the path in the loop's function that `path` equals or descends from; 0: `path` is elsewhere.
uint32_t PathInLoop(const PythonPaths& paths, const PythonLoop& loop, uint32_t path);

// Moves the cuts to the place where the loop goes back to its beginning: the line number falls there by more than
// anywhere else in the step. If the loop has one line, the cut is behind its wait.
void CutAtLoop(const Timeline& timeline, const PythonPaths& paths, const PythonLoop& loop,
               const std::vector<LineVisit>& visits, StepDetection* found);

// Finds the loop around the steps: behind every Nth step the thread is at another line of that loop, such as an
// evaluation.
std::optional<StepLoop> FindLoopAround(const std::vector<LineVisit>& visits, const std::vector<DetectedStep>& steps);

}  // namespace tbprof

#endif  // TBPROF_WRITER_STEPS_PYTHON_LOOP_H_
