// SPDX-License-Identifier: Apache-2.0
//
// The Python part of a timeline: sampled stacks of threads. Times and indexes as in timeline.h. A sample stands for the
// time up to the middle between it and its neighbours, half a period where there is none: a span means "seen in N
// samples", never one call.
//
// Process: the converter.
#ifndef TBPROF_WRITER_TIMELINE_TIMELINE_PYTHON_H_
#define TBPROF_WRITER_TIMELINE_TIMELINE_PYTHON_H_

#include <cstdint>
#include <string>
#include <vector>

namespace tbprof {

using StringId = uint32_t;

// One per name, file and first line, for all processes.
struct PythonFunction {
  StringId name = 0;   // `Model.forward`; in Python 3.8 to 3.10 `forward`
  StringId file = 0;   // as the program has it: a path, or `<frozen importlib._bootstrap>`
  StringId label = 0;  // `Model.forward (train.py:88)`: unique except for the directory
  int32_t first_line = 0;
};

// A frame and its callers. Index 0: a thread without frames.
struct PythonStack {
  uint32_t parent = 0;    // index into PythonTimeline::stacks, below its own; 0: the outermost
  uint32_t function = 0;  // index into PythonTimeline::functions
  int32_t line = -1;      // the executed line; -1: not known
};

// Consecutive samples of a thread with one stack.
struct PythonRun {
  int64_t first_ps = 0, last_ps = 0;  // the first sample and the last
  int64_t from_ps = 0, to_ps = 0;     // the time that they stand for; disjoint from other runs
  int64_t period_ps = 0;              // between two samples
  uint32_t stack = 0;                 // index into PythonTimeline::stacks
  uint32_t samples = 0;
  uint32_t on_cpu = 0;      // samples in which the thread had used any CPU time
  int64_t cpu_ps = 0;       // CPU time that it used: by the kernel's count, if known, else on_cpu periods
  uint32_t collecting = 0;  // samples in which it collected garbage
};

// A function with the same callers in consecutive samples.
struct PythonSpan {
  int64_t start_ps = 0;
  int64_t duration_ps = 0;
  uint32_t function = 0;
  uint32_t samples = 0;
  int32_t line = -1;   // the line of most samples; -1: not known
  uint32_t depth = 0;  // number of callers, including those without a span
};

// All samples of a thread with one stack, including those without a run.
struct PythonTally {
  uint32_t stack = 0;
  uint64_t samples = 0;
  uint64_t on_cpu = 0;
  int64_t wall_ps = 0;        // the time that the samples stand for
  int64_t on_cpu_ps = 0;      // by PythonRun::cpu_ps
  int64_t collecting_ps = 0;  // part of on_cpu_ps
};

struct PythonThread {
  // The stack that was sampled around this time; 0: none.
  uint32_t StackAt(int64_t at_ps) const;

  uint32_t thread = 0;               // index into Timeline::threads
  std::vector<PythonRun> runs;       // in order of time
  std::vector<PythonSpan> spans;     // sorted by (start ascending, duration descending), nested or apart
  std::vector<PythonTally> tallies;  // sorted by stack
};

// A sample of a thread that held the GIL. Only of processes with several threads in Python.
struct GilHolder {
  int64_t at_ps = 0;
  int64_t period_ps = 0;  // between two samples
  uint32_t thread = 0;    // index into Timeline::threads
  uint32_t stack = 0;     // index into PythonTimeline::stacks
};

// Consecutive samples in which a thread held the GIL, and in them those with one function as the innermost frame. Only
// of processes in which several threads held it.
struct GilSpan {
  int64_t start_ps = 0;
  int64_t duration_ps = 0;
  uint32_t thread = 0;        // index into Timeline::threads
  bool is_of_thread = false;  // whatever its functions: no function
  uint32_t function = 0;      // index into PythonTimeline::functions
  int32_t line = -1;          // of the first sample; -1: not known
  uint32_t samples = 0;
};

// The stack of a thread of a process that a signal ended: of its last sample, or of the core file.
struct PythonLastStack {
  uint32_t thread = 0;  // index into Timeline::threads
  uint32_t stack = 0;   // index into PythonTimeline::stacks
  int64_t age_ps = 0;   // age of the sample at the process's end
  bool exact = false;   // from a core file: the stack at the process's end
};

enum class PythonSampling : uint8_t {
  kSampled,
  kRefused,      // a remedy exists: see `reason`
  kUnsupported,  // by this tbprof: see `reason`
  kOff,
};

// The state of sampling in a process with an interpreter.
struct PythonProcess {
  uint32_t process = 0;  // index into Timeline::processes
  PythonSampling sampling = PythonSampling::kSampled;
  std::string reason;
  uint32_t minor = 0;       // 11 for 3.11; 0: not known
  int64_t period_ps = 0;    // the latest; 0: not known
  uint64_t samples = 0;     // of the whole run, not of the window
  uint64_t torn = 0;        // likewise, dropped because the stack changed while it was read
  uint64_t unreadable = 0;  // likewise, dropped because it could not be read
};

struct PythonTimeline {
  std::vector<PythonFunction> functions;
  std::vector<PythonStack> stacks;
  std::vector<PythonThread> threads;     // sorted by thread; those with samples
  std::vector<PythonProcess> processes;  // sorted by process
  std::vector<GilHolder> holders;        // of all processes, in order of time
  std::vector<GilSpan> gil_spans;        // by process; of each (start ascending, duration descending)
  // The command's come first; within a process the main thread's, then the latest.
  std::vector<PythonLastStack> last_stacks;
  uint64_t samples_without_run = 0;  // only in the tallies
  uint64_t spans_left_out = 0;       // by the budget
  int64_t shortest_span_ps = 0;      // shortest span that the budget kept; 0: all are kept
  // Null: it has no samples.
  const PythonThread* OfThread(uint32_t thread) const;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_TIMELINE_TIMELINE_PYTHON_H_
