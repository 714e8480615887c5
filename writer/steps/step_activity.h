// SPDX-License-Identifier: Apache-2.0
//
// Steps of a program that neither launches nor names anything: what its threads wait for and call, all of them
// together, in bins of time, given to step_detector.h.
//
// Process: converter.
#ifndef TBPROF_WRITER_STEPS_STEP_ACTIVITY_H_
#define TBPROF_WRITER_STEPS_STEP_ACTIVITY_H_

#include <cstdint>

#include "writer/steps/step_detector.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

// A rhythm is no proof of a step: what waits for a clock has one too.
inline constexpr double kMostFromActivity = 0.5, kMostFromBursts = 0.65;

// Calls of any thread that come around, a burst of the same ones being one: a step that whichever thread is free takes
// is in no thread's calls, but in those of all. Nothing tells where in it a step begins.
StepDetection DetectStepsInBursts(const Timeline& timeline, uint32_t process);

// Of the threads of `process`. What only waits for a clock is left out, and a rhythm that most of the waiting and
// working threads do not share is none.
StepDetection DetectStepsOfThreads(const Timeline& timeline, uint32_t process);

}  // namespace tbprof

#endif  // TBPROF_WRITER_STEPS_STEP_ACTIVITY_H_
