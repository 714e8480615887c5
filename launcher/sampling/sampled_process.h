// SPDX-License-Identifier: Apache-2.0
//
// A process whose stacks are sampled, and what its samplers get.
//
// Process: launcher.
#ifndef TBPROF_LAUNCHER_SAMPLING_SAMPLED_PROCESS_H_
#define TBPROF_LAUNCHER_SAMPLING_SAMPLED_PROCESS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>

#include "wire/clock.h"
#include "writer/spool/spool.h"

namespace tbprof {

struct SampledProcess {
  uint32_t segment = 0;
  uint32_t serial = 0;
  pid_t pid = 0;   // in the launcher's pid namespace
  int pidfd = -1;  // duplicated; -1: only a failed read detects the process's end
};

// Takes a frame of the spool.
using EmitFrame = std::function<void(FrameType type, uint32_t segment, const void* payload, size_t size)>;

struct SamplerOptions {
  ClockKind clock = ClockKind::kMonotonic;
  uint32_t rate = 100;          // samples a second of each thread
  double max_cpu_share = 0.01;  // of all CPUs of the machine
  // A second. A thread that switches more often has no native samples: each switch takes 0.2 to 1 us more with them,
  // most on virtual machines.
  uint32_t max_switches = 20'000;
  // Also of threads other than the main one: in which call they are blocked. Without tbprof's library nothing else
  // shows what they wait for.
  bool all_blocked = false;
  // The same, of each thread until it runs for the first time: no record exists of calls that began before the window.
  bool blocked_before = false;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_SAMPLED_PROCESS_H_
