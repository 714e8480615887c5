// SPDX-License-Identifier: Apache-2.0
//
// What a capture does not contain, and why: programs that ran without being recorded, allocators and locks that no hook
// sees.
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

// Of the file that a program is in, as far as it can be read when the profile is made.
struct ProgramFile {
  std::string not_loaded;      // why the loader does not load the library into it; empty: nothing is known
  bool own_allocator = false;  // it defines malloc itself
};
using ExamineProgram = std::function<ProgramFile(const std::string& path)>;

// Programs that the recorded processes started within [open, close] and that never sent a hello, by path and reason.
// `complete`: the session has ended, so that a missing hello will not come any more.
std::vector<UnrecordedProgram> FindUnrecorded(const SpoolFacts& facts, uint64_t open, uint64_t close, bool complete,
                                              const ExamineProgram& examine);

// `3 commands ran unrecorded: env (environment without LD_PRELOAD), ./static (static program)`; empty for none.
std::string UnrecordedText(const std::vector<UnrecordedProgram>& programs);

// What stays unseen in processes with these modules, for the profile's notes. `families`: that were recorded.
std::vector<std::string> UnseenNotes(const SpoolFacts& facts, uint32_t families);

// The line of the terminal and of XSpace.warnings; empty: nothing was passed over.
std::string SamplingText(const Timeline& timeline);

// Whether the programs call our functions: sets the state and the reason of each process, and adds warnings.
// `processes`: of the timeline. `families`: that were recorded.
void DiagnoseHooks(const std::map<Identity, uint32_t>& processes, const ExecImages& images, uint32_t families,
                   const ExamineProgram& examine, SpoolFacts* facts, Timeline* timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_DIAGNOSTICS_H_
