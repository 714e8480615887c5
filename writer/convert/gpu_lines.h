// SPDX-License-Identifier: Apache-2.0
//
// The lines of devices: lanes of streams with overlapping work, and the numbers of devices and lines.
//
// Process: converter, one thread.
#ifndef TBPROF_WRITER_CONVERT_GPU_LINES_H_
#define TBPROF_WRITER_CONVERT_GPU_LINES_H_

#include <cstdint>
#include <vector>

#include "wire/records.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

inline constexpr size_t kMaxDevices = 400;  // the viewer collapses numbers from 500 up
inline constexpr size_t kMaxStreams = 4096;

// Adds lines to streams whose work overlaps without being nested.
void SplitGpuLanes(Timeline* timeline);

// For each device of the timeline: the number that a process gave it, its location (in `record`), and whether it was
// used.
struct GpuDevicePlace {
  uint32_t number = 0;
  GpuDeviceRecord record = {};
  bool is_used = false;
};
// Removes unused devices, and numbers the others as the processes do, unless the numbers collide.
void NumberGpuDevices(const std::vector<GpuDevicePlace>& places, Timeline* timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_GPU_LINES_H_
