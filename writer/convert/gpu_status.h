// SPDX-License-Identifier: Apache-2.0
//
// The recording status of the GPUs in each process, for the profile's warnings and errors: gaps with their causes,
// losses, activity that was not recorded, and remedies.
//
// Process: converter, one thread, after all records were taken.
#ifndef TBPROF_WRITER_CONVERT_GPU_STATUS_H_
#define TBPROF_WRITER_CONVERT_GPU_STATUS_H_

#include <cstdint>
#include <map>

#include "writer/convert/capture_window.h"
#include "writer/convert/process_modules.h"
#include "writer/spool/spool_facts.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

// The GPU activity of a process, by its records.
struct GpuActivity {
  uint64_t last_call_ticks = 0;    // end of the latest recorded call
  uint64_t last_work_ticks = 0;    // end of the latest recorded work of a device
  uint64_t lost_launch_ticks = 0;  // start of the earliest launch without recorded work; 0: none
  bool has_device = false;
};

// `index`: of the processes in the timeline.
void AddGpuStatus(const SpoolFacts& facts, const CaptureWindow& window, const std::map<Identity, GpuActivity>& activity,
                  const std::map<Identity, uint32_t>& index, ProcessModules* modules, Timeline* timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_GPU_STATUS_H_
