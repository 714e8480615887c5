// SPDX-License-Identifier: Apache-2.0
//
// Whether a difference between two sides is that other programs used the CPUs.
//
// Process: launcher, for `tbprof compare` and `ab`. Pure functions.
#ifndef TBPROF_LAUNCHER_GATE_CPU_CONTENTION_H_
#define TBPROF_LAUNCHER_GATE_CPU_CONTENTION_H_

#include <string>

#include "launcher/gate/comparison.h"

namespace tbprof {

// True: a notable part of the run's step is waits for a CPU.
bool IsStarved(const RunNumbers& run);

// A warning for windows of one process: there, waits for a CPU are a change of the job, too, since the program may have
// started threads. Empty: none.
std::string StarvationOfWindows(const Sides& sides, const Comparison& comparison);

// Whether a change of the time is far larger than what load on the machine explains: by at least a quarter, and waits
// for a CPU are known and explain little of it. Needs the answer.
bool IsClearUnderLoad(const Comparison& comparison);

// Why a change of the step time means nothing for the program: other programs used the CPUs. Empty: they did not, or
// it is not known.
std::string WhyCpusDiffer(const Sides& sides, const Comparison& comparison);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_GATE_CPU_CONTENTION_H_
