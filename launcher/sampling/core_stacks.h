// SPDX-License-Identifier: Apache-2.0
//
// Reads the Python and native stacks of the threads in a core file.
//
//   std::unique_ptr<CoreFile> core = ...;
//   CoreStacks stacks = ReadCoreStacks(core.get());
//
// Process: launcher, the thread of CoreReader. Reads files; ends at the CoreFile's deadline. Untrusted: the core file.
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
    bool in_python = false;                   // the thread has a Python stack, perhaps empty
    std::vector<PythonReader::Frame> python;  // innermost first
    std::vector<uint64_t> native;             // in the format of Unwinder
    bool complete = false;                    // `native` reaches the outermost frame
    std::string name;                         // threading.Thread.name; empty: none
  };
  std::vector<Thread> threads;  // the thread with the signal, the main thread, threads with Python frames, others
  uint64_t thread_count = 0;    // in the core file
  uint16_t python_minor = 0;
  std::vector<PythonReader::Code> codes;
  std::vector<Module> modules;  // that contain native addresses
  std::string shortfall;        // one line about missing data; empty: nothing is missing
};

CoreStacks ReadCoreStacks(CoreFile* core);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_CORE_STACKS_H_
