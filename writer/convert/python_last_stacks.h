// SPDX-License-Identifier: Apache-2.0
//
// The last sampled stack of each thread of the processes that a signal ended: fills PythonTimeline::last_stacks. It
// shows where the thread was seen last, not where it was when the signal came. If Timeline::cores has the stack at the
// end of the process, that stack replaces it.
//
// A process that ended by itself, or by SIGINT, could print a traceback. Programs end their workers with SIGTERM and
// SIGHUP: these signals count for the command alone.
//
// Process: converter. Pure functions.
#ifndef TBPROF_WRITER_CONVERT_PYTHON_LAST_STACKS_H_
#define TBPROF_WRITER_CONVERT_PYTHON_LAST_STACKS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "writer/convert/capture_window.h"
#include "writer/convert/process_model.h"
#include "writer/spool/spool_facts.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

struct PythonLastSample {
  uint64_t ticks = 0;
  uint32_t stack = 0;
};

// `samples`: by index into Timeline::threads.
void AddPythonLastStacks(const CaptureWindow& window, const SpoolFacts& facts, const ProcessModel& model,
                         const std::map<uint32_t, PythonLastSample>& samples, Timeline* timeline);

// When a process ended; 0: not known, or outside of the shown time.
uint64_t EndTicksInWindow(const CaptureWindow& window, const SpoolFacts& facts, const ProcessFacts& process,
                          bool is_command);

// `main thread`, `Loader-3/1235`, `thread 1235`.
std::string PythonThreadText(const Thread& thread);

// `f (a.py:12) < main (a.py:40)`, innermost first, without functions that only start others; after `most_frames` frames
// ` < ...`. Empty: there are no frames.
std::string SampledStackText(const Timeline& timeline, uint32_t stack, size_t most_frames);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_PYTHON_LAST_STACKS_H_
