// SPDX-License-Identifier: Apache-2.0
//
// The verdict: how the time of the steps' thread splits into parts that add up to the step, and the largest cause with
// its evidence. Unknown time is kRest and an unknown cause kUnknown; neither is attributed to another part.
//
// Process: converter. Part of the timeline (timeline.h); writer/verdict/ makes it.
#ifndef TBPROF_WRITER_TIMELINE_TIMELINE_VERDICT_H_
#define TBPROF_WRITER_TIMELINE_TIMELINE_VERDICT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tbprof {

using StringId = uint32_t;

// Parts of the time of the thread that makes the steps. Equal parts are shown in this order.
enum class StepPart : uint8_t {
  kInput,        // waits for the next batch, or makes it (a loader in the same thread)
  kOperations,   // native code on the CPU, and waits for the threads of such code
  kPython,       // the interpreter itself
  kLaunch,       // calls that give work to a GPU
  kKernels,      // waits for a GPU
  kCopies,       // waits for copies from and to a GPU
  kCollectives,  // waits for other processes of the job
  kLocks,        // waits for locks, queues and threads that provide no input
  kGil,          // waits for Python's lock
  kGarbageCollection,
  kReclaim,     // waits for pages of memory; the kernel's work for new ones
  kDisk,        // calls for files
  kNetwork,     // calls for sockets
  kChild,       // waits for child processes
  kSleep,       // sleeps
  kStarvation,  // runnable without a CPU
  kCompile,     // traces and compiles
  kRest,        // not known
};
inline constexpr size_t kStepParts = 18;
std::string_view StepPartName(StepPart part);                  // as in summary.json
std::string_view StepPartTitle(StepPart part);                 // for the user
std::optional<StepPart> StepPartNamed(std::string_view text);  // either of them

// The remedy, if the cause alone does not determine it.
enum class Advice : uint8_t {
#define TBPROF_ADVICE(id, ...) id,
#include "writer/timeline/verdict_advice.def"
};

enum class Cause : uint8_t {
#define TBPROF_CAUSE(id, ...) id,
#include "writer/timeline/verdict_causes.def"
};
std::string_view CauseName(Cause cause);
std::string_view CauseTitle(Cause cause, Advice advice = Advice::kOfCause);
bool IsProblem(Cause cause);
Cause CauseNamed(std::string_view name);  // kUnknown: no cause has this name

// The time that the split covers.
enum class VerdictBasis : uint8_t {
  kNone,        // no thread to examine, or nothing was recorded of it
  kSteps,       // the regular steps
  kTraining,    // from the first regular step to the last: much of the time is between the steps
  kLoop,        // steps are not known: the main thread's loop, by its samples
  kMainThread,  // steps are not known: the main thread, without imports
};

enum class WhereRole : uint8_t {
  kSpends,     // the thread of the steps spends the time there
  kWaitedFor,  // another thread or process does this meanwhile
};

struct PythonLine {
  StringId file = 0;
  int32_t line = -1;  // -1: not known
  StringId function = 0;
};

// The lines of a function at which its loop was sampled.
struct LoopLines {
  StringId file = 0;  // 0: not known
  StringId function = 0;
  int32_t first = -1, last = -1;
};

// Where::thread for a place in another rank, whose threads are not in this timeline.
inline constexpr uint32_t kOtherRank = UINT32_MAX;

// A line of Python, or a native function where there is no Python.
struct Where {
  WhereRole role = WhereRole::kSpends;
  uint32_t thread = 0;              // index into Timeline::threads, or kOtherRank
  StringId file = 0;                // source file; 0: not known
  int32_t line = -1;                // -1: not known
  StringId function = 0;            // of Python, or native
  std::vector<PythonLine> callers;  // of the program's own code, innermost first
  std::string doing;                // `queue.get`, `sleep`, ...; empty: it runs
  double share = 0;                 // of the split's time; for kWaitedFor: of the waiting time
  size_t alike = 0;                 // number of further threads that do the same
  int rank = -1;                    // number of another rank; -1: this one
};

struct Verdict {
  VerdictBasis basis = VerdictBasis::kNone;
  Cause cause = Cause::kUnknown;
  StepPart part = StepPart::kRest;        // the part that shows the cause
  double share = 0;                       // of the split's time; 0: unknown
  std::string reason;                     // for kUnknown: the reason, as text
  Cause blocker_cause = Cause::kUnknown;  // for kStraggler: the problem of the slower rank, if it is known
  int waiting_rank = -1;  // for kStraggler: the rank that waits for this one; `share` is then of its steps
  Advice advice = Advice::kOfCause;
  std::optional<Advice> remedy;    // in place of `advice`, which also decides how the cause is called
  std::vector<Where> where;        // the line that spends most comes first, then what it waits for
  std::vector<Where> places;       // where most is spent, apart from waits for other processes; longest first
  std::vector<std::string> facts;  // numbers on which the cause is based, as text
  std::vector<std::string> hangs;  // where its threads wait, as text, if it did nothing else
  int64_t hung_ps = 0;             // how long it did nothing else at the end; 0: all the time, or `hangs` is empty

  LoopLines loop;       // of kLoop
  uint32_t thread = 0;  // of the steps: index into Timeline::threads
  uint64_t steps = 0;   // in the split; 0: not known
  int64_t total_ps = 0;
  std::array<int64_t, kStepParts> part_ps{};  // add up to total_ps
  std::vector<std::string> limits;            // missing data, which makes parts less certain

  double ShareOf(StepPart which) const {
    return total_ps <= 0 ? 0 : static_cast<double>(part_ps[static_cast<size_t>(which)]) / static_cast<double>(total_ps);
  }
};

// The remedy to try first; empty: none is known.
std::string_view NextStep(const Verdict& verdict);

}  // namespace tbprof

#endif  // TBPROF_WRITER_TIMELINE_TIMELINE_VERDICT_H_
