// SPDX-License-Identifier: Apache-2.0
//
// Writes records: spans of calls that take time, texts, starts and exits of threads.
//
//   WaitScope wait;
//   BeginWait(&wait, kOp_read, fd, __builtin_return_address(0));
//   ssize_t result = g_real.read(fd, data, size);
//   EndWait(&wait, result, result < 0 ? errno : 0);
//
// Process: target, any thread, any signal handler. Rules: RULES.md.
#ifndef TBPROF_PRELOAD_RECORD_H_
#define TBPROF_PRELOAD_RECORD_H_

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/hooks.h"
#include "preload/state.h"
#include "wire/records.h"

namespace tbprof {

struct WaitScope {
  ThreadState* thread;  // null: not recorded
  uint64_t start;
  uint64_t object;
  uint64_t call_site;
  uint16_t operation;
  uint8_t counted_as;  // CountedKind
  WaitScope* outer;    // the wait that the current signal handler has interrupted
};

// The wait that this thread was in before `wait`; null: none. A scope that was left other than by a return or a longjmp
// (an exception out of a signal handler) does not count: its frame is below this one, or was overwritten.
inline WaitScope* InterruptedWait(const ThreadState* thread, const WaitScope* wait) {
  WaitScope* const outer = thread->waiting;
  const auto outer_at = reinterpret_cast<uint64_t>(outer), here = reinterpret_cast<uint64_t>(wait);
  // Memory in the thread's own stack stays readable; a coroutine's stack may be unmapped.
  if (outer_at < thread->stack_low || outer_at >= thread->stack_top) return nullptr;
  const bool elsewhere = here < thread->stack_low || here >= thread->stack_top;  // on an alternate signal stack
  if (!elsewhere && outer_at <= here) return nullptr;
  const uint64_t since = __atomic_load_n(&thread->writer.thread->wait_since, __ATOMIC_RELAXED);
  return since != 0 && outer->thread == thread && outer->start == since ? outer : nullptr;
}

inline void PublishWait(const WaitScope& wait, uint32_t resumed) {
  // The launcher reads this at a hang or at the end of a window. wait_since is stored last: a reader that sees it sees
  // the other fields.
  ThreadSlot* slot = wait.thread->writer.thread;
  slot->wait_object = wait.object;
  slot->wait_site = wait.call_site;
  slot->wait_operation = wait.operation;
  slot->wait_resumed = resumed;
  __atomic_store_n(&slot->wait_since, wait.start, __ATOMIC_RELEASE);
}

// Records a span, with a Python stack if the call took long enough or if `with_python`.
void RecordSpan(ThreadState* thread, const WaitScope& wait, uint64_t ticks, int64_t result, int error,
                bool with_python = false);

inline void CountMade(ThreadState* thread, uint32_t kind) {
  AddThisThread(&thread->writer.thread->made[kind], uint64_t{1});
}
inline void CountNoRoom(ThreadState* thread, uint32_t kind) {
  AddThisThread(&thread->writer.thread->no_room[kind], uint64_t{1});
}
// Counts the published wait as a call that will not return, as far as is known.
void CountLeft(ThreadState* thread);

inline void BeginWait(WaitScope* wait, uint16_t operation, uint8_t counted_as, uint64_t object, const void* call_site) {
  wait->thread = CurrentThread();
  if (__builtin_expect(wait->thread == nullptr, 0)) {
    CountMissedWait();
    return;
  }
  CountMade(wait->thread, counted_as);
  wait->operation = operation;
  wait->counted_as = counted_as;
  wait->object = object;
  wait->call_site = reinterpret_cast<uint64_t>(call_site);
  wait->start = Ticks();
  wait->outer = nullptr;
  if (__builtin_expect(wait->thread->waiting != nullptr, 0)) {
    wait->outer = InterruptedWait(wait->thread, wait);
    if (wait->outer == nullptr) CountLeft(wait->thread);
  }
  PublishWait(*wait, 0);
  SignalFence();
  wait->thread->waiting = wait;
}

inline void BeginWait(WaitScope* wait, uint16_t operation, uint64_t object, const void* call_site) {
  BeginWait(wait, operation, kCountedAs[operation], object, call_site);
}

// `error`: 0, or the error number of a call that failed. Does not change errno.
inline void EndWait(WaitScope* wait, int64_t result, int error) {
  ThreadState* thread = wait->thread;
  if (thread == nullptr) return;
  // The call may have been fork, so this may be another process; or the thread may have ended in a signal handler.
  if (__builtin_expect(thread->epoch != g_fork_page->epoch, 0)) return;
  const uint64_t ticks = Ticks() - wait->start;
  ThreadSlot* slot = thread->writer.thread;
  thread->waiting = wait->outer;
  SignalFence();
  if (__builtin_expect(wait->outer != nullptr, 0)) {
    PublishWait(*wait->outer, 1);
  } else {
    __atomic_store_n(&slot->wait_since, 0, __ATOMIC_RELAXED);
  }
  if (ticks < __atomic_load_n(&g_control->wait_threshold_ticks, __ATOMIC_RELAXED)) {
    CallCount* count = &slot->short_calls[wait->operation];
    ++count->calls;
    count->ticks += ticks;
    return;
  }
  RecordSpan(thread, *wait, ticks, result, error);
}

// BeginWait and EndWait for the many hooks whose real call costs more than two function calls. Not inlined, so that the
// part of the library that a fork child touches fits into one window that the kernel maps (CMakeLists.txt).
// `operation`: has the CountedKind from bit 16 on.
void BeginTimedAs(WaitScope* wait, uint32_t operation, uint64_t object, const void* call_site);
inline void BeginTimed(WaitScope* wait, uint16_t operation, uint64_t object, const void* call_site) {
  BeginTimedAs(wait, operation | uint32_t{kCountedAs[operation]} << 16, object, call_site);
}
void EndTimed(WaitScope* wait, int64_t result, int error);

void RecordThreadStart(ThreadState* thread, const ThreadSlot* slot, uint8_t flags);
void RecordThreadExit(ThreadState* thread);
// `tid` != 0: the name is another thread's.
void RecordThreadName(ThreadState* thread, const char* name, size_t length, int tid);
void RecordProcessInfo(ThreadState* thread, ProcessInfoKey key, const char* text, size_t length);
// `flags`: RecordFlag; `pid`: with kRecordSpawned.
void RecordExec(ThreadState* thread, uint16_t operation, const char* path, size_t length, uint8_t flags, int32_t pid);

// The calling thread has given itself this name, which is readable up to the 15 bytes that the kernel keeps.
void NoteOwnName(const char* name);

// Draws the distance to the next sample: exponentially distributed with mean malloc_interval, so that each byte is
// equally likely to be sampled. Sets the thread's sample_interval to this mean: the launcher changes malloc_interval,
// and a sample stands for the mean distance with which it was drawn.
int64_t NextSampleDistance(ThreadState* thread);

size_t TextLength(const char* text, size_t limit);

}  // namespace tbprof

#endif  // TBPROF_PRELOAD_RECORD_H_
