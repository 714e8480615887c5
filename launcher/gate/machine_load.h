// SPDX-License-Identifier: Apache-2.0
//
// What else the machine did beside a run: other programs, a hypervisor that took its CPUs away, CPUs that were slowed
// down because they were hot. And whether that may be what two sides differ by.
//
//   GpuLoadReader gpus;
//   const LoadReading before = ReadLoad(&gpus);
//   ... a run ...
//   const RunLoad load = LoadBetween(before, ReadLoad(&gpus));
//
// Process: launcher, for `tbprof ab`. Main thread: ReadLoad counts the children that were waited for.
#ifndef TBPROF_LAUNCHER_GATE_MACHINE_LOAD_H_
#define TBPROF_LAUNCHER_GATE_MACHINE_LOAD_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "launcher/gate/gpu_load.h"

namespace tbprof {

// Since the machine's start, of all its CPUs.
struct LoadReading {
  double busy_s = 0, steal_s = 0, all_s = 0;  // all: idle time, too; 0: not known
  double own_s = 0;                           // CPU time of this process's children that have ended
  uint64_t throttles = 0;                     // how often a CPU was slowed down
  GpuReading gpus;
};
LoadReading ReadLoad(GpuLoadReader* gpus);
// Of the text of /proc/stat.
bool ParseStat(std::string_view text, double ticks_per_s, LoadReading* reading);

struct RunLoad {
  double others = 0;  // of all CPUs' time, what other programs used
  double steal = 0;   // likewise, what a hypervisor took
  uint64_t throttles = 0;
  uint64_t gpu_processes = 0;  // on the GPUs when it began
  double gpu_slowed_s = 0;     // GPUs were, for power or heat, all added up
};
RunLoad LoadBetween(const LoadReading& before, const LoadReading& after);

// Why the answer cannot be trusted, in one line; empty: it can. Runs of both sides alternate, so what is there all
// along is noise alone; what goes with one side is not.
std::string WhyContaminated(absl::Span<const RunLoad> base, absl::Span<const RunLoad> now);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_GATE_MACHINE_LOAD_H_
