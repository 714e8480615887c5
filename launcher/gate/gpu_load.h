// SPDX-License-Identifier: Apache-2.0
//
// Reads the load of this machine's GPUs with NVIDIA's management library (NVML). A child process opens the library,
// because a foreign library may hang or end its process.
//
//   GpuLoadReader gpus;                       // or with another library, for tests
//   const GpuReading before = gpus.Read();    // before a run: all processes belong to other programs
//
// Process: launcher, for `tbprof ab`, while it has one thread.
#ifndef TBPROF_LAUNCHER_GATE_GPU_LOAD_H_
#define TBPROF_LAUNCHER_GATE_GPU_LOAD_H_

#include <cstdint>
#include <string>

namespace tbprof {

struct GpuReading {
  uint32_t devices = 0;    // 0: none, or unknown
  uint32_t processes = 0;  // processes that compute on the GPUs
  uint64_t slowed_ns = 0;  // time slowed for power or heat since the driver's start, sum of all devices
};

class GpuLoadReader {
 public:
  explicit GpuLoadReader(std::string library = "libnvidia-ml.so.1") : library_(std::move(library)) {}
  // A library that is missing or does not reply is not tried again.
  GpuReading Read();

 private:
  std::string library_;
  bool answers_ = true;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_GATE_GPU_LOAD_H_
