// SPDX-License-Identifier: Apache-2.0
//
// The library's state: the segment of this process, and the calling thread's place in the segment.
//
//   if (!Armed(kFamilyIo)) return g_real.read(...);   // a load and a branch while no window is open
//   ThreadState* thread = CurrentThread();            // null: nothing can be recorded now
//
// Process: target, any thread, any signal handler, fork children, before main and after exit. Rules: RULES.md.
#ifndef TBPROF_PRELOAD_STATE_H_
#define TBPROF_PRELOAD_STATE_H_

#include <pthread.h>
#include <stdint.h>

#include "wire/chunk.h"
#include "wire/rendezvous.h"
#include "wire/segment.h"

namespace tbprof {

// Lies on a page that the kernel zeroes in every fork child, also after a raw clone: so a child detects without a
// system call that it is one. 0: not attached, or a child that has not registered yet.
struct ForkPage {
  uint32_t epoch;  // the process serial in the segment
  uint32_t process_slot;
};
inline constexpr uint32_t kEpochRegistering =
    0xffffffff;                                     // value in the page while a child registers or after it was refused
inline constexpr uint32_t kEpochNone = 0xfffffffe;  // value in a thread that is not registered

struct Attachment {
  Segment segment;  // valid when `attached`
  bool attached;
  bool own_process_only;  // --follow=none: fork children stay unregistered
  ClockKind clock;
  pthread_key_t exit_key;
  bool has_exit_key;
  bool has_allocator;  // the program's malloc is this library's hook
  uint64_t default_stack_bytes;
  uint64_t main_stack_top;
};
extern __attribute__((visibility("hidden"))) Attachment g_attachment;
// The values that the launcher set; valid when attached. Values that the launcher changes later are in the segment's
// header.
extern __attribute__((visibility("hidden"))) SessionVariable g_session;
extern __attribute__((visibility("hidden"))) ForkPage* g_fork_page;  // never null
extern __attribute__((visibility("hidden")))
uint32_t g_serial;  // of the process that attached; fork children keep this value
extern __attribute__((visibility("hidden")))
const SegmentHeader* g_control;  // never null: a header that arms nothing until attached
// Like g_control, for the allocator hooks: a header that arms nothing if the allocator is not to be recorded.
extern __attribute__((visibility("hidden"))) const SegmentHeader* g_allocator_control;

enum class ThreadPhase : uint8_t {
  kUnregistered = 0,
  kRegistering,
  kLive,
  kEnded,    // past its last destructor: only counted
  kRefused,  // no slot was free; tries again now and then
  kOwn,      // the library's own thread, or a thread inside a call that the library makes
};

struct WaitScope;  // record.h

// A PythonStack record of a thread (python.h).
struct KnownPythonStack {
  uint64_t hash;  // of its frames; 0: none
  uint64_t ticks;
  uint32_t number;
};
inline constexpr uint32_t kKnownPythonStacks = 32;

// Domains whose open ranges each thread counts.
inline constexpr uint16_t kCountedDomains = 16;

struct ThreadState {
  uint32_t epoch;  // == g_fork_page->epoch: registered in this process
  ThreadPhase phase;
  uint8_t exit_rounds;
  uint16_t refused;
  ChunkWriter writer;
  int64_t bytes_until_sample;
  int64_t sample_interval;  // mean with which the current sampling distance was drawn
  int64_t unflushed_live;   // bytes that are not in the process's live bytes yet
  // Allocation records until the next one has a timestamp. Below 0 if a signal handler used the last one between a test
  // and the subtraction after it.
  int32_t until_stamp;
  uint64_t random;
  uint64_t stack_low;  // [stack_low, stack_top) is certainly readable down to the stack pointer
  uint64_t stack_top;
  // Set by the creating thread, for the ThreadStart record.
  uint64_t start_routine;
  uint64_t created_ticks;
  uint32_t creator_serial;
  WaitScope* waiting;  // the innermost wait, on this thread's stack
  uint16_t annotation_levels[kCountedDomains];
  uint16_t torch_level, tensorflow_level;  // likewise for kTorchDomain and kTensorFlowDomain
  uint32_t torch_operations;
  uint32_t torch_depth;   // how many of PyTorch's observed operations are running
  uint64_t torch_thread;  // PyTorch's number of this thread, set at its first range
  int64_t live_at_fork;   // the process's live bytes when this thread last forked
  bool has_live_at_fork;  // live_at_fork is still to be used by the child
  // Number of ranges that are open in the domain of a range that opens a window (triggers.h), including that range; 0:
  // that range is not open.
  uint32_t waited_for_depth;
  uint16_t waited_for_domain;
  uint64_t python_stack_count;    // number of PythonStack records so far
  uint64_t cuda_stack_ticks;      // when the last stack of a CUDA driver call was recorded
  uint32_t current_python_stack;  // the last one recorded as the current stack (wire/python_current.h); 0: none
  KnownPythonStack python_stacks[kKnownPythonStacks];
};

// Part of the initial TLS block: never allocated on first use, one segment-relative load.
extern __thread ThreadState t_thread __attribute__((tls_model("initial-exec")));

inline uint64_t Ticks() { return ReadTicks(g_attachment.clock); }

inline bool Armed(uint32_t family) {
  return __builtin_expect((__atomic_load_n(&g_control->control, __ATOMIC_RELAXED) & family) != 0, 1);
}

inline bool AllocatorArmed() {
  return __builtin_expect((__atomic_load_n(&g_allocator_control->control, __ATOMIC_RELAXED) & kFamilyMalloc) != 0, 1);
}

ThreadState* CurrentThreadSlow(ThreadState* thread);

// Registers a fork child. Called in the child before anything else.
void EnterForkChild();

// Whether CurrentThread() returns `thread` without the slow path.
inline bool IsCurrent(const ThreadState* thread) {
  return thread->epoch == __atomic_load_n(&g_fork_page->epoch, __ATOMIC_ACQUIRE);
}

inline ThreadState* CurrentThread() {
  ThreadState* thread = &t_thread;
  if (__builtin_expect(IsCurrent(thread), 1)) return thread;
  return CurrentThreadSlow(thread);
}

// Counts the reason why no record can be made of a wait.
void CountMissedWait();

// Registers the library's own thread: it gets a slot and a writer, and no hook records into them.
bool RegisterOwnThread(ThreadState* thread);

// Ends the recording of this thread: releases its chunk and its slot. Called by the exit key's destructor.
void EndThread(ThreadState* thread);

// Adds the thread's unflushed bytes to the process's live bytes and raises the peak. Returns the process's live bytes.
int64_t FlushLiveBytes(ThreadState* thread);

// Notes the live bytes at a fork: the child starts with its parent's blocks.
void NoteLiveBytesBeforeFork();

// Stops recording in this process for good; the profile shows `cause`.
void StopRecording(const char* cause);

// Claims a process slot; its index in *slot. False: none free.
bool ClaimProcessSlot(uint32_t parent_serial, int64_t live_bytes, uint32_t* slot, uint32_t* serial);

}  // namespace tbprof

#endif  // TBPROF_PRELOAD_STATE_H_
