// SPDX-License-Identifier: Apache-2.0
//
// From the core files of a spool to Timeline::cores: the stacks of threads at their process's end, exact, with names.
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

// Of processes that ended within the window; the command's first.
void AddCores(const CaptureWindow& window, const SpoolFacts& facts, const CoreStackNames& names, ProcessModel* model,
              Timeline* timeline);

// A note on each for the profile, when threads have their names.
void AddCoreNotes(Timeline* timeline);

// `strlen (libc.so.6) < copy (text.c:12)`, innermost first, at most `most_frames`, then ` < ...`; `inside_python`: only
// what the innermost function of Python called. Empty: there is none.
std::string NativeStackText(const Timeline& timeline, uint32_t stack, size_t most_frames, bool inside_python);

// `train.py (18676), killed by SIGSEGV at address 0x0`.
std::string CrashText(const Timeline& timeline, const CoreDump& core);
// What happened to a core file that was not read, and what to do; empty: it was read.
std::string UnreadCoreText(const Timeline& timeline, const CoreDump& core);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_CORE_STACKS_H_
