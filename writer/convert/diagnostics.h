// SPDX-License-Identifier: Apache-2.0
//
// What a capture does not contain, and why: programs that ran unrecorded, allocators and locks that no hook sees.
//
//   for (const UnrecordedProgram& program : FindUnrecorded(facts, open, close, explain)) ...
//
// Process: converter, one thread.
#ifndef TBPROF_WRITER_CONVERT_DIAGNOSTICS_H_
#define TBPROF_WRITER_CONVERT_DIAGNOSTICS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "writer/spool/exec_images.h"
#include "writer/spool/spool_facts.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

// Facts about a program's file, as far as it can be read when the profile is made.
struct ProgramFile {
  std::string not_loaded;      // why the loader does not load the library into the program; empty: not known
  bool own_allocator = false;  // the program defines malloc itself
};
using ExamineProgram = std::function<ProgramFile(const std::string& path)>;

// Programs that the recorded processes started within [open, close] and that never sent a hello, by path and reason.
// `complete`: the session has ended, so that a missing hello cannot arrive any more.
std::vector<UnrecordedProgram> FindUnrecorded(const SpoolFacts& facts, uint64_t open, uint64_t close, bool complete,
                                              const ExamineProgram& examine);

// `3 commands ran unrecorded: env (environment without tbprof's LD_PRELOAD), ./static (static program)`; empty for
// none.
std::string UnrecordedText(const std::vector<UnrecordedProgram>& programs);

// Notes on activity that the hooks cannot see in processes with these modules. `families`: the recorded ones.
std::vector<std::string> UnseenNotes(const SpoolFacts& facts, uint32_t families);

// Warns of what the end of the run tells: threads that could not be started, a system call filter.
void AddEndDiagnoses(Timeline* timeline);

// The line for the terminal and XSpace.warnings; empty: no operation was skipped.
std::string SamplingText(const Timeline& timeline);

// Checks whether the programs call tbprof's functions: sets the state and the reason of each process, and adds
// warnings. `processes`: of the timeline. `families`: the recorded ones.
void DiagnoseHooks(const std::map<Identity, uint32_t>& processes, const ExecImages& images, uint32_t families,
                   const ExamineProgram& examine, SpoolFacts* facts, Timeline* timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_DIAGNOSTICS_H_
