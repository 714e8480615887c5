// SPDX-License-Identifier: Apache-2.0
//
// The loop of the program's own code that steps are turns of: its function, its lines, and where in them a turn begins.
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

// A thread was at a line of the program's: waited or allocated there, or was sampled.
struct LineVisit {
  int64_t start_ps = 0;
  int64_t end_ps = 0;
  uint32_t path = 0;
  uint64_t symbol = 0;  // of the path, and of what was done there
  bool waits = false;
  bool for_clock = false;  // ended when its time was up
};

// Waits of a thread at one line that follow one another at once are one: a library takes several locks to wait for one
// result, or for a while again and again. How close that is, the gaps between them tell: going around the loop takes
// longer.
void MergeWaits(std::vector<LineVisit>* visits);

// Steps by the one line that is visited in each of them, where no other is: the turns are visits at about the same
// distance. Nothing tells whether the line is visited in each turn of its loop.
StepDetection DetectStepsAtOneLine(const std::vector<LineVisit>& visits);

struct PythonLoop {
  uint32_t frame = 0;  // PythonPaths::Path::frame; 0: most visits have none in common
  uint32_t depth = 0;  // of its paths
};

// The innermost function that nearly all visits in the regular steps are in or below.
PythonLoop FindPythonLoop(const PythonPaths& paths, const std::vector<LineVisit>& visits,
                          const std::vector<DetectedStep>& steps);

// The path within the loop's function that `path` is at or below; 0: it is elsewhere.
uint32_t PathInLoop(const PythonPaths& paths, const PythonLoop& loop, uint32_t path);

// Moves the cuts to where the loop goes back to its beginning: there the line is lower than before, by more than
// anywhere else in the step. Where it has one line, behind its wait.
void CutAtLoop(const Timeline& timeline, const PythonPaths& paths, const PythonLoop& loop,
               const std::vector<LineVisit>& visits, StepDetection* found);

// The loop around the steps: at its other lines, an evaluation's say, the thread is behind every so many of them.
std::optional<StepLoop> FindLoopAround(const std::vector<LineVisit>& visits, const std::vector<DetectedStep>& steps);

}  // namespace tbprof

#endif  // TBPROF_WRITER_STEPS_PYTHON_LOOP_H_
