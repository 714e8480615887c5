// SPDX-License-Identifier: Apache-2.0
//
// How recording of the GPUs went in each process, for the profile's warnings and errors: gaps with their causes,
// losses, what was not recorded and what to do.
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

// What a process did with GPUs, by its records.
struct GpuActivity {
  uint64_t last_call_ticks = 0;    // the end of the latest call that there is a record of
  uint64_t last_work_ticks = 0;    // and of the latest work of the device
  uint64_t lost_launch_ticks = 0;  // the start of the earliest launch that there is no work of; 0: none
  bool has_device = false;
};

// `index`: of the processes in the timeline.
void AddGpuStatus(const SpoolFacts& facts, const CaptureWindow& window, const std::map<Identity, GpuActivity>& activity,
                  const std::map<Identity, uint32_t>& index, ProcessModules* modules, Timeline* timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_GPU_STATUS_H_
