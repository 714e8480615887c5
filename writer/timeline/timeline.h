// SPDX-License-Identifier: Apache-2.0
//
// Timeline: the decoded contents of one capture, on one time axis. The builder (timeline_builder.h) makes it from a
// spool; every output (outputs.h) is a pure function of it.
//
// Process: the converter. Single-threaded, allocates, never in a target.
//
// Times are picoseconds since `origin` (the opening of the window, or the start of the run), as int64: 106 days.
// An event that began before the window or had not ended when it closed is clipped to it and flagged.
#ifndef TBPROF_WRITER_TIMELINE_TIMELINE_H_
#define TBPROF_WRITER_TIMELINE_TIMELINE_H_

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "writer/timeline/conserved.h"
#include "writer/timeline/step_amounts.h"
#include "writer/timeline/step_change.h"
#include "writer/timeline/time_span.h"
#include "writer/timeline/timeline_core.h"
#include "writer/timeline/timeline_gpu.h"
#include "writer/timeline/timeline_memory.h"
#include "writer/timeline/timeline_native.h"
#include "writer/timeline/timeline_python.h"
#include "writer/timeline/timeline_usage.h"
#include "writer/timeline/timeline_verdict.h"

namespace tbprof {

// Indices into Timeline::processes and ::threads that mean none.
inline constexpr uint32_t kNoProcess = UINT32_MAX;
inline constexpr uint32_t kNoLine = UINT32_MAX;

// Interned text. Id 0 is the empty string.
using StringId = uint32_t;

class StringTable {
 public:
  StringTable() { Intern(""); }
  StringTable(const StringTable&) = delete;
  StringTable& operator=(const StringTable&) = delete;
  StringTable(StringTable&&) = default;
  StringTable& operator=(StringTable&&) = default;

  // The text is made valid UTF-8 first: one invalid byte makes a strict protobuf parser reject the whole file.
  StringId Intern(std::string_view text);
  const std::string& Get(StringId id) const { return *texts_[id]; }
  size_t size() const { return texts_.size(); }

 private:
  std::unordered_map<std::string, StringId> ids_;
  std::vector<const std::string*> texts_;
};

// The meaning of Event::object, and how an output prints it.
enum class ObjectKind : uint8_t { kNone, kAddress, kDescriptor, kProcessId, kThread, kStream };
// The meaning of Event::value.
enum class ValueKind : uint8_t {
  kNone,
  kBytes,
  kResult,
  kProcessId,
  kFlowOut,
  kFlowIn,
  kSignal,
  kCorrelation,
  kPayload,          // a number that the program gave
  kPayloadUnsigned,  // the same, as unsigned 64 bits
  kPayloadDouble,    // the bits of a double
  kSequence,         // number in PyTorch's autograd; `object`: autograd's number of the forward operation's thread
};

// The value of kPayloadDouble.
inline double DoubleOf(int64_t bits) {
  double number;
  __builtin_memcpy(&number, &bits, sizeof(number));
  return number;
}

enum class EventFamily : uint8_t { kThread, kLock, kSleep, kIo, kProcess, kMemory, kStep, kGpu, kAnnotation, kOther };

// The source of a kAnnotation event.
enum class RangeOrigin : uint8_t {
  kProgram,         // NVTX
  kTorchOperation,  // e.g. `aten::mm`; the program called the outermost one of a nest
  kTorchBackward,   // e.g. `autograd::engine::evaluate_function: MmBackward0`, and in it `MmBackward0`
  kTensorFlow,      // e.g. `MatMul`, or a tf.function: `__inference_one_step_on_iterator_1234`
  kTorchUser,       // e.g. `Optimizer.step#SGD.step`, and ranges that a program names by record_function
};

// One kind of event: the properties that all its events share. Index = Event::type.
struct EventType {
  std::string name;  // the function's own name; never begins with `train` or `test` unless it is a step
  EventFamily family = EventFamily::kOther;
  ObjectKind object = ObjectKind::kNone;
  ValueKind value = ValueKind::kNone;
  RangeOrigin origin = RangeOrigin::kProgram;
  bool sampled = false;  // made of samples, not of calls that were counted
};

struct Event {
  enum Flag : uint16_t {
    kClippedAtStart = 1,  // began before the window
    kClippedAtEnd = 2,    // had not ended when the window closed or the process died
    kFailed = 4,          // the call returned an error; `error` holds errno, for kGpu CUDA's number
    kOpen = 8,            // a wait that had not returned; kClippedAtEnd is also set
  };
  int64_t start_ps = 0;
  int64_t duration_ps = 0;  // 0 = an instant
  uint64_t object = 0;
  int64_t value = 0;
  StringId call_site = 0;  // `function (file:line)`; for PyTorch's operations the shapes of their inputs; or empty
  StringId detail = 0;     // free text: a path, a command line; for PyTorch's work the operation; or empty
  uint16_t type = 0;
  uint16_t flags = 0;
  int32_t error = 0;
  uint32_t python = 0;  // stack of the call: index into PythonTimeline::stacks; 0: not known
};

// If the object and the result of a call are both processes (waitpid), one is shown: the process that the call
// returned, or, if it has not returned one, the process that was requested. `event`: an Event, or a RawEvent that
// becomes one.
template <typename AnyEvent>
bool ShowsResultAsProcess(const EventType& type, const AnyEvent& event) {
  return type.value == ValueKind::kProcessId && (event.flags & (Event::kFailed | Event::kOpen)) == 0;
}
template <typename AnyEvent>
bool HasObjectToShow(const EventType& type, const AnyEvent& event) {
  return type.object != ObjectKind::kProcessId || !ShowsResultAsProcess(type, event);
}
template <typename AnyEvent>
bool HasValueToShow(const EventType& type, const AnyEvent& event) {
  if ((event.flags & Event::kFailed) != 0) return false;
  return type.object != ObjectKind::kProcessId || type.value != ValueKind::kProcessId ||
         ShowsResultAsProcess(type, event);
}

// Calls of one function in the whole capture, including calls that were only counted.
struct OperationTotal {
  uint16_t type = 0;
  uint64_t calls = 0;     // recorded + counted
  uint64_t recorded = 0;  // calls that have, or had before the budget, their own event
  int64_t total_ps = 0;   // time inside, recorded + counted
  int64_t longest_ps = 0;
  int64_t self_ps = -1;    // for PyTorch's operations: without nested operations; -1: not known
  bool estimated = false;  // operations were sampled: calls and times are extrapolated
};

// Sampling of a process's PyTorch operations. From `at_ps` on, each recorded operation stands for `weight` operations.
struct TorchWeight {
  int64_t at_ps = 0;
  double weight = 1;
  bool midway = false;  // the first operations may be parts of one that was not recorded
};
struct TorchSampled {
  uint64_t recorded = 0;
  uint64_t skipped = 0;              // estimated; 0: all are recorded
  std::vector<TorchWeight> weights;  // in order of time; empty: all are recorded
};

// A wait or GPU call of a main thread, or a batch of tf.data, that the budget left out of the events. It is kept since
// the waits of the steps must not depend on which events are drawn.
struct CutWait {
  int64_t start_ps = 0;
  int64_t duration_ps = 0;
  StringId call_site = 0;
  uint16_t type = 0;
};

struct Thread {
  uint32_t process = 0;  // index into Timeline::processes
  int32_t tid = 0;
  uint64_t line_id = 0;  // dense, unique over all merged processes, > 0
  std::string name;      // as the program set it; empty if it never did
  bool is_main = false;
  bool is_line = false;  // not a thread: a line for events of no thread or of an unknown one
  int64_t start_ps = 0;
  int64_t end_ps = 0;
  uint64_t flow_id = 0;            // the kFlowIn value of its start event; 0 if its creator is not known
  std::vector<Event> events;       // sorted by (start ascending, duration descending); partial overlaps removed
  std::vector<CutWait> cut_waits;  // sorted likewise; may overlap `events`
};

// A kernel node of a CUDA graph, or its copy in an executable graph.
struct GraphNode {
  uint32_t thread = 0;  // that made the node: index into Timeline::threads
  int64_t at_ps = 0;
  uint64_t node = 0;      // GpuEvent::value of its kernels, unique in the process
  uint64_t original = 0;  // the node that it copies; 0: none; equal to `node`: not known
};

struct AllocatorTotals {
  uint64_t allocations = 0;
  uint64_t frees = 0;
  uint64_t allocated_bytes = 0;
  uint64_t freed_bytes = 0;
  // Bytes of the whole process, including blocks that were allocated before the capture.
  int64_t live_bytes = 0;         // at the end of the capture, or of the process
  int64_t peak_bytes = 0;         // the highest since the process's start, up to the capture's end
  int64_t begin_bytes = 0;        // at the start of the capture, or of the process
  int64_t window_peak_bytes = 0;  // the highest seen in the capture
  bool is_absolute = true;        // false: counting began after the process, and these four are lower bounds
};

// A call site of the allocator, recorded with --malloc=exact.
struct HeapSite {
  StringId site = 0;
  uint64_t calls = 0;  // that returned a block
  uint64_t bytes = 0;
  uint64_t temporary = 0;  // calls whose block the thread freed before its next allocation
  uint64_t live_blocks = 0;
  int64_t live_bytes = 0;  // at the end of the capture
  int64_t peak_bytes = 0;  // at the time of the process's peak
  StringId python = 0;     // `train.py:42 remember`; 0: not known
};

// --malloc=exact: every block that was allocated or freed in the capture.
struct ExactHeap {
  bool recorded = false;
  // Lower bound of the lost records of the process. If not 0, live bytes, their peaks and temporary blocks are unknown,
  // and calls and bytes are lower bounds.
  uint64_t lost = 0;
  uint64_t allocations = 0;
  uint64_t releases = 0;
  uint64_t earlier = 0;       // releases of blocks from before the capture
  uint64_t ambiguous = 0;     // calls of different threads whose order matters but is not known
  uint64_t not_followed = 0;  // allocations beyond the number that the writer tracks at a time
  uint64_t temporary = 0;
  uint64_t live_blocks = 0;
  int64_t live_bytes = 0;  // allocated minus freed bytes
  int64_t peak_bytes = 0;
  int64_t peak_ps = 0;
  int64_t widest_ps = 0;        // the longest interval between two known times
  std::vector<HeapSite> sites;  // sorted by peak_bytes descending
};

enum class ProcessState : uint8_t {
  kRecorded,
  kRecordedWithoutAllocator,  // the allocator cannot be interposed (linked statically, own allocator)
  kInert,                     // the library was loaded but inactive: see `reason`
  kNotLoaded,                 // static, setuid, foreign class, environment lost: see `reason`
};

// The numeric library that a process has loaded.
enum class NumericLibrary : uint8_t { kNone, kLinearAlgebra, kFramework };

struct Process {
  int32_t pid = 0;
  int32_t parent = -1;  // index into Timeline::processes, -1 = the command itself or unknown
  bool is_command = false;
  bool forked = false;         // made by fork without exec: shares the image of its parent
  bool replaced = false;       // replaced by exec: a later entry is the same process
  bool is_unrecorded = false;  // the command of a run in which no process was recorded
  std::string executable;
  std::string name;  // short: basename of the executable or of the script
  std::vector<std::string> arguments;
  int64_t start_ps = 0;
  int64_t end_ps = 0;
  uint64_t started_ticks = 0;  // by the session's clock: the same in all windows of a session; 0: not known
  int exit_code = -1;          // -1 = not known
  int exit_signal = 0;
  int rank = -1;
  int local_rank = -1;
  int world_size = -1;
  ProcessState state = ProcessState::kRecorded;
  std::string reason;
  AllocatorTotals allocator;
  ExactHeap exact_heap;
  HeldMemory memory;
  ResidentMemory resident;
  std::vector<OperationTotal> operations;  // sorted by total_ps descending
  TorchSampled torch;
  double observing_seconds = 0;  // estimated CPU time that recording its operations of PyTorch took
  uint64_t records = 0;
  ProcessGpu gpu;
  NumericLibrary library = NumericLibrary::kNone;
};

// A process of the job that a signal ended, or that returned an error. It may have ended before the window.
struct FailedProcess {
  int32_t pid = 0, parent_pid = 0;
  std::string name;  // as Process::name
  int exit_signal = 0;
  bool out_of_memory = false;
  std::string how;     // e.g. `killed by SIGKILL (out of memory)`
  int64_t end_ps = 0;  // negative: before the window
};

// Programs that recorded processes started and that are not in the capture.
struct UnrecordedProgram {
  ProcessState state = ProcessState::kNotLoaded;
  std::string path;  // as given to exec; empty: not known
  std::string reason;
  uint64_t count = 0;
  std::vector<int32_t> pids;  // the first few
};

// Time or bytes by call site, for the whole capture, independent of the budget.
struct CallSiteTotal {
  StringId site = 0;
  uint16_t type = 0;
  uint64_t calls = 0;
  int64_t total_ps = 0;
  int64_t longest_ps = 0;
  StringId python = 0;  // `train.py:42 remember`; 0: not known
};

struct AllocationSiteTotal {
  std::vector<StringId> frames;  // innermost first, `function (file:line)`; without frames of the allocator
  uint64_t samples = 0;
  double bytes = 0;           // unbiased estimate of all bytes allocated there
  StringId python = 0;        // `train.py:42 remember`; 0: not known
  uint32_t python_stack = 0;  // index into PythonTimeline::stacks; 0: none is known
};

struct CounterSample {
  int64_t time_ps = 0;
  double value = 0;
};

// An allocation or a release of a tensor's memory on a device.
struct TensorMemory {
  int64_t time_ps = 0;
  uint64_t address = 0;
  int64_t bytes = 0;                    // below 0: a release
  int64_t allocated = 0, reserved = 0;  // after it: bytes of tensors, and bytes reserved from the driver
  uint32_t process = 0, thread = 0;     // indices into Timeline::processes, ::threads
  uint32_t device_type = 0;             // c10::DeviceType
  uint16_t device = 0;                  // PyTorch's number
  bool lasting = false;                 // it outlives the step of its allocation
  bool kind_known = true;               // whether `lasting` is known: not all reports are kept
  StringId operation = 0;               // as NamedOperations names it
};
inline constexpr std::string_view kHeapTrack = "heap live bytes", kResidentTrack = "resident memory";
struct CounterTrack {
  std::string name;  // e.g. kHeapTrack
  std::string series;
  uint32_t process = 0;
  std::vector<CounterSample> samples;
  int device = -1;           // on this device's plane: index into Timeline::gpu_devices; -1: on the process's
  double peak_before = 0;    // of a heap: the highest value before the capture
  bool lower_bound = false;  // of a heap: the values are lower bounds
};

// The source of a timeline's steps.
enum class StepSource : uint8_t {
  kNone,          // there are none
  kWholeCapture,  // they are unknown, and the whole capture is shown as one step
  kMarked,        // ranges or kernels with the name of a step
  kFramework,     // PyTorch's optimizer or data loader, a round of XGBoost or LightGBM
  kInferred,      // calls or work that repeat
};
// The text of kWholeCapture in the files.
inline constexpr std::string_view kWholeCaptureText = "synthetic";

struct Step {
  int64_t start_ps = 0;
  int64_t end_ps = 0;
  int64_t number = 0;
  std::string name;  // shown to the user
  uint32_t thread = 0;
  bool is_regular = true;  // false: warm-up, a pause or an evaluation: labelled, and not in statistics
};

enum class RankState : uint8_t {
  kRunning,  // its process had not ended when this window closed, or when the command ended
  kEnded,
  kMissing,  // no process of it was recorded
};

struct RankWait {
  std::string operation, call_site;
  uint64_t calls = 0;
  int64_t total_ps = 0, longest_ps = 0;
};

// A line of Python, or a native function where there is no Python. `file` is empty if it is not known.
struct RankPlace {
  std::string file;
  int line = -1;  // -1: not known
  std::string function;
  double share = 0;  // of the rank's steps
};

// Summary of one rank of the run. Its end is known for every rank of the spool, the other fields only for ranks whose
// timeline was built (writer/convert/rank_report.h).
struct RankReport {
  int rank = -1;
  int local_rank = -1;
  RankState state = RankState::kMissing;
  int32_t pid = 0;
  int exit_code = -1;  // of kEnded; -1: not known, or a signal ended it
  int exit_signal = 0;
  bool out_of_memory = false;
  int64_t end_ps = -1;          // since the window's opening; -1: not known, or before it
  int earlier_failures = 0;     // processes of it that failed before this one was started
  std::string earlier_failure;  // the first of them, e.g. `killed by SIGKILL`
  int64_t earlier_end_ps = -1;  // its end, as end_ps

  bool of_other_launcher = false;  // the time of its end is from another machine's clock

  bool has_numbers = false;  // whether the fields below are known
  std::string host;          // the stem of its file
  uint64_t processes = 0, threads = 0, records = 0;
  uint64_t steps = 0, irregular_steps = 0;
  int32_t steps_pid = 0;        // the process of the steps; 0: not known
  int64_t median_step_ps = -1;  // -1: no steps are known
  int64_t last_step = -1;       // the number of the latest step; -1: not known
  // The part of the window in which steps were searched; both -1: all of it.
  int64_t searched_from_ps = -1, searched_to_ps = -1;
  std::string step_source;
  double step_confidence = 0;
  int64_t waited_ps = 0;                           // total of all threads
  std::vector<RankWait> waits;                     // the longest few
  int64_t heap_peak_bytes = -1;                    // the highest peak of a process, until the window's close
  std::vector<std::string> memory, memory_growth;  // what its memory holds, and how it grows, as sentences
  double own_cost_seconds = 0;
  std::string verdict;                             // the rank's own, as a sentence
  Cause cause = Cause::kUnknown;                   // of its verdict
  double collectives_share = -1;                   // share of its time in waits for other ranks; -1: not known
  VerdictBasis share_basis = VerdictBasis::kNone;  // of which time; kTraining counts as kSteps
  std::vector<RankPlace> places;                   // where its steps spend most, apart from those waits; longest first
  std::string step_change;           // how the length of its steps changed, as a sentence; empty: it did not
  bool change_is_of_others = false;  // that change is in waits for other ranks
  std::vector<std::string> hangs;    // where its threads wait, if it did nothing else: in a capture, or at its end
};

// A loop around the steps or within them.
struct StepLoop {
  std::string what;          // name of its turns, plural: `iterations`, `batches`
  uint64_t count = 0;        // number of its turns in the capture
  double steps_each = 0;     // steps in a turn; below 1: turns are parts of a step
  bool may_be_step = false;  // its turn may be the real step
};

struct DropCount {
  std::string cause;  // e.g. `no free chunk`
  uint64_t records = 0;
};

// Prefix of the warning of a capture that began later than the start on which several captures had agreed.
inline constexpr std::string_view kBeganLate = "this window began ";

struct Timeline {
  // Where and when.
  std::string host;  // == file stem == XSpace.hostnames[0]
  std::string run;
  std::string command_line;
  uint64_t origin_unix_ns = 0;  // wall clock at time 0
  // If several profiles are to be overlaid: delay after the agreed start.
  uint64_t after_agreed_start_ns = 0;
  int64_t duration_ps = 0;
  int64_t totals_ps = 0;            // time that the totals cover, if that is the whole run and longer than the timeline
  std::string window;               // name of this capture: `all`, `capture 1`, ...
  int rank = -1;                    // rank of this file; -1: not known
  std::vector<int> further_ranks;   // other ranks in the spool, each with its own file
  std::vector<int> ranks;           // all ranks in the spool, in this window or not
  int world_size = -1;              // -1: not known
  std::string ranks_recorded;       // --ranks
  std::vector<int> missing_ranks;   // expected in this spool or from the run's other launchers, but missing
  int ranks_elsewhere = 0;          // of other launchers, which this launcher's environment does not name
  std::vector<RankReport> by_rank;  // sorted by rank; empty: no process has a rank
  std::vector<std::string>
      rank_warnings;             // about failed ranks: go to XSpace.warnings, and to the terminal with the ranks
  bool counts_allocator = true;  // false: allocator calls are not traced
  bool complete = true;          // false: the launcher died, `recover` made this

  // How the command ended; exit_code -1 and exit_signal 0: not known, since it ran on when the capture was made, or its
  // end closed the window of the capture (`command_ended`).
  int exit_code = -1;
  int exit_signal = 0;
  bool command_ended = false;

  StringTable strings;
  // Number of recorded processes and threads. Entries that exec has replaced are not counted again.
  uint64_t ProcessCount() const;
  uint64_t ThreadCount() const;
  // Returns whether no recorded data is missing.
  bool IsWhole() const { return complete && drops.empty() && records_not_kept == 0 && corrupt_records == 0; }
  std::vector<EventType> types;
  std::vector<Process> processes;
  std::vector<Thread> threads;
  std::vector<CounterTrack> counters;
  std::vector<TensorMemory> tensor_memory;  // in order of time, thinned
  std::vector<DeviceMemory> device_memory;  // by peak, highest first
  std::vector<GpuDevice> gpu_devices;       // sorted by number
  std::vector<GpuStream> gpu_streams;       // sorted by (device, line_id); each has events
  std::vector<GpuLaunch> gpu_launches;
  std::vector<GraphNode> graph_nodes;          // by thread, in order of time
  std::map<StringId, StringId> mangled_names;  // names of kernels: readable to mangled, if they differ
  std::vector<Step> steps;
  StepSource step_source = StepSource::kNone;
  std::string step_source_text;  // e.g. `Optimizer.step`
  double step_confidence = 0;
  bool steps_in_detail = false;  // searched in `full_detail` only, which is a part of the window
  std::string steps_unknown;     // for kWholeCapture: the reason
  std::vector<StepLoop> step_loops;
  StepChange step_change;

  PythonTimeline python;
  NativeTimeline native;
  std::vector<ThreadUsage> usage;  // sorted by thread
  // Null: nothing is known about the thread.
  const ThreadUsage* UsageOfThread(uint32_t thread) const;
  std::vector<ThreadBlocked> blocked;  // sorted by thread; of main threads that run Python
  // Null: nothing is known about the thread.
  // False: it has ended, with a status; of processes that were attached to, all of them.
  bool Runs() const;
  const ThreadBlocked* BlockedOfThread(uint32_t thread) const;
  CpuLimits cpu_limits;  // of the command
  CpuOfOthers cpu_of_others;
  Machine machine;
  StepAmounts step_amounts;
  Verdict verdict;
  std::vector<CoreDump> cores;  // the command's first

  std::vector<CallSiteTotal> wait_sites;              // sorted by total_ps descending
  std::vector<AllocationSiteTotal> allocation_sites;  // sorted by bytes descending

  // Diagnostics.
  std::vector<ConservedRow> conservation;  // by kind
  std::vector<DropCount> drops;
  uint64_t corrupt_records = 0;
  uint64_t refused_threads = 0;       // calls of pthread_create that failed for lack of resources
  uint64_t records_not_kept = 0;      // drained, but not written to the spool
  uint64_t records = 0;               // decoded
  uint64_t events_over_budget = 0;    // decoded, counted in the totals, left out of the lines
  uint64_t expected_bytes = 0;        // bytes that the events are expected to take in the xplane file
  bool waits_recorded = true;         // whether locks, sleeps, input and output calls and ranges are recorded
  bool attached = false;              // the processes ran before, and were only sampled (`tbprof attach`)
  int64_t shortest_shown_ps = 0;      // threshold that the budget forced; 0 = everything is shown
  int64_t all_shown_from_ps = 0;      // if longer: of events with a length between the two, an even part is shown
  int64_t shortest_gpu_shown_ps = 0;  // the same for device events, which are cut last
  int64_t all_gpu_shown_from_ps = 0;
  TimeSpan full_detail = {0, 0};      // of this part, all events are shown, however short
  std::vector<std::string> errors;    // go to XSpace.errors
  std::vector<std::string> warnings;  // go to XSpace.warnings
  std::vector<std::string> notes;     // go to XSpace.warnings, not to the terminal: true of every run of such a program
  std::vector<UnrecordedProgram> unrecorded;
  std::vector<FailedProcess> failed_processes;  // of all ranks, in order of their ends
  double own_cost_seconds = 0;                  // estimated CPU time tbprof added inside the target
  double user_cpu_seconds = -1;                 // of the command and its waited-for children; -1 = not known
  double system_cpu_seconds = -1;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_TIMELINE_TIMELINE_H_
