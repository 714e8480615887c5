// SPDX-License-Identifier: Apache-2.0
//
// Links CUDA calls with the work that they submitted: both get one number that is unique in the file. A wait, and a
// copy that the host makes, is drawn on the line of the thread that called it.
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

// What the host does in a call, in ticks: it waits for a device, or copies from host to host.
struct GpuHostSpan {
  uint32_t owner;
  uint64_t start, end;
  uint32_t correlation, stream;
  uint32_t type;  // of a wait: CUpti_ActivitySynchronizationType
  bool is_copy = false;
  uint64_t bytes = 0;  // of a copy
};

// The times of device events in the timeline must still be ticks.
void CorrelateGpu(const std::vector<GpuHostSpan>& spans, const CaptureWindow& window, const HostParts& host,
                  Timeline* timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_GPU_CORRELATION_H_
