// SPDX-License-Identifier: Apache-2.0
//
// Which threads of a Python process collect garbage at the moment.
//
//   PythonCollector collector(runtime.layout, runtime.address, ProcessMemory(pid));
//   collector.Read(reader.interpreters());            // once for all threads
//   collector.IsCollecting(interpreter, state);       // addresses
//
// CPython marks the interpreter that collects. It keeps the GIL but for finalizers that release it: the thread that had
// it last is the one. A build without the GIL is not read.
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

  // One read of all that is needed. Where it fails, no thread collects.
  void Read(const std::vector<uint64_t>& interpreters);
  bool IsCollecting(uint64_t interpreter, uint64_t thread_state) const;

 private:
  PythonLayout layout_;
  uint64_t runtime_;
  ReadMemory read_;
  std::vector<uint64_t> collecting_;  // interpreters
  std::vector<uint64_t> holders_;     // of a GIL: thread states
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_PYTHON_COLLECTOR_H_
