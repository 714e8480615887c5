// SPDX-License-Identifier: Apache-2.0
//
// Timeline: what one capture shows, decoded and on one time axis. The builder (timeline_builder.h) makes it from a
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
#include "writer/timeline/timeline_core.h"
#include "writer/timeline/timeline_gpu.h"
#include "writer/timeline/timeline_memory.h"
#include "writer/timeline/timeline_native.h"
#include "writer/timeline/timeline_python.h"
#include "writer/timeline/timeline_usage.h"
#include "writer/timeline/timeline_verdict.h"

namespace tbprof {

// Indices that stand for none, into Timeline::processes and ::threads.
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

// What an event's `object` is, and how an output prints it.
enum class ObjectKind : uint8_t { kNone, kAddress, kDescriptor, kProcessId, kThread, kStream };
// What an event's `value` is.
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
  kPayloadUnsigned,  // the same, of 64 bits without a sign
  kPayloadDouble,    // the bits of one
  kSequence,         // of PyTorch's automatic differentiation; `object`: its number of the forward operation's thread
};

// Of kPayloadDouble.
inline double DoubleOf(int64_t bits) {
  double number;
  __builtin_memcpy(&number, &bits, sizeof(number));
  return number;
}

enum class EventFamily : uint8_t { kThread, kLock, kSleep, kIo, kProcess, kMemory, kStep, kGpu, kAnnotation, kOther };

// Of kAnnotation: who reported it.
enum class RangeOrigin : uint8_t {
  kProgram,         // NVTX
  kTorchOperation,  // e.g. `aten::mm`; the outermost of a nest is what the program called
  kTorchBackward,   // e.g. `autograd::engine::evaluate_function: MmBackward0`, and in it `MmBackward0`
  kTensorFlow,      // e.g. `MatMul`; a function of tf.function's: `__inference_one_step_on_iterator_1234`
  kTorchUser,       // e.g. `Optimizer.step#SGD.step`, and what a program names by record_function
};

// One kind of event: what all events of that kind share. Index = Event::type.
struct EventType {
  std::string name;  // the function's own name; never begins with `train` or `test` unless it is a step
  EventFamily family = EventFamily::kOther;
  ObjectKind object = ObjectKind::kNone;
  ValueKind value = ValueKind::kNone;
  RangeOrigin origin = RangeOrigin::kProgram;
};

struct Event {
  enum Flag : uint16_t {
    kClippedAtStart = 1,  // began before the window
    kClippedAtEnd = 2,    // had not ended when the window closed or the process died
    kFailed = 4,          // the call returned an error; `error` holds errno, of kGpu CUDA's number
    kOpen = 8,            // a wait that had not returned; kClippedAtEnd besides
  };
  int64_t start_ps = 0;
  int64_t duration_ps = 0;  // 0 = an instant
  uint64_t object = 0;
  int64_t value = 0;
  StringId call_site = 0;  // `function (file:line)`; of PyTorch's operations the shapes of their inputs; or empty
  StringId detail = 0;     // free text: a path, a command line; of PyTorch's work the operation; or empty
  uint16_t type = 0;
  uint16_t flags = 0;
  int32_t error = 0;
  uint32_t python = 0;  // index into PythonTimeline::stacks, of the call; 0: none is known
};

// Of a call whose object and result are both processes (waitpid), one is shown: the one that it returned, or where it
// has not returned one, the one that was requested. `event`: an Event, or a RawEvent that becomes one.
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

// Calls of one function, whole capture, recorded and merely counted ones together.
struct OperationTotal {
  uint16_t type = 0;
  uint64_t calls = 0;     // recorded + counted
  uint64_t recorded = 0;  // have (or had, before the budget) an event of their own
  int64_t total_ps = 0;   // time inside, recorded + counted
  int64_t longest_ps = 0;
  int64_t self_ps = -1;    // of PyTorch's operations: without what is nested in them; -1: not known
  bool estimated = false;  // operations were sampled: calls and times are extrapolated
};

// How much of PyTorch's operations of a process is recorded. From `at_ps` on, what is stands for `weight` times as
// much.
struct TorchWeight {
  int64_t at_ps = 0;
  double weight = 1;
  bool midway = false;  // the first operations may be parts of one that is not recorded
};
struct TorchSampled {
  uint64_t recorded = 0;
  uint64_t skipped = 0;              // estimated; 0: all are recorded
  std::vector<TorchWeight> weights;  // in order of time; empty: all are recorded
};

// A wait of a main thread, or a batch of tf.data's, that the budget left out of the events: what the steps waited for
// does not depend on what is drawn.
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
  bool is_line = false;  // no thread: a line of its own for what belongs to none, or to one that is not known
  int64_t start_ps = 0;
  int64_t end_ps = 0;
  uint64_t flow_id = 0;            // the kFlowIn value of its start event; 0 if its creator is not known
  std::vector<Event> events;       // sorted by (start ascending, duration descending); partial overlaps removed
  std::vector<CutWait> cut_waits;  // sorted likewise; may overlap `events`
};

// A kernel's node of a CUDA graph, or its copy in one that can be launched.
struct GraphNode {
  uint32_t thread = 0;  // that made it: index into Timeline::threads
  int64_t at_ps = 0;
  uint64_t node = 0;      // GpuEvent::value of its kernels, unique in the process
  uint64_t original = 0;  // that it is a copy of; 0: of none; `node`: of one that is not known
};

struct AllocatorTotals {
  uint64_t allocations = 0;
  uint64_t frees = 0;
  uint64_t allocated_bytes = 0;
  uint64_t freed_bytes = 0;
  // Of the process, blocks from before the capture included.
  int64_t live_bytes = 0;         // at the end of the capture, or of the process
  int64_t peak_bytes = 0;         // the highest since the process's start, up to the capture's end
  int64_t begin_bytes = 0;        // at the start of the capture, or of the process
  int64_t window_peak_bytes = 0;  // the highest seen in the capture
  bool is_absolute = true;        // false: counting began later than the process, and these four are lower bounds
};

// A place that the allocator was called from, as --malloc=exact has seen it.
struct HeapSite {
  StringId site = 0;
  uint64_t calls = 0;  // that gave a block
  uint64_t bytes = 0;
  uint64_t temporary = 0;  // of the calls: the thread gave the block back before it took another
  uint64_t live_blocks = 0;
  int64_t live_bytes = 0;  // at the end of the capture
  int64_t peak_bytes = 0;  // when the process had its most
  StringId python = 0;     // `train.py:42 remember`; 0: not known
};

// --malloc=exact: every block that came or went in the capture.
struct ExactHeap {
  bool recorded = false;
  // Records of the process that are missing, at least. Not 0: what is live, its peaks and what is temporary are not
  // known, and calls and bytes are lower bounds.
  uint64_t lost = 0;
  uint64_t allocations = 0;
  uint64_t releases = 0;
  uint64_t earlier = 0;       // of the releases: of blocks from before the capture
  uint64_t ambiguous = 0;     // calls of different threads whose order is not known, and matters
  uint64_t not_followed = 0;  // allocations beyond what the writer keeps in mind at a time
  uint64_t temporary = 0;
  uint64_t live_blocks = 0;
  int64_t live_bytes = 0;  // what came less what went
  int64_t peak_bytes = 0;
  int64_t peak_ps = 0;
  int64_t widest_ps = 0;        // the longest stretch between two known times
  std::vector<HeapSite> sites;  // sorted by peak_bytes descending
};

enum class ProcessState : uint8_t {
  kRecorded,
  kRecordedWithoutAllocator,  // the allocator cannot be interposed (linked statically, own allocator)
  kInert,                     // the library was there and stayed out of the way: see `reason`
  kNotLoaded,                 // static, setuid, foreign class, environment lost: see `reason`
};

// What a process has loaded to compute with.
enum class NumericLibrary : uint8_t { kNone, kLinearAlgebra, kFramework };

struct Process {
  int32_t pid = 0;
  int32_t parent = -1;  // index into Timeline::processes, -1 = the command itself or unknown
  bool is_command = false;
  bool forked = false;         // made by fork without exec: shares the image of its parent
  bool replaced = false;       // by exec: a later entry is the same process
  bool is_unrecorded = false;  // the command of a run in which no process was recorded
  std::string executable;
  std::string name;  // short: basename of the executable or of the script
  std::vector<std::string> arguments;
  int64_t start_ps = 0;
  int64_t end_ps = 0;
  int exit_code = -1;  // -1 = not known
  int exit_signal = 0;
  int rank = -1;
  int local_rank = -1;
  int world_size = -1;
  ProcessState state = ProcessState::kRecorded;
  std::string reason;
  AllocatorTotals allocator;
  ExactHeap exact_heap;
  HeldMemory memory;
  std::vector<OperationTotal> operations;  // sorted by total_ps descending
  TorchSampled torch;
  uint64_t records = 0;
  ProcessGpu gpu;
  NumericLibrary library = NumericLibrary::kNone;
};

// Programs that the recorded ones started and that are not in the capture.
struct UnrecordedProgram {
  ProcessState state = ProcessState::kNotLoaded;
  std::string path;  // as it was given to exec; empty: not known
  std::string reason;
  uint64_t count = 0;
  std::vector<int32_t> pids;  // the first few
};

// Where time or bytes went, by code place. Whole capture, independent of what fitted the budget.
struct CallSiteTotal {
  StringId site = 0;
  uint16_t type = 0;
  uint64_t calls = 0;
  int64_t total_ps = 0;
  int64_t longest_ps = 0;
  StringId python = 0;  // `train.py:42 remember`; 0: not known
};

struct AllocationSiteTotal {
  std::vector<StringId> frames;  // innermost first, `function (file:line)`; frames of the allocator itself left out
  uint64_t samples = 0;
  double bytes = 0;           // unbiased estimate of all bytes allocated there
  StringId python = 0;        // `train.py:42 remember`; 0: not known
  uint32_t python_stack = 0;  // index into PythonTimeline::stacks; 0: none is known
};

struct CounterSample {
  int64_t time_ps = 0;
  double value = 0;
};

// A tensor's memory on a device that came or went.
struct TensorMemory {
  int64_t time_ps = 0;
  uint64_t address = 0;
  int64_t bytes = 0;                    // below 0: it went
  int64_t allocated = 0, reserved = 0;  // behind it: by tensors, and of the driver
  uint32_t process = 0, thread = 0;     // indices into Timeline::processes, ::threads
  uint32_t device_type = 0;             // c10::DeviceType
  uint16_t device = 0;                  // as PyTorch numbers it
  bool lasting = false;                 // longer than the step that it came in
  bool kind_known = true;               // whether that is known: not all reports are kept
  StringId operation = 0;               // as NamedOperations names it
};
struct CounterTrack {
  std::string name;  // e.g. `heap live bytes`
  std::string series;
  uint32_t process = 0;
  std::vector<CounterSample> samples;
  int device = -1;           // index into Timeline::gpu_devices, of whose plane it is; -1: of the process's
  double peak_before = 0;    // of a heap: the highest value before the capture
  bool lower_bound = false;  // likewise: the values are at least these
};

// What the steps of a timeline are taken from.
enum class StepSource : uint8_t {
  kNone,          // there are none
  kWholeCapture,  // they are unknown, and the whole capture is shown as one
  kMarked,        // ranges or kernels with such names
  kFramework,     // PyTorch's optimizer or data loader
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
  bool is_regular = true;  // else warm-up, a pause, an evaluation: labelled, and in no statistics
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

// A line of Python, or a native function where there is no Python (`file` is empty then).
struct RankPlace {
  std::string file;
  int line = -1;  // -1: not known
  std::string function;
};

// One rank of the run in a few numbers. How it ended is known of every rank of the spool, the rest of those whose
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

  bool of_other_launcher = false;  // times of its end are by another machine's clock

  bool has_numbers = false;  // those below
  std::string host;          // the stem of its file
  uint64_t processes = 0, threads = 0, records = 0;
  uint64_t steps = 0, irregular_steps = 0;
  int64_t median_step_ps = -1;  // -1: no steps are known
  int64_t last_step = -1;       // the number of the latest
  std::string step_source;
  double step_confidence = 0;
  int64_t waited_ps = 0;         // by all threads
  std::vector<RankWait> waits;   // the longest few
  int64_t heap_peak_bytes = -1;  // the highest of a process, until the window's close
  double own_cost_seconds = 0;
  std::string verdict;            // its own, in a sentence
  Cause cause = Cause::kUnknown;  // of it
  double collectives_share = -1;  // of its steps, waits for the others; -1: not known
  RankPlace busiest;              // where its steps spend most, but for those waits
};

// Another loop than that of the steps: around them or within them.
struct StepLoop {
  std::string what;          // of its turns, plural: `iterations`, `batches`
  uint64_t count = 0;        // of its turns, in the capture
  double steps_each = 0;     // steps in a turn; below 1: turns are parts of a step
  bool may_be_step = false;  // its turn may as well be the step
};

struct DropCount {
  std::string cause;  // e.g. `no free chunk`
  uint64_t records = 0;
};

// A warning of a capture begins with it where several were to begin at one moment and this one did not.
inline constexpr std::string_view kBeganLate = "this window began ";

struct Timeline {
  // Where and when.
  std::string host;  // == file stem == XSpace.hostnames[0]
  std::string run;
  std::string command_line;
  uint64_t origin_unix_ns = 0;  // wall clock at time 0
  // Of several profiles that are to be laid over each other: how long after the start that was agreed on.
  uint64_t after_agreed_start_ns = 0;
  int64_t duration_ps = 0;
  int64_t totals_ps = 0;            // of the time the totals are about, where that is the whole run and this is less
  std::string window;               // `all`, `capture 1`, ...: what this capture is
  int rank = -1;                    // whose file this is; -1: no rank known
  std::vector<int> further_ranks;   // also in the spool, each with a file of its own
  std::vector<int> ranks;           // all in the spool, whether in this window or not
  int world_size = -1;              // -1: not known
  std::string ranks_recorded;       // --ranks
  std::vector<int> missing_ranks;   // expected of this spool, or of the run's other launchers, and not there
  std::vector<RankReport> by_rank;  // sorted by rank; empty: no process has a rank
  std::vector<std::string>
      rank_warnings;             // of ranks that failed: go to XSpace.warnings, and to the terminal with the ranks
  bool counts_allocator = true;  // false: its calls are not traced
  bool complete = true;          // false: the launcher died, `recover` made this

  // How the command ended; exit_code -1 and exit_signal 0 = still running when the capture was made.
  int exit_code = -1;
  int exit_signal = 0;

  StringTable strings;
  // Of what was recorded. Entries that exec has replaced are not counted again.
  uint64_t ProcessCount() const;
  uint64_t ThreadCount() const;
  // Whether nothing that was recorded is missing.
  bool IsWhole() const { return complete && drops.empty() && records_not_kept == 0 && corrupt_records == 0; }
  std::vector<EventType> types;
  std::vector<Process> processes;
  std::vector<Thread> threads;
  std::vector<CounterTrack> counters;
  std::vector<TensorMemory> tensor_memory;  // in order of time, thinned
  std::vector<DeviceMemory> device_memory;  // by peak, highest first
  std::vector<GpuDevice> gpu_devices;       // sorted by number
  std::vector<GpuStream> gpu_streams;       // sorted by (device, line_id); none without events
  std::vector<GpuLaunch> gpu_launches;
  std::vector<GraphNode> graph_nodes;          // as they were made, by thread and time
  std::map<StringId, StringId> mangled_names;  // of kernels: readable to mangled, where they differ
  std::vector<Step> steps;
  StepSource step_source = StepSource::kNone;
  std::string step_source_text;  // e.g. `Optimizer.step`
  double step_confidence = 0;
  std::string steps_unknown;  // of kWholeCapture: why
  std::vector<StepLoop> step_loops;

  PythonTimeline python;
  NativeTimeline native;
  std::vector<ThreadUsage> usage;  // sorted by thread
  // Null: nothing is known of it.
  const ThreadUsage* UsageOfThread(uint32_t thread) const;
  std::vector<ThreadBlocked> blocked;  // sorted by thread; of main threads that run Python
  // Null: nothing is known of it.
  const ThreadBlocked* BlockedOfThread(uint32_t thread) const;
  CpuLimits cpu_limits;  // of the command
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
  uint64_t records_not_kept = 0;      // drained, and not taken by the spool
  uint64_t records = 0;               // decoded
  uint64_t events_over_budget = 0;    // decoded, counted in the totals, left out of the lines
  uint64_t expected_bytes = 0;        // that the events are to take in the xplane file
  bool waits_recorded = true;         // locks, sleeps, calls for input and output, and ranges
  int64_t shortest_shown_ps = 0;      // threshold that the budget forced; 0 = everything is shown
  int64_t all_shown_from_ps = 0;      // if longer: of the lengths between, an even part is shown
  int64_t shortest_gpu_shown_ps = 0;  // likewise, of what ran on devices: cut last
  int64_t all_gpu_shown_from_ps = 0;
  std::vector<std::string> errors;    // go to XSpace.errors
  std::vector<std::string> warnings;  // go to XSpace.warnings
  std::vector<std::string> notes;     // likewise, but not to the terminal: true of every run of such a program
  std::vector<UnrecordedProgram> unrecorded;
  double own_cost_seconds = 0;   // estimated CPU time tbprof added inside the target
  double user_cpu_seconds = -1;  // of the command and its waited-for children; -1 = not known
  double system_cpu_seconds = -1;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_TIMELINE_TIMELINE_H_
