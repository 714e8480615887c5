// SPDX-License-Identifier: Apache-2.0
//
// Finds the steps of a program that neither launches nor names anything, from the waits and calls of all its threads
// together: by bursts of equal calls, or by counts in bins of time for step_detector.h.
//
// Process: converter.
#ifndef TBPROF_WRITER_STEPS_STEP_ACTIVITY_H_
#define TBPROF_WRITER_STEPS_STEP_ACTIVITY_H_

#include <cstdint>

#include "writer/steps/step_detector.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

// A rhythm does not prove a step: waits for a clock have one too.
inline constexpr double kMostFromActivity = 0.5, kMostFromBursts = 0.65;

// Finds steps by repeated calls of any thread; a burst of equal calls counts once. If whichever thread is free takes
// the next step, the steps show only in the calls of all threads together. Where in the period a step begins is
// unknown.
StepDetection DetectStepsInBursts(const Timeline& timeline, uint32_t process);

// Finds steps by the rhythm of the calls of all threads of `process`, without threads that mostly wait for a clock.
// Most of the bin widths that show a rhythm must show the same one.
StepDetection DetectStepsOfThreads(const Timeline& timeline, uint32_t process);

}  // namespace tbprof

#endif  // TBPROF_WRITER_STEPS_STEP_ACTIVITY_H_
