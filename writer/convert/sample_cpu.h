// SPDX-License-Identifier: Apache-2.0
//
// The CPU time of Python samples. A sample shows only whether the thread ran at all since the sample before, which is
// true even for a thread that waits and wakes for a moment; the kernel's count shows how long it ran.
//
//   MeasureCpuOfSamples(&timeline);   // after runs, usage and events are filled
//
// Process: converter. A pure function of the timeline.
#ifndef TBPROF_WRITER_CONVERT_SAMPLE_CPU_H_
#define TBPROF_WRITER_CONVERT_SAMPLE_CPU_H_

#include "writer/timeline/timeline.h"

namespace tbprof {

// Samples of Python in which the thread was blocked in a system call by the kernel's word count as off the CPU. Call it
// before MeasureCpuOfSamples, when Timeline::blocked is filled.
void CountBlockedAsOffCpu(Timeline* timeline);

// The CPU time between two points of a thread's usage is distributed to the runs there, by the samples in which the
// thread ran and which were not taken in a recorded wait. Tallies are adjusted. Runs outside of the points stay
// unchanged.
void MeasureCpuOfSamples(Timeline* timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_SAMPLE_CPU_H_
