// SPDX-License-Identifier: Apache-2.0
//
// The lines of devices: lanes of streams whose work overlaps, numbers of devices and of lines.
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

// Work of a stream that overlaps without being nested gets lines of its own.
void SplitGpuLanes(Timeline* timeline);

// Of each device of the timeline: the number that a process gave it, where it is, and whether anything happened on it.
struct GpuDevicePlace {
  uint32_t number = 0;
  GpuDeviceRecord record = {};
  bool is_used = false;
};
// Devices that nothing happened on are left out; numbers are those of the processes where they do not collide.
void NumberGpuDevices(const std::vector<GpuDevicePlace>& places, Timeline* timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_GPU_LINES_H_
