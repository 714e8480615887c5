// SPDX-License-Identifier: Apache-2.0
//
// Measures the load beside a run: other programs, CPU time that a hypervisor took, CPUs that were slowed down by heat.
// Decides whether this load may explain the difference between two sides.
//
//   GpuLoadReader gpus;
//   const LoadReading before = ReadLoad(&gpus);
//   ... a run ...
//   const RunLoad load = LoadBetween(before, ReadLoad(&gpus));
//
// Process: launcher, for `tbprof ab`. Main thread: ReadLoad counts only children that the process has waited for.
#ifndef TBPROF_LAUNCHER_GATE_MACHINE_LOAD_H_
#define TBPROF_LAUNCHER_GATE_MACHINE_LOAD_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "launcher/gate/gpu_load.h"

namespace tbprof {

// Times since the machine's start, sums over all CPUs.
struct LoadReading {
  double busy_s = 0, steal_s = 0, all_s = 0;  // all_s includes idle time; 0: unknown
  double own_s = 0;                           // CPU time of children that this process has waited for
  uint64_t throttles = 0;                     // number of times that a CPU was slowed down
  GpuReading gpus;
};
LoadReading ReadLoad(GpuLoadReader* gpus);
// Parses the text of /proc/stat.
bool ParseStat(std::string_view text, double ticks_per_s, LoadReading* reading);

struct RunLoad {
  double others = 0;  // share of all CPUs' time that other programs used
  double steal = 0;   // share of all CPUs' time that a hypervisor took
  uint64_t throttles = 0;
  uint64_t gpu_processes = 0;  // processes on the GPUs when the run began
  double gpu_slowed_s = 0;     // time that GPUs were slowed for power or heat, sum over all GPUs
};
RunLoad LoadBetween(const LoadReading& before, const LoadReading& after);

struct Contamination {
  std::string why;  // one line; empty: the answer can be trusted
  // Other programs used the CPUs, as much beside one side as beside the other, and nothing else was found: that only
  // adds noise, and changes the CPU time of a run by little.
  bool is_even_load = false;
};
// Whether the answer can be trusted. Runs of both sides alternate, so that a constant load only adds noise; a load
// beside one side only does not.
Contamination FindContamination(absl::Span<const RunLoad> base, absl::Span<const RunLoad> now);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_GATE_MACHINE_LOAD_H_
