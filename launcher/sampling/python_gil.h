// SPDX-License-Identifier: Apache-2.0
//
// Finds the threads of a Python process that hold the GIL, and those that collect garbage.
//
//   PythonGil gil(runtime.layout, runtime.address, ProcessMemory(pid));
//   gil.Read(reader.interpreters());            // once for all threads
//   gil.IsHeldBy(state);                        // addresses
//   gil.IsCollecting(interpreter, state);
//   gil.IsStillHeldBy(state);                   // reads again
//
// CPython marks the interpreter that collects. The collecting thread holds the GIL, except while a finalizer releases
// it: the last holder of the GIL counts as the collecting thread. A build without the GIL is not supported.
//
// Process: launcher, the sampler's thread. Not thread-safe.
#ifndef TBPROF_LAUNCHER_SAMPLING_PYTHON_GIL_H_
#define TBPROF_LAUNCHER_SAMPLING_PYTHON_GIL_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "launcher/sampling/target_memory.h"
#include "wire/python_layout.h"

namespace tbprof {

class PythonGil {
 public:
  PythonGil(const PythonLayout& layout, uint64_t runtime, ReadMemory read)
      : layout_(layout), runtime_(runtime), read_(std::move(read)) {}

  // Reads everything in one call. If it fails, no thread holds a GIL or collects.
  void Read(const std::vector<uint64_t>& interpreters);
  bool IsCollecting(uint64_t interpreter, uint64_t thread_state) const;
  // Whether a GIL was locked by this thread at the last Read.
  bool IsHeldBy(uint64_t thread_state) const;
  // Whether a thread that is blocked on this futex waits for a GIL.
  bool IsFutexOf(uint64_t futex) const;
  // Whether it is locked by that thread now.
  bool IsStillHeldBy(uint64_t thread_state) const;

 private:
  // A GIL, as far as it is read. CPython has `locked` right behind the holder.
  struct Gil {
    uint64_t last_holder;  // thread state
    int32_t locked;
    uint32_t other;
  };
  static_assert(sizeof(Gil) == 16);

  PythonLayout layout_;
  uint64_t runtime_;
  ReadMemory read_;
  std::vector<uint64_t> collecting_;  // interpreters
  std::vector<Gil> gils_;
  std::vector<uint64_t> addresses_;  // of the Gil
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_PYTHON_GIL_H_
