// SPDX-License-Identifier: Apache-2.0
// Registration of processes and threads. Rules: RULES.md.
#include "preload/state.h"
#include "preload/hooks.h"
#include "preload/record.h"
#include "preload/triggers.h"
#include "wire/raw.h"

namespace tbprof {
namespace {

ForkPage g_no_fork_page;
SegmentHeader g_nothing_armed;

// glibc keeps the values of the first 32 keys in the thread's descriptor; for later ones pthread_setspecific allocates.
constexpr pthread_key_t kKeysWithoutAllocation = 32;
constexpr uint16_t kRefusedSkip = 1024;

void Count(DropCause cause) { __atomic_fetch_add(&g_attachment.segment.header->dropped[cause], 1, __ATOMIC_RELAXED); }

void RaiseHigh(uint32_t* high, uint32_t to) {
  uint32_t now = __atomic_load_n(high, __ATOMIC_RELAXED);
  while (now < to && !__atomic_compare_exchange_n(high, &now, to, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
  }
}

// A fork child has no page of the segment mapped. If its first access is a write, the kernel maps one page; if it is a
// read, the kernel maps all pages around it, which the child's end has to unmap again.
bool ClaimSlot(uint32_t* state, bool likely_free) {
  uint32_t expected = static_cast<uint32_t>(SlotState::kFree);
  if (!likely_free && __atomic_load_n(state, __ATOMIC_RELAXED) != expected) return false;
  return __atomic_compare_exchange_n(state, &expected, static_cast<uint32_t>(SlotState::kClaimed), false,
                                     __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

ThreadSlot* ClaimThreadSlot(uint32_t* index) {
  const Segment& segment = g_attachment.segment;
  uint32_t at = __atomic_load_n(&segment.header->thread_hint, __ATOMIC_RELAXED);
  for (uint32_t tried = 0; tried < kThreadSlots; ++tried, ++at) {
    if (at >= kThreadSlots) at = 0;
    ThreadSlot* slot = &segment.thread_slots[at];
    if (!ClaimSlot(&slot->state, tried == 0)) continue;
    __atomic_store_n(&segment.header->thread_hint, at + 1, __ATOMIC_RELAXED);
    RaiseHigh(&segment.header->thread_high, at + 1);
    *index = at;
    return slot;
  }
  return nullptr;
}

// Finds the parent of a process that an unregistered thread, or a raw system call, has made.
const ProcessSlot* FindParent() {
  const Segment& segment = g_attachment.segment;
  const auto pid = static_cast<int32_t>(raw::Call(SYS_getppid));
  const uint32_t high = __atomic_load_n(&segment.header->process_high, __ATOMIC_RELAXED);
  for (uint32_t i = 0; i < high && i < kProcessSlots; ++i) {
    const ProcessSlot* slot = &segment.process_slots[i];
    if (__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) == static_cast<uint32_t>(SlotState::kLive) &&
        slot->pid == pid) {
      return slot;
    }
  }
  return nullptr;
}

// Registers a fork child, in the first thread that gets here. False: this process records nothing.
bool RegisterForkChild(ThreadState* thread) {
  uint32_t none = 0;
  if (!__atomic_compare_exchange_n(&g_fork_page->epoch, &none, kEpochRegistering, false, __ATOMIC_ACQUIRE,
                                   __ATOMIC_RELAXED)) {
    return none != kEpochRegistering;
  }
  if (g_attachment.own_process_only) return false;  // the page keeps kEpochRegistering, as below
  uint32_t parent_serial = g_serial;
  int64_t live = 0;
  if (thread->has_live_at_fork) {
    parent_serial = thread->writer.process_serial;
    live = thread->live_at_fork;
  } else if (const ProcessSlot* parent = FindParent(); parent != nullptr) {
    parent_serial = parent->serial;
    live = __atomic_load_n(&parent->live_bytes, __ATOMIC_RELAXED);
  }
  uint32_t slot, serial;
  if (!ClaimProcessSlot(parent_serial, live, &slot, &serial)) {
    Count(kDropNoProcessSlot);
    return false;  // the page keeps kEpochRegistering: no thread of this process tries again
  }
  g_fork_page->process_slot = slot;
  __atomic_store_n(&g_fork_page->epoch, serial, __ATOMIC_RELEASE);
  return true;
}

}  // namespace

Attachment g_attachment;
SessionVariable g_session;
ForkPage* g_fork_page = &g_no_fork_page;
uint32_t g_serial;
const SegmentHeader* g_control = &g_nothing_armed;
const SegmentHeader* g_allocator_control = &g_nothing_armed;
// No registered thread has this epoch, so that the comparison fails before the library is attached.
__thread ThreadState t_thread = {.epoch = kEpochNone};

bool ClaimProcessSlot(uint32_t parent_serial, int64_t live_bytes, uint32_t* index, uint32_t* serial) {
  const Segment& segment = g_attachment.segment;
  // Precedes the first read of the header: see ClaimSlot.
  const uint32_t new_serial = __atomic_fetch_add(&segment.header->next_process_serial, 1, __ATOMIC_RELAXED);
  uint32_t i = __atomic_load_n(&segment.header->process_hint, __ATOMIC_RELAXED);
  for (uint32_t tried = 0; tried < kProcessSlots; ++tried, ++i) {
    if (i >= kProcessSlots) i = 0;
    ProcessSlot* slot = &segment.process_slots[i];
    if (!ClaimSlot(&slot->state, tried == 0)) continue;
    __atomic_store_n(&segment.header->process_hint, i + 1, __ATOMIC_RELAXED);
    RaiseHigh(&segment.header->process_high, i + 1);
    slot->serial = new_serial;
    slot->parent_serial = parent_serial;
    slot->pid = raw::GetPid();
    slot->parent_pid = static_cast<int32_t>(raw::Call(SYS_getppid));
    slot->flags = 0;
    slot->start_ticks = Ticks();
    slot->live_bytes = live_bytes;
    slot->peak_bytes = live_bytes;
    slot->inherited_bytes = live_bytes;
    slot->start_cost = 0;
    slot->ranges_open = 0;
    slot->gpu_state = static_cast<uint32_t>(GpuState::kNone);
    slot->gpu_flush_requested = slot->gpu_flush_done = 0;
    slot->gpu_held_since = 0;
    slot->torch_recording = static_cast<uint32_t>(TorchRecording::kNone);
    slot->late_frees = slot->late_freed_bytes = slot->late_allocations = slot->late_allocated_bytes = 0;
    __atomic_store_n(&slot->state, static_cast<uint32_t>(SlotState::kLive), __ATOMIC_RELEASE);
    *index = i;
    *serial = slot->serial;
    return true;
  }
  return false;
}

namespace {

// The launcher zeroes a slot before it frees it; the counters start at 0.
void FillThreadSlot(ThreadSlot* slot, uint32_t process_serial, uint32_t creator_serial, uint64_t start_routine) {
  slot->process_serial = process_serial;
  slot->process_slot = g_fork_page->process_slot;
  slot->tid = raw::GetTid();
  slot->start_ticks = Ticks();
  slot->creator_serial = creator_serial;
  slot->start_routine = start_routine;
  slot->serial = __atomic_fetch_add(&g_attachment.segment.header->next_thread_serial, 1, __ATOMIC_RELAXED);
  __atomic_store_n(&slot->state, static_cast<uint32_t>(SlotState::kLive), __ATOMIC_RELEASE);
}

}  // namespace

bool RegisterOwnThread(ThreadState* thread) {
  uint32_t index;
  ThreadSlot* slot = ClaimThreadSlot(&index);
  if (slot == nullptr) return false;
  const uint32_t epoch = g_fork_page->epoch;
  FillThreadSlot(slot, epoch, 0, 0);
  ResetChunkWriter(&thread->writer, slot, index, epoch);
  RecordThreadStart(thread, slot, kRecordOwn);
  return true;
}

__attribute__((noinline)) ThreadState* CurrentThreadSlow(ThreadState* thread) {
  if (!g_attachment.attached) return nullptr;
  uint32_t epoch = __atomic_load_n(&g_fork_page->epoch, __ATOMIC_ACQUIRE);
  if (epoch == kEpochRegistering) return nullptr;
  const bool forked = epoch == 0;
  uint64_t begun = 0;
  if (forked) {
    begun = Ticks();
    if (!RegisterForkChild(thread)) return nullptr;
    epoch = __atomic_load_n(&g_fork_page->epoch, __ATOMIC_ACQUIRE);
  } else if (thread->phase == ThreadPhase::kEnded || thread->phase == ThreadPhase::kRegistering ||
             thread->phase == ThreadPhase::kOwn) {
    return nullptr;
  } else if (thread->phase == ThreadPhase::kRefused && thread->refused > 0) {
    --thread->refused;
    return nullptr;
  }
  // The child's thread inherits the state of the thread that forked.
  const bool inherited = forked && thread->phase == ThreadPhase::kLive && thread->exit_rounds == 0;
  thread->phase = ThreadPhase::kRegistering;
  uint32_t index;
  ThreadSlot* slot = ClaimThreadSlot(&index);
  if (slot == nullptr) {
    thread->phase = ThreadPhase::kRefused;
    thread->refused = kRefusedSkip;
    return nullptr;
  }
  const Segment& segment = g_attachment.segment;
  FillThreadSlot(slot, epoch, forked ? 0 : thread->creator_serial, forked ? 0 : thread->start_routine);

  ResetChunkWriter(&thread->writer, slot, index, epoch);
  thread->unflushed_live = 0;
  thread->has_live_at_fork = false;
  thread->waiting = nullptr;
  thread->waited_for_depth = 0;  // the parent's range is not the fork child's
  thread->exit_rounds = 0;
  thread->current_python_stack = 0;
  thread->random = slot->start_ticks ^ static_cast<uint64_t>(slot->serial) << 32 ^ 0x9e3779b97f4a7c15;
  if (!inherited) thread->bytes_until_sample = NextSampleDistance(thread);
  if (thread->stack_top == 0 && slot->tid == raw::GetPid()) {
    thread->stack_top = g_attachment.main_stack_top;
    thread->stack_low = thread->stack_top - g_attachment.default_stack_bytes;
  }
  SignalFence();
  thread->epoch = epoch;
  thread->phase = ThreadPhase::kLive;
  if (!inherited && g_attachment.has_exit_key && g_attachment.exit_key < kKeysWithoutAllocation) {
    pthread_setspecific(g_attachment.exit_key, thread);
  }
  // A fork child's slots have all the facts of a ThreadStart record. Most fork children exec or exit at once: without a
  // record they need no chunk.
  if (!forked) {
    RecordThreadStart(thread, slot, 0);
  } else {
    segment.process_slots[slot->process_slot].start_cost = static_cast<uint32_t>(Ticks() - begun);
  }
  return thread;
}

void EnterForkChild() {
  if (!g_attachment.attached) return;
  // The first access is a write: a read would first map a zero page, which the write would replace, so there would be
  // two faults.
  *const_cast<volatile uint32_t*>(&g_fork_page->process_slot) = 0;
  CurrentThread();
}

__attribute__((noinline)) void CountMissedWait() {
  if (!g_attachment.attached) return;
  if (t_thread.phase == ThreadPhase::kEnded) Count(kDropThreadEnding);
  if (t_thread.phase == ThreadPhase::kRefused) Count(kDropNoThreadSlot);
}

int64_t FlushLiveBytes(ThreadState* thread) {
  const int64_t add = thread->unflushed_live;
  AddThisThread(&thread->unflushed_live, -add);
  ProcessSlot* process = &g_attachment.segment.process_slots[thread->writer.thread->process_slot];
  const int64_t live = __atomic_add_fetch(&process->live_bytes, add, __ATOMIC_RELAXED);
  int64_t peak = __atomic_load_n(&process->peak_bytes, __ATOMIC_RELAXED);
  while (live > peak &&
         !__atomic_compare_exchange_n(&process->peak_bytes, &peak, live, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return live;
}

void NoteLiveBytesBeforeFork() {
  ThreadState* thread = &t_thread;
  if (!g_attachment.attached || CurrentThread() == nullptr) {
    thread->has_live_at_fork = false;
    return;
  }
  const ProcessSlot* process = &g_attachment.segment.process_slots[thread->writer.thread->process_slot];
  thread->live_at_fork = __atomic_load_n(&process->live_bytes, __ATOMIC_RELAXED) + thread->unflushed_live;
  thread->has_live_at_fork = true;
}

void StopRecording(const char* cause) {
  if (!g_attachment.attached) return;
  if (ThreadState* thread = CurrentThread(); thread != nullptr) {
    RecordProcessInfo(thread, ProcessInfoKey::kStopped, cause, TextLength(cause, 64));
    FlushLiveBytes(thread);
    thread->writer.thread->wait_since = 0;
  }
  // Hooks that are in progress, in other threads or interrupted by this one, find that they belong to no process.
  __atomic_store_n(&g_control, &g_nothing_armed, __ATOMIC_RELEASE);
  __atomic_store_n(&g_allocator_control, &g_nothing_armed, __ATOMIC_RELEASE);
  g_attachment.attached = false;
  __atomic_store_n(&g_fork_page->epoch, kEpochRegistering, __ATOMIC_RELEASE);
}

void EndThread(ThreadState* thread) {
  if (thread->phase != ThreadPhase::kLive || thread->epoch != g_fork_page->epoch) return;
  ThreadSlot* slot = thread->writer.thread;
  RecordThreadExit(thread);
  if (thread->waited_for_depth != 0) EndWaitedFor();
  FlushLiveBytes(thread);
  thread->phase = ThreadPhase::kEnded;
  thread->epoch = kEpochNone;  // from here on CurrentThread is null
  SignalFence();
  ReleaseChunk(g_attachment.segment, &thread->writer);
  CountLeft(thread);
  slot->wait_since = 0;
  slot->end_ticks = Ticks();
  __atomic_store_n(&slot->state, static_cast<uint32_t>(SlotState::kExited), __ATOMIC_RELEASE);
  __atomic_fetch_add(&g_attachment.segment.header->threads_exited, 1, __ATOMIC_RELEASE);
}

}  // namespace tbprof
