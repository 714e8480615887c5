// SPDX-License-Identifier: Apache-2.0
// Rules: RULES.md.
#include "preload/torch_observer.h"

#include <fcntl.h>
#include <link.h>
#include <stddef.h>
#include <string.h>

#include "preload/annotations.h"
#include "preload/hooks.h"
#include "preload/modules.h"
#include "preload/record.h"
#include "preload/torch_build.h"
#include "preload/torch_sampling.h"
#include "preload/torch_shapes.h"
#include "preload/torch_turns.h"
#include "wire/raw.h"

namespace tbprof {

TorchWatch g_torch_watch = TorchWatch::kLooking;

namespace {

// at::RecordFunctionCallback, from 1.12 on.
struct Context {
  void* none = nullptr;
  Context() = default;
  // Like the destructor of std::unique_ptr: makes the compiler return the type through memory.
  ~Context() {}
};
struct Callback {
  Context (*start)(const void* function);
  void (*end)(const void* function, void* context);
  double probability;
  bool scopes[10];
  bool needs_inputs, needs_outputs, needs_ids;
};
static_assert(sizeof(Callback) == 40 && offsetof(Callback, scopes) == 24);
enum Scope : size_t { kFunction = 0, kBackwardFunction = 1, kUserScope = 7 };

// The functions of PyTorch's library that are called here.
struct Torch {
  uint64_t (*add_global_callback)(Callback callback);
  void (*disable_callback)(uint64_t handle);
  void (*enable_callback)(uint64_t handle);
  const char* (*name)(const void* function);
  int64_t (*peek)();
};
Torch g_torch;
TorchShapes g_shapes;
bool g_wants_shapes;  // whether the shapes of operations are recorded
const TorchBuild* g_build;
// Handles of the observers: ranges first, then, if requested, operations and backward nodes.
constexpr size_t kMostHandles = 3, kRanges = 1;
uint64_t g_handles[kMostHandles];
size_t g_handle_count;

// Assumed cost of an observed operation. PyTorch, which makes an object and a text, takes 120 ns (`a.add(b)`) to 500 ns
// (a backward node), this library 60 to 80 ns. More is assumed: with 600 ns, a training on two busy cores had more
// overhead than its share. If all cost more than a share of the time, some units are recorded (torch_sampling.h).
constexpr uint64_t kOperationNs = 1000;
constexpr uint64_t kShapesNs = 500;  // PyTorch's copies of the inputs, and the text: 350 ns measured
// A unit that ends by time ends with a full lot (half a lot late in the mean) or, if skipped, with a call of the
// counter (kOneIn late). Both delays must be equal, or phases of few operations would be recorded for a shorter time.
constexpr uint32_t kCountedAtOnce = 256;
constexpr uint32_t kLate =
    4;  // after this many times the limit any thread ends the unit in place of the one that leads
uint64_t g_ticks_per_ms;
TorchSampling g_sampling;
uint64_t g_operations;   // recorded operations, counted in lots
uint32_t g_unit_is_due;  // the unit has reached its limit: it ends when no operation is running
uint32_t g_epoch;        // of the process to which these variables belong: a fork child starts anew
bool g_all;              // a requested window is open: all operations are recorded
uint64_t g_cost_before_all;
constexpr char kLoader[] = "enumerate(DataLoader)#", kOptimizer[] = "Optimizer.step#";
constexpr uint64_t kPauseNumber = ~uint64_t{0};

// While operations are skipped, PyTorch calls the counter, an observer, for one in kOneIn. A call costs 1 us; being in
// the list costs 100 ns for each backward node, because PyTorch draws the next sampled operation anew for each.
constexpr uint32_t kOneIn = 128;
static_assert(kCountedAtOnce == 2 * kOneIn);
uint64_t g_counter;                        // its handle; 0: none
bool g_counts;                             // whether it is in PyTorch's list
uint64_t g_skipped, g_skipped_recorded;    // calls of the counter
constexpr uint64_t kRecordedAtLeast = 64;  // after this many calls the number is recorded within a unit

// The state that finds where steps end, by the ranges of the thread that leads.
bool g_optimizer_ended, g_loader_since;
uint32_t g_batches;                          // batches since an optimizer's end
constexpr uint32_t kMostBatchesOfStep = 16;  // batches with accumulated gradients; more batches are an evaluation

// After this many calls without an open window, or in a process that records nothing, the observers are disabled in
// PyTorch, which makes an object for each observed operation.
constexpr uint32_t kIdleCalls = 1024;
uint32_t g_idle_calls;

// Whether the numbers that link a backward node to its operation are at the offset in the build's row: the numbers of
// the first operations are compared with the result of PyTorch's own function.
constexpr uint32_t kNumbersToCompare = 64;
uint32_t g_numbers_to_compare = kNumbersToCompare;
bool g_numbers_are_wrong;

template <typename Value>
Value FieldOf(const void* function, uint32_t offset) {
  Value value;
  __builtin_memcpy(&value, static_cast<const char*>(function) + offset, sizeof(value));
  return value;
}

uint64_t OperationNs() { return kOperationNs + (__atomic_load_n(&g_wants_shapes, __ATOMIC_RELAXED) ? kShapesNs : 0); }

TorchWatch Watch() { return __atomic_load_n(&g_torch_watch, __ATOMIC_RELAXED); }
void SetWatch(TorchWatch watch) { __atomic_store_n(&g_torch_watch, watch, __ATOMIC_RELAXED); }

// The functions up to Resume run in this thread's turn, in a call of an observer or of the allocator (PyTorch's lock is
// free). They change PyTorch's list on the thread that leads, or on another one if that one is late (MayChange).

void SetObservers(size_t first, size_t end, bool on) {
  for (size_t i = first; i < end; ++i) {
    (on ? g_torch.enable_callback : g_torch.disable_callback)(g_handles[i]);
  }
}

void RecordPause(ThreadState* thread, bool begins) {
  AnnotationPayload payload{};
  if (begins) payload.name = NameNumber(thread, kTorchPause);
  Annotate(thread, begins ? AnnotationAction::kStart : AnnotationAction::kEnd, kTorchDomain, kPauseNumber,
           static_cast<uint32_t>(TorchScope::kPause), begins ? &payload : nullptr);
}

// `weight`: from here on; 0: as before.
void RecordSampling(ThreadState* thread, uint32_t weight, uint32_t flags) {
  const uint64_t skipped = __atomic_load_n(&g_skipped, __ATOMIC_RELAXED);
  const TorchSamplingFact fact{(skipped - g_skipped_recorded) * kOneIn + g_sampling.estimated, weight, flags};
  __atomic_store_n(&g_skipped_recorded, skipped, __ATOMIC_RELAXED);
  g_sampling.estimated = 0;
  RecordProcessInfo(thread, ProcessInfoKey::kTorchSampling, reinterpret_cast<const char*>(&fact), sizeof(fact));
}

uint64_t AddCounter();

void SetCounter(bool on) {
  if (on == g_counts) return;
  g_counts = on;
  if (g_counter == 0) {
    g_counter = AddCounter();
  } else {
    (on ? g_torch.enable_callback : g_torch.disable_callback)(g_counter);
  }
}

void Pause(ThreadState* thread) {
  SetCounter(g_sampling.counted);
  SetObservers(kRanges, g_handle_count, false);
  RecordPause(thread, true);
  SetWatch(TorchWatch::kPaused);
}

void Resume(ThreadState* thread, uint32_t weight, uint32_t flags) {
  RecordSampling(thread, weight, flags);
  RecordPause(thread, false);
  SetWatch(TorchWatch::kObserving);
  SetObservers(kRanges, g_handle_count, true);
}

uint64_t NowNs() {
  const uint64_t ticks = Ticks() - g_attachment.segment.header->attach_ticks;
  return ticks / g_ticks_per_ms * 1'000'000 + ticks % g_ticks_per_ms * 1'000'000 / g_ticks_per_ms;
}
uint64_t Cost() { return OperationNs() * __atomic_load_n(&g_operations, __ATOMIC_RELAXED); }

TorchProgress Progress() {
  const uint64_t skipped = __atomic_load_n(&g_skipped, __ATOMIC_RELAXED) * kOneIn;
  return {NowNs(), Cost(), __atomic_load_n(&g_operations, __ATOMIC_RELAXED) + skipped};
}

// Whether this state belongs to the process from which this one was forked.
bool IsOfParent() {
  const uint32_t epoch = __atomic_load_n(&g_fork_page->epoch, __ATOMIC_RELAXED);
  return epoch != g_epoch && epoch != kEpochRegistering;
}

bool AllAreAskedFor() { return __atomic_load_n(&g_control->torch_all, __ATOMIC_RELAXED) != 0; }

void SetRecording(const ThreadState* thread, TorchRecording recording) {
  const uint32_t slot = thread->writer.thread->process_slot;
  __atomic_store_n(&g_attachment.segment.process_slots[slot].torch_recording, static_cast<uint32_t>(recording),
                   __ATOMIC_SEQ_CST);
}

void StartAnew(const ThreadState* thread) {
  if (g_epoch != thread->epoch) ForgetTorchLeader();
  g_epoch = thread->epoch;
  g_all = false;
  g_skipped = g_skipped_recorded = 0;
  __atomic_store_n(&g_unit_is_due, 0, __ATOMIC_RELAXED);
  StartSampling(&g_sampling, Progress(), Ticks() ^ uint64_t{thread->epoch} << 32);
  SetRecording(thread, TorchRecording::kSampled);
}

// Called in this thread's turn; in a pause on the thread that leads.
__attribute__((noinline)) void RecordAll(ThreadState* thread) {
  const uint32_t weight = g_sampling.weight;
  g_sampling.weight = 1;
  g_sampling.recording = true;
  if (Watch() == TorchWatch::kPaused) {
    Resume(thread, 1, kTorchMidway);
  } else if (weight != 1) {
    RecordSampling(thread, 1, 0);
  }
  if (g_all) return;
  g_all = true;
  g_cost_before_all = Cost();
  SetRecording(thread, TorchRecording::kAll);
}

// Called where a unit may end and another begin. `flags`: of TorchSamplingFact.
__attribute__((noinline)) void AtBorder(ThreadState* thread, bool step, uint32_t flags) {
  if ((g_control->gpu_options & kTorchAll) != 0) return;
  if (g_epoch != thread->epoch) {
    // A fork child has its own budget, and the parent's pause does not apply to it.
    const bool pauses = Watch() == TorchWatch::kPaused;
    StartAnew(thread);
    SetWatch(TorchWatch::kObserving);
    if (pauses) SetObservers(kRanges, g_handle_count, true);
    return;
  }
  if (AllAreAskedFor()) return RecordAll(thread);
  TorchProgress at = Progress();
  if (g_all) {
    g_all = false;
    SetRecording(thread, TorchRecording::kSampled);
    // The launcher may have requested all operations again and have read the old state as the reply.
    if (AllAreAskedFor()) return RecordAll(thread);
    SkipCost(&g_sampling, at, g_cost_before_all);
    step = false;
  } else if (!EndsUnit(&g_sampling, at, step)) {
    return;
  }
  __atomic_store_n(&g_unit_is_due, 0, __ATOMIC_RELAXED);
  const uint32_t weight = g_sampling.weight;
  at.busy = raw::ThreadCpuNs();
  const bool records = BeginUnit(&g_sampling, at, step);
  const uint32_t ended = kTorchUnitEnds | g_sampling.ended_class << kTorchClassShift;
  if (records && Watch() == TorchWatch::kPaused) return Resume(thread, g_sampling.weight, flags | ended);
  // Where all is recorded there is nothing to report.
  if (!records || weight != 1 || g_sampling.weight != 1) RecordSampling(thread, records ? g_sampling.weight : 0, ended);
  if (records) return;
  if (Watch() == TorchWatch::kObserving) Pause(thread);
  SetCounter(g_sampling.counted);
}

// Whether this thread may change PyTorch's list, as the one that leads or because that one is late. True: it has the
// turn.
bool MayChange(const ThreadState* thread, bool late) { return (late || LeadsTorch(thread)) && TakeTorchTurn(); }

// True in a fork child that is not recorded (--follow=none, or no free process slot): it has inherited PyTorch's list
// with the observers. Also true in a process in which recording was stopped.
bool ProcessRecordsNothing() { return __atomic_load_n(&g_fork_page->epoch, __ATOMIC_RELAXED) == kEpochRegistering; }

__attribute__((noinline)) void CallInVain() {
  const uint32_t calls = __atomic_add_fetch(&g_idle_calls, 1, __ATOMIC_RELAXED);
  if (calls < kIdleCalls) return;
  ThreadState* const thread = CurrentThread();
  const bool never = thread == nullptr && ProcessRecordsNothing();
  if ((thread == nullptr && !never) || !MayChange(thread, calls >= kLate * kIdleCalls)) return;
  const TorchWatch watch = Watch();
  if (watch == TorchWatch::kObserving || watch == TorchWatch::kPaused) {
    SetWatch(never ? TorchWatch::kOff : TorchWatch::kSilent);
    SetObservers(0, watch == TorchWatch::kPaused ? kRanges : g_handle_count, false);
    SetCounter(false);
    // The budget is forgotten: sampling starts anew in the next window.
    if (watch == TorchWatch::kPaused && !never) RecordPause(thread, false);
  }
  __atomic_store_n(&g_idle_calls, 0, __ATOMIC_RELAXED);
  EndTorchTurn();
}

// Whether the thread that leads, which normally ends the unit, is late.
bool IsLate(const TorchProgress& at) {
  const uint64_t operations = at.operations - g_sampling.operations_at_unit;
  return at.now - g_sampling.unit_since >= kLate * g_sampling.limit || operations / kLate >= g_sampling.most_operations;
}

// Called after each lot of operations, by any thread that records.
__attribute__((noinline)) void CountOperations(ThreadState* thread) {
  __atomic_add_fetch(&g_operations, kCountedAtOnce, __ATOMIC_RELAXED);
  if ((g_control->gpu_options & kTorchAll) != 0 || Watch() != TorchWatch::kObserving) return;
  const TorchProgress at = Progress();
  if (g_epoch == thread->epoch && (g_all ? AllAreAskedFor() : !IsOver(g_sampling, at))) return;
  __atomic_store_n(&g_unit_is_due, 1, __ATOMIC_RELAXED);
  // The thread that leads runs no operations, or has been in one for very long.
  if (!IsLate(at) || !MayChange(thread, true)) return;
  AtBorder(thread, false, kTorchMidway);
  EndTorchTurn();
}

// Called between operations: changes the list only on the thread that leads.
__attribute__((noinline)) void BetweenOperations(ThreadState* thread) {
  if (!MayChange(thread, false)) return;
  AtBorder(thread, false, 0);
  EndTorchTurn();
}

void BetweenSteps(ThreadState* thread) {
  if (!TakeTorchTurn()) return;
  AtBorder(thread, true, 0);
  EndTorchTurn();
}

bool IsSampled() { return (g_control->gpu_options & (kTorchOperations | kTorchAll)) == kTorchOperations; }

// Called by any thread that records: changes nothing in PyTorch's list.
__attribute__((noinline)) void NoticeThatAllAreAskedFor(ThreadState* thread) {
  if (!IsSampled() || !TakeTorchTurn()) return;
  if (Watch() == TorchWatch::kObserving) {
    if (g_epoch != thread->epoch) StartAnew(thread);
    RecordAll(thread);
  }
  EndTorchTurn();
}

// `enumerate(DataLoader)#...` begins: it gets the first batch of the next step, or one more batch of this step.
void AtLoader(ThreadState* thread) {
  if (!SetsTorchBorders(thread)) return;
  const bool next = g_optimizer_ended || ++g_batches > kMostBatchesOfStep;
  g_loader_since = true;
  g_optimizer_ended = false;
  if (next) BetweenSteps(thread);
}

// `Optimizer.step#...` has ended: the border. But if a loader ran since the last one, the next batch is the border.
void AtOptimizersEnd(ThreadState* thread) {
  if (!SetsTorchBorders(thread)) return;
  const bool next = !g_loader_since;
  g_optimizer_ended = !next;
  g_loader_since = false;
  g_batches = 0;
  if (next) BetweenSteps(thread);
}

bool BeginsWith(const char* name, const char* prefix) { return strncmp(name, prefix, strlen(prefix)) == 0; }

// A range that another thread may end, e.g. of a collective of c10d.
bool IsAsynchronous(const void* function) { return FieldOf<bool>(function, g_build->forward_thread + kAsynchronous); }

// -1: the operation takes no part in automatic differentiation.
int64_t SequenceOf(const void* function, TorchScope scope) {
  if (__atomic_load_n(&g_numbers_are_wrong, __ATOMIC_RELAXED)) return -1;
  const auto sequence = FieldOf<int64_t>(function, g_build->sequence);
  const uint32_t compared = __atomic_load_n(&g_numbers_to_compare, __ATOMIC_RELAXED);
  if (scope == TorchScope::kOperation && sequence >= 0 && compared > 0) {
    if (sequence != g_torch.peek()) {
      __atomic_store_n(&g_numbers_are_wrong, true, __ATOMIC_RELAXED);
      return -1;
    }
    __atomic_store_n(&g_numbers_to_compare, compared - 1, __ATOMIC_RELAXED);
  }
  return sequence;
}

// Records the reason why shapes are not recorded, or no longer recorded.
void RecordNoShapes(ThreadState* thread, const char* reason) {
  RecordProcessInfo(thread, ProcessInfoKey::kTorchShapes, reason, strlen(reason));
}

// The number of the text with the shapes of an operation's inputs; 0: none.
__attribute__((noinline)) uint64_t ShapesOf(ThreadState* thread, const void* function) {
  char text[160];
  if (WriteTorchShapes(g_shapes, function, text, sizeof(text)) > 0) return NameNumber(thread, text);
  // One thread records the reason; other threads may get here at the same time.
  if (TorchShapesAreWrong() && __atomic_exchange_n(&g_wants_shapes, false, __ATOMIC_RELAXED)) {
    RecordNoShapes(thread, "an input is not laid out as in this release");
  }
  return 0;
}

void Begin(const void* function, TorchScope scope) {
  ThreadState* const thread = CurrentThread();
  if (thread == nullptr) return ProcessRecordsNothing() ? CallInVain() : CountMissedWait();
  const char* const name = g_torch.name(function);
  if (scope == TorchScope::kUser) {
    if (IsSampled() && BeginsWith(name, kLoader)) AtLoader(thread);
  } else {
    if (++thread->torch_operations % kCountedAtOnce == 0) CountOperations(thread);
    if (__builtin_expect(AllAreAskedFor() && !g_all, 0)) NoticeThatAllAreAskedFor(thread);
  }
  AnnotationPayload payload{};
  if (scope == TorchScope::kUser) {
    thread->torch_thread = FieldOf<uint64_t>(function, g_build->thread);
    if (IsAsynchronous(function)) {
      payload.name = NameNumber(thread, name);
      return Annotate(thread, AnnotationAction::kStart, kTorchDomain, reinterpret_cast<uint64_t>(function),
                      static_cast<uint32_t>(scope), &payload);
    }
  }
  const int64_t sequence = scope == TorchScope::kUser ? -1 : SequenceOf(function, scope);
  if (sequence >= 0) {
    payload.type = PayloadType::kSigned;
    payload.bits = static_cast<uint64_t>(sequence);
    payload.name =
        FieldOf<uint64_t>(function, scope == TorchScope::kBackward ? g_build->forward_thread : g_build->thread);
  }
  if (scope == TorchScope::kOperation && __atomic_load_n(&g_wants_shapes, __ATOMIC_RELAXED)) {
    payload.shapes = ShapesOf(thread, function);
  }
  Annotate(thread, AnnotationAction::kPush, kTorchDomain, NameNumber(thread, name), static_cast<uint32_t>(scope),
           sequence >= 0 || payload.shapes != 0 ? &payload : nullptr);
}

template <TorchScope scope>
Context Start(const void* function) {
  if (scope != TorchScope::kUser) ++t_thread.torch_depth;
  if (Armed(kFamilyAnnotation)) {
    Begin(function, scope);
  } else {
    CallInVain();
  }
  return {};
}

template <TorchScope scope>
void End(const void* function, void*) {
  if (scope != TorchScope::kUser) --t_thread.torch_depth;
  if (!Armed(kFamilyAnnotation)) return;
  ThreadState* const thread = CurrentThread();
  if (thread == nullptr) return CountMissedWait();
  if (scope == TorchScope::kUser) {
    if (IsAsynchronous(function)) {
      return Annotate(thread, AnnotationAction::kEnd, kTorchDomain, reinterpret_cast<uint64_t>(function),
                      static_cast<uint32_t>(scope));
    }
    // The range was begun on another thread, so it is not this thread's innermost range.
    if (FieldOf<uint64_t>(function, g_build->thread) != thread->torch_thread) return;
  }
  Annotate(thread, AnnotationAction::kPop, kTorchDomain, 0, 0);
  if (scope == TorchScope::kUser) {
    if (IsSampled() && BeginsWith(g_torch.name(function), kOptimizer)) AtOptimizersEnd(thread);
  } else if (__builtin_expect(__atomic_load_n(&g_unit_is_due, __ATOMIC_RELAXED) != 0, 0) && thread->torch_depth == 0) {
    BetweenOperations(thread);
  }
}

// Called for one in kOneIn operations. Counts in a pause only: outside of a pause, Begin counts the operations.
Context StartCounted(const void*) {
  if (!Armed(kFamilyAnnotation)) {
    CallInVain();
    return {};
  }
  ThreadState* const thread = Watch() == TorchWatch::kPaused ? CurrentThread() : nullptr;
  if (thread == nullptr) return {};
  const bool of_parent = g_epoch != thread->epoch;
  const uint64_t skipped = __atomic_add_fetch(&g_skipped, 1, __ATOMIC_RELAXED);
  const uint64_t unrecorded = skipped - __atomic_load_n(&g_skipped_recorded, __ATOMIC_RELAXED);
  const bool is_due = unrecorded >= kRecordedAtLeast;
  const TorchProgress at = Progress();
  const bool over = of_parent || AllAreAskedFor() || IsOver(g_sampling, at);
  if (!is_due && !over) return {};
  if (over && MayChange(thread, IsLate(at))) {
    if (Watch() == TorchWatch::kPaused) AtBorder(thread, false, kTorchMidway);
    EndTorchTurn();
  } else if (is_due && !of_parent && TakeTorchTurn()) {
    if (Watch() == TorchWatch::kPaused) RecordSampling(thread, 0, 0);
    EndTorchTurn();
  }
  return {};
}
void EndCounted(const void*, void*) {}

uint64_t AddCounter() {
  Callback callback{StartCounted, EndCounted, 1.0 / kOneIn, {}, false, false, false};
  callback.scopes[kFunction] = callback.scopes[kBackwardFunction] = true;
  return g_torch.add_global_callback(callback);
}

template <TorchScope torch_scope>
void Add(Scope scope) {
  Callback callback{Start<torch_scope>, End<torch_scope>, 1, {}, false, false, false};
  callback.scopes[scope] = true;
  callback.needs_inputs = torch_scope == TorchScope::kOperation && g_wants_shapes;
  g_handles[g_handle_count++] = g_torch.add_global_callback(callback);
}

template <typename Function>
bool Find(const link_map* object, Function* function, const char* name) {
  *function = reinterpret_cast<Function>(SymbolOf(object, name));
  return *function != nullptr;
}

// Records what the profile reports about PyTorch: `+2.13.0` observed, `-2.14.0 REASON` not observed.
__attribute__((noinline)) void ReportBuild(ThreadState* thread, char sign, const char* version, const char* reason) {
  char text[128];
  size_t length = 0;
  text[length++] = sign;
  const char* const parts[] = {version, reason[0] == '\0' ? "" : " ", reason};
  for (const char* part : parts) {
    const size_t size = strlen(part);
    if (length + size > sizeof(text)) break;
    memcpy(text + length, part, size);
    length += size;
  }
  RecordProcessInfo(thread, ProcessInfoKey::kTorch, text, length);
}

// `allocator`: libc10.
void PrepareShapes(ThreadState* thread, const link_map* object, const link_map* allocator) {
  constexpr uint32_t kAsked = kTorchOperations | kTorchShapes;
  if ((g_control->gpu_options & kAsked) != kAsked) return;
  g_shapes.inputs = g_build->sequence + kInputs;
  g_shapes.sizes = g_build->sizes;
  g_wants_shapes = Find(object, &g_shapes.count, "_ZNK2at14RecordFunction10num_inputsEv") &&
                   Find(object, &g_shapes.size, "_ZN2at6native4sizeERKNS_6TensorEl") &&
                   Find(allocator, &g_shapes.undefined, "_ZN3c1019UndefinedTensorImpl10_singletonE");
  if (!g_wants_shapes) RecordNoShapes(thread, "it lacks a function that returns them");
}

__attribute__((noinline)) TorchWatch Observe(ThreadState* thread, const link_map* object, const link_map* allocator) {
  char version[48] = "of unknown version";
  g_build = FindTorchBuild(object, version, sizeof(version));
  if (g_build == nullptr) {
    ReportBuild(thread, '-', version, "is not a tested build");
    return TorchWatch::kOff;
  }
  if (!Find(object, &g_torch.add_global_callback, "_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE") ||
      !Find(object, &g_torch.disable_callback, "_ZN2at15disableCallbackEm") ||
      !Find(object, &g_torch.enable_callback, "_ZN2at16reenableCallbackEm") ||
      !Find(object, &g_torch.name, "_ZNK2at14RecordFunction4nameEv") ||
      !Find(object, &g_torch.peek, "_ZN2at15sequence_number4peekEv")) {
    ReportBuild(thread, '-', version, "has no observers");
    return TorchWatch::kOff;
  }
  ReportBuild(thread, '+', version, "");
  const SegmentHeader* const header = g_attachment.segment.header;
  const uint64_t since_attach_us = (ReadMonotonic() - header->attach_monotonic_ns) / 1000;
  g_ticks_per_ms = (Ticks() - header->attach_ticks) * 1000 / (since_attach_us + 1);
  if (g_ticks_per_ms == 0) g_ticks_per_ms = 1;
  PrepareShapes(thread, object, allocator);
  Add<TorchScope::kUser>(kUserScope);
  if ((g_control->gpu_options & kTorchOperations) != 0) {
    Add<TorchScope::kOperation>(kFunction);
    Add<TorchScope::kBackward>(kBackwardFunction);
  }
  if (IsSampled()) StartAnew(thread);
  return TorchWatch::kObserving;
}

// Callers that are not PyTorch. In a program with very many such callers, each call looks up its caller.
constexpr uint32_t kOthers = 64;
uint64_t g_others[kOthers];
constexpr uint32_t kMostLooks = 4096;
uint32_t g_looks;
// After so many tensors of other threads one of them looks: the main thread makes none, or will make them later.
constexpr uint32_t kElsewhere = 64;
uint32_t g_elsewhere;

bool MayLook(const ThreadState* thread) {
  return LeadsTorch(thread) || __atomic_add_fetch(&g_elsewhere, 1, __ATOMIC_RELAXED) >= kElsewhere;
}

}  // namespace

__attribute__((noinline)) void LookForTorch(const void* caller) {
  // In a pause this goes on only if all operations were requested, or in a fork child, which starts anew.
  if (Watch() == TorchWatch::kPaused && !AllAreAskedFor() && !IsOfParent()) return;
  const auto address = reinterpret_cast<uint64_t>(caller);
  uint64_t* const other = &g_others[(address >> 4) % kOthers];
  if (__atomic_load_n(other, __ATOMIC_RELAXED) == address) return;
  if (!IsNamed(ObjectAt(caller), "libc10.so")) return __atomic_store_n(other, address, __ATOMIC_RELAXED);
  ThreadState* const thread = CurrentThread();
  if (thread == nullptr || !MayLook(thread) || !TakeTorchTurn()) return;
  TorchWatch watch = Watch();
  if (watch == TorchWatch::kSilent) {
    StartAnew(thread);
    SetWatch(watch = TorchWatch::kObserving);
    SetObservers(0, g_handle_count, true);
    if (AllAreAskedFor()) RecordAll(thread);
  } else if (watch == TorchWatch::kPaused) {
    AtBorder(thread, false, kTorchMidway);
    watch = Watch();
  } else if (watch == TorchWatch::kLooking) {
    if ((g_control->gpu_options & kTorch) == 0) {
      watch = TorchWatch::kOff;
    } else if (const link_map* const object = LibraryOnStack(thread, __builtin_frame_address(0), "libtorch_cpu.so");
               object != nullptr) {
      watch = Observe(thread, object, ObjectAt(caller));
    } else if (++g_looks == kMostLooks) {
      ReportBuild(thread, '-', "of unknown version", "was not found on the stack of its allocator");
      watch = TorchWatch::kOff;
    }
  }
  SetWatch(watch);
  EndTorchTurn();
}

}  // namespace tbprof
