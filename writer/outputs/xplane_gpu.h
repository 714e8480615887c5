// SPDX-License-Identifier: Apache-2.0
//
// GPU planes in the xplane output.
//
// Process: converter.
#ifndef TBPROF_WRITER_OUTPUTS_XPLANE_GPU_H_
#define TBPROF_WRITER_OUTPUTS_XPLANE_GPU_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "writer/outputs/flow_ids.h"
#include "writer/outputs/gpu_calls.h"
#include "writer/outputs/xplane.h"
#include "writer/outputs/xspace_builder.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

// The lines and events that WriteGpuPlane writes for a device. Without lines it writes no plane.
XplaneCounts GpuPlaneCounts(const Timeline& timeline, uint32_t device, const GpuCalls& calls);
absl::Status WriteGpuPlane(const Timeline& timeline, uint32_t device, const GpuCalls& calls, const FlowIds& flows,
                           XSpaceWriter& writer);

// `CUDA error 2 (out of memory)`
std::string CudaErrorText(int error);

// `Stream #7(Compute,MemcpyH2D)`, as XLA names streams; `with_process`: several processes share the device.
std::string StreamName(const Timeline& timeline, const GpuStream& stream, bool with_process);
std::string_view MemoryKindName(uint8_t kind);
// The event's name in all outputs.
std::string GpuEventName(const Timeline& timeline, const GpuEvent& event);
// `regs:32 static_shared:0 dynamic_shared:4096 grid:8,1,1 block:256,1,1 occ_pct:50`
std::string KernelDetails(const GpuLaunch& launch);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_XPLANE_GPU_H_
