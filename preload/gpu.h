// SPDX-License-Identifier: Apache-2.0
//
// GPU recording as far as it is in every process: almost nothing.
//
// Process: target. Rules: RULES.md.
#ifndef TBPROF_PRELOAD_GPU_H_
#define TBPROF_PRELOAD_GPU_H_

namespace tbprof {

// Before this process ends without exit handlers or becomes another program: a load and a branch where no CUDA is used.
// May take as long as a flush of device activity is given; never from a signal handler.
void TellGpuOfEnd();

// What is called before the program takes CUPTI for itself, and when it has given it back. True: it has it now.
bool SetYield(void (*step_aside)(), void (*come_back)());

}  // namespace tbprof

#endif  // TBPROF_PRELOAD_GPU_H_
