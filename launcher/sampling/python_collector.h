// SPDX-License-Identifier: Apache-2.0
//
// Finds the threads of a Python process that are collecting garbage.
//
//   PythonCollector collector(runtime.layout, runtime.address, ProcessMemory(pid));
//   collector.Read(reader.interpreters());            // once for all threads
//   collector.IsCollecting(interpreter, state);       // addresses
//
// CPython marks the interpreter that collects. The collecting thread holds the GIL, except while a finalizer releases
// it: the last holder of the GIL counts as the collecting thread. A build without the GIL is not supported.
//
// Process: launcher, the sampler's thread. Not thread-safe.
#ifndef TBPROF_LAUNCHER_SAMPLING_PYTHON_COLLECTOR_H_
#define TBPROF_LAUNCHER_SAMPLING_PYTHON_COLLECTOR_H_

#include <cstdint>
#include <vector>

#include "launcher/sampling/target_memory.h"
#include "wire/python_layout.h"

namespace tbprof {

class PythonCollector {
 public:
  PythonCollector(const PythonLayout& layout, uint64_t runtime, ReadMemory read)
      : layout_(layout), runtime_(runtime), read_(std::move(read)) {}

  // Reads everything in one call. If it fails, no thread counts as collecting.
  void Read(const std::vector<uint64_t>& interpreters);
  bool IsCollecting(uint64_t interpreter, uint64_t thread_state) const;

 private:
  PythonLayout layout_;
  uint64_t runtime_;
  ReadMemory read_;
  std::vector<uint64_t> collecting_;  // interpreters
  std::vector<uint64_t> holders_;     // thread states: the last holder of each GIL
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_PYTHON_COLLECTOR_H_
