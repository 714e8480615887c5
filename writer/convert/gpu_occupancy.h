// SPDX-License-Identifier: Apache-2.0
//
// Theoretical occupancy of a launch: the share of a multiprocessor's warps that can be resident at once, limited by
// warps, blocks, registers and shared memory. The rules are those of CUDA's cuda_occupancy.h.
#ifndef TBPROF_WRITER_CONVERT_GPU_OCCUPANCY_H_
#define TBPROF_WRITER_CONVERT_GPU_OCCUPANCY_H_

#include "wire/records.h"
#include "writer/timeline/timeline_gpu.h"

namespace tbprof {

// 0...1; < 0: the device did not report enough properties.
double Occupancy(const GpuDeviceRecord& device, const GpuLaunch& launch);

// The launch parameters of a kernel, with its occupancy.
GpuLaunch LaunchOf(const GpuKernelRecord& kernel, const GpuDeviceRecord& device);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_GPU_OCCUPANCY_H_
