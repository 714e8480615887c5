// SPDX-License-Identifier: Apache-2.0
//
// Links CUDA calls with the work that they submitted: both get one number that is unique in the file. A wait is drawn
// on the line of the thread that called it.
//
// Process: converter, one thread. Untrusted: all numbers and times.
#ifndef TBPROF_WRITER_CONVERT_GPU_CORRELATION_H_
#define TBPROF_WRITER_CONVERT_GPU_CORRELATION_H_

#include <cstdint>
#include <vector>

#include "writer/convert/capture_window.h"
#include "writer/convert/host_parts.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

// A wait of the host for a device, in ticks.
struct GpuSync {
  Identity process;
  uint32_t owner;
  uint64_t start, end;
  uint32_t correlation, stream, context, type;
};

// The times of device events in the timeline must still be ticks.
void CorrelateGpu(std::vector<GpuSync> syncs, const CaptureWindow& window, const HostParts& host, Timeline* timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_GPU_CORRELATION_H_
