// SPDX-License-Identifier: Apache-2.0
//
// How long the thread of the steps could run but had no CPU, as the kernel counts it. The moments are known to the
// interval between two readings of the counts only.
//
// Process: converter. Call after the steps and the CPU usage are known.
#ifndef TBPROF_WRITER_CONVERT_CPU_DELAY_H_
#define TBPROF_WRITER_CONVERT_CPU_DELAY_H_

#include "writer/timeline/timeline.h"

namespace tbprof {

// From this share of the steps on it is shown.
inline constexpr double kMuchDelay = 0.05;

// The share of the regular steps; 0: none, or not known.
double DelayShareOfSteps(const Timeline& timeline);

// Adds the counter `main thread waits for a CPU` in percent of the time, if the share is at least kMuchDelay.
void AddCpuDelayTrack(Timeline* timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_CPU_DELAY_H_
