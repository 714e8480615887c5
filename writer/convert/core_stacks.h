// SPDX-License-Identifier: Apache-2.0
//
// From the core files of a spool to Timeline::cores: the exact stacks of threads at the end of their process, with
// names.
//
// Process: converter, one thread. Untrusted: all of it.
#ifndef TBPROF_WRITER_CONVERT_CORE_STACKS_H_
#define TBPROF_WRITER_CONVERT_CORE_STACKS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "writer/convert/capture_window.h"
#include "writer/convert/native_stacks.h"
#include "writer/convert/process_model.h"
#include "writer/convert/process_modules.h"
#include "writer/convert/python_stacks.h"
#include "writer/spool/spool_facts.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

struct CoreStackNames {
  PythonStacks* python;
  NativeStacks* native;
  ProcessModules* modules;
};

// Adds the core files of processes that ended within the window, the command's first.
void AddCores(const CaptureWindow& window, const SpoolFacts& facts, const CoreStackNames& names, ProcessModel* model,
              Timeline* timeline);

// Adds notes on the first core files. Call when the threads have their names.
void AddCoreNotes(Timeline* timeline);

// `strlen (libc.so.6) < copy (text.c:12)`, innermost first; after `most_frames` frames ` < ...`. `inside_python`: only
// the native frames that the innermost Python function called. Empty: there are no frames.
std::string NativeStackText(const Timeline& timeline, uint32_t stack, size_t most_frames, bool inside_python);

// `train.py (18676), killed by SIGSEGV at address 0x0`.
std::string CrashText(const Timeline& timeline, const CoreDump& core);
// Where a core file that was not read went, or why it was not read, and what to do; empty: it was read.
std::string UnreadCoreText(const Timeline& timeline, const CoreDump& core);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_CORE_STACKS_H_
