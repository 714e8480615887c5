// SPDX-License-Identifier: Apache-2.0
//
// What else the GPUs of this machine do, by NVIDIA's management library: a child opens it, since a library that is not
// ours may hang or end a process.
//
//   GpuLoadReader gpus;                       // or with another library, for tests
//   const GpuReading before = gpus.Read();    // before a run: its processes are others'
//
// Process: launcher, for `tbprof ab`, while it has one thread.
#ifndef TBPROF_LAUNCHER_GATE_GPU_LOAD_H_
#define TBPROF_LAUNCHER_GATE_GPU_LOAD_H_

#include <cstdint>
#include <string>

namespace tbprof {

struct GpuReading {
  uint32_t devices = 0;    // 0: none, or not known
  uint32_t processes = 0;  // that compute on them
  uint64_t slowed_ns = 0;  // since the driver's start, for power or heat, all devices added up
};

class GpuLoadReader {
 public:
  explicit GpuLoadReader(std::string library = "libnvidia-ml.so.1") : library_(std::move(library)) {}
  // Where the library is missing or gives no answer it is not asked again.
  GpuReading Read();

 private:
  std::string library_;
  bool answers_ = true;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_GATE_GPU_LOAD_H_
