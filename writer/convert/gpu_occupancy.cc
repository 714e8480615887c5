// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/gpu_occupancy.h"

#include <algorithm>
#include <cstdint>

namespace tbprof {
namespace {

constexpr uint64_t kRegisterUnit = 256;  // per warp, on all devices since Kepler

uint64_t RoundedUp(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

// Bytes of shared memory that the driver reserves per block.
uint64_t ReservedShared(const GpuDeviceRecord& device) { return device.compute_major >= 8 ? 1024 : 0; }
uint64_t SharedUnit(const GpuDeviceRecord& device) { return device.compute_major >= 8 ? 128 : 256; }
uint64_t Partitions(const GpuDeviceRecord& device) {
  return device.compute_major == 6 && device.compute_minor == 0 ? 2 : 4;
}

}  // namespace

double Occupancy(const GpuDeviceRecord& device, const GpuLaunch& launch) {
  const uint64_t threads = uint64_t{launch.block[0]} * launch.block[1] * launch.block[2];
  if (device.threads_per_warp == 0 || device.warps_per_multiprocessor == 0 || threads == 0 ||
      launch.block[0] > UINT16_MAX || launch.block[1] > UINT16_MAX || launch.block[2] > UINT16_MAX) {
    return -1;
  }
  const uint64_t warps = RoundedUp(threads, device.threads_per_warp) / device.threads_per_warp;
  uint64_t blocks = device.warps_per_multiprocessor / warps;
  if (device.blocks_per_multiprocessor != 0) blocks = std::min<uint64_t>(blocks, device.blocks_per_multiprocessor);
  if (launch.registers != 0 && device.registers_per_multiprocessor != 0) {
    const uint64_t of_warp = RoundedUp(uint64_t{launch.registers} * device.threads_per_warp, kRegisterUnit);
    const uint64_t partitions = Partitions(device);
    const uint64_t warps_at_once = device.registers_per_multiprocessor / partitions / of_warp * partitions;
    blocks = std::min(blocks, warps_at_once / warps);
  }
  const uint64_t shared = RoundedUp(
      uint64_t{launch.static_shared_bytes} + launch.dynamic_shared_bytes + ReservedShared(device), SharedUnit(device));
  if (shared != 0 && device.shared_bytes_per_multiprocessor != 0) {
    blocks = std::min(blocks, device.shared_bytes_per_multiprocessor / shared);
  }
  const double most = static_cast<double>(device.warps_per_multiprocessor) * device.threads_per_warp;
  return std::min(1.0, static_cast<double>(blocks) * static_cast<double>(threads) / most);
}

GpuLaunch LaunchOf(const GpuKernelRecord& kernel, const GpuDeviceRecord& device) {
  GpuLaunch launch;
  const auto set = [](uint32_t* to, uint32_t x, uint32_t y, uint32_t z) { to[0] = x, to[1] = y, to[2] = z; };
  set(launch.grid, kernel.grid_x, kernel.grid_y, kernel.grid_z);
  set(launch.block, kernel.block_x, kernel.block_y, kernel.block_z);
  set(launch.cluster, kernel.cluster_x, kernel.cluster_y, kernel.cluster_z);
  launch.registers = kernel.registers;
  launch.static_shared_bytes = kernel.static_shared_bytes;
  launch.dynamic_shared_bytes = kernel.dynamic_shared_bytes;
  launch.local_bytes = kernel.local_bytes;
  launch.cooperative = kernel.launch_type != 0;
  launch.occupancy = Occupancy(device, launch);
  return launch;
}

}  // namespace tbprof
