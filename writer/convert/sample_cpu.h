// SPDX-License-Identifier: Apache-2.0
//
// The CPU time of samples of Python. A sample says whether the thread ran at all since the one before, and a thread
// that waits and wakes for a moment did; how long it ran is what the kernel counts of it.
//
//   MeasureCpuOfSamples(&timeline);   // behind runs and usage
//
// Process: converter. A pure function of the timeline.
#ifndef TBPROF_WRITER_CONVERT_SAMPLE_CPU_H_
#define TBPROF_WRITER_CONVERT_SAMPLE_CPU_H_

#include "writer/timeline/timeline.h"

namespace tbprof {

// Between two points of a thread's usage its CPU time goes to the runs there, by the samples in which it ran. Tallies
// follow. What lies outside of the points stays as it is.
void MeasureCpuOfSamples(Timeline* timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_SAMPLE_CPU_H_
