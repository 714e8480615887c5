// SPDX-License-Identifier: Apache-2.0
//
// Theoretical occupancy of a launch: how many of the warps that a multiprocessor can hold are there at once, limited by
// warps, blocks, registers and shared memory. The rules are those of CUDA's cuda_occupancy.h.
#ifndef TBPROF_WRITER_CONVERT_GPU_OCCUPANCY_H_
#define TBPROF_WRITER_CONVERT_GPU_OCCUPANCY_H_

#include "wire/records.h"
#include "writer/timeline/timeline_gpu.h"

namespace tbprof {

// 0...1; < 0: the device did not report enough of itself.
double Occupancy(const GpuDeviceRecord& device, const GpuLaunch& launch);

// How a kernel was launched.
GpuLaunch LaunchOf(const GpuKernelRecord& kernel, const GpuDeviceRecord& device);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_GPU_OCCUPANCY_H_
