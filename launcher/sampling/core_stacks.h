// SPDX-License-Identifier: Apache-2.0
//
// The stacks of the threads in a core file, of Python and of native code.
//
//   std::unique_ptr<CoreFile> core = ...;
//   CoreStacks stacks = ReadCoreStacks(core.get());
//
// Process: launcher, the thread of CoreReader. Pure but for files; bounded by the core's time. Untrusted: the core.
#ifndef TBPROF_LAUNCHER_SAMPLING_CORE_STACKS_H_
#define TBPROF_LAUNCHER_SAMPLING_CORE_STACKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/sampling/core_file.h"
#include "launcher/sampling/python_reader.h"
#include "writer/symbols/unwind.h"

namespace tbprof {

inline constexpr size_t kMaxCoreThreads = 256;
inline constexpr int kMaxCoreFrames = 256;

struct CoreStacks {
  struct Thread {
    int32_t tid = 0;
    bool in_python = false;                   // it has a Python stack, perhaps an empty one
    std::vector<PythonReader::Frame> python;  // innermost first
    std::vector<uint64_t> native;             // as Unwinder gives them
    bool complete = false;                    // `native` goes to the outermost
    std::string name;                         // by Python; empty: none
  };
  std::vector<Thread> threads;  // that which got the signal, those of Python, the others
  uint64_t thread_count = 0;    // in the core
  uint16_t python_minor = 0;
  std::vector<PythonReader::Code> codes;
  std::vector<Module> modules;  // that native addresses lie in
  std::string shortfall;        // one line about what is missing; empty: nothing
};

CoreStacks ReadCoreStacks(CoreFile* core);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_CORE_STACKS_H_
