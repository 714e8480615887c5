// SPDX-License-Identifier: Apache-2.0
//
// A process whose stacks are sampled.
//
// Process: launcher.
#ifndef TBPROF_LAUNCHER_SAMPLING_SAMPLED_PROCESS_H_
#define TBPROF_LAUNCHER_SAMPLING_SAMPLED_PROCESS_H_

#include <sys/types.h>

#include <cstdint>

namespace tbprof {

struct SampledProcess {
  uint32_t segment = 0;
  uint32_t serial = 0;
  pid_t pid = 0;   // in the launcher's pid namespace
  int pidfd = -1;  // duplicated; -1: only a failed read detects the process's end
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_SAMPLED_PROCESS_H_
