// SPDX-License-Identifier: Apache-2.0
// Hooks on the creation and naming of threads. Rules: RULES.md.
#include "preload/hooks.h"
#include "preload/record.h"

namespace tbprof {
namespace {

// The arguments of a new thread, in a static pool because the hook must not allocate. The creator takes a block, and
// the new thread returns it first of all. If the pool is empty, a thread starts without it and registers at its first
// record.
struct StartBlock {
  uint32_t used;
  void* (*routine)(void*);
  void* argument;
  uint64_t created_ticks;
  uint32_t creator_serial;
  uint64_t stack_bytes;
};
constexpr uint32_t kStartBlocks = 512;
StartBlock g_start_blocks[kStartBlocks];
uint32_t g_start_hint;

StartBlock* TakeStartBlock() {
  uint32_t at = __atomic_fetch_add(&g_start_hint, 1, __ATOMIC_RELAXED);
  for (uint32_t i = 0; i < kStartBlocks; ++i, ++at) {
    StartBlock* block = &g_start_blocks[at % kStartBlocks];
    uint32_t free = 0;
    if (__atomic_load_n(&block->used, __ATOMIC_RELAXED) == 0 &&
        __atomic_compare_exchange_n(&block->used, &free, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
      return block;
    }
  }
  return nullptr;
}

void* StartThread(void* argument) {
  auto* block = static_cast<StartBlock*>(argument);
  void* (*const routine)(void*) = block->routine;
  void* const routine_argument = block->argument;
  ThreadState* thread = &t_thread;
  thread->start_routine = reinterpret_cast<uint64_t>(routine);
  thread->created_ticks = block->created_ticks;
  thread->creator_serial = block->creator_serial;
  const auto here = reinterpret_cast<uint64_t>(__builtin_frame_address(0));
  thread->stack_top = here;
  // The guard and the TLS block are part of the stack's size. A quarter of the size is certainly readable below this
  // frame, and is enough.
  thread->stack_low = here - block->stack_bytes / 4;
  __atomic_store_n(&block->used, 0, __ATOMIC_RELEASE);
  if (Armed(kFamilyThread)) CurrentThread();
  return routine(routine_argument);
}

}  // namespace

int Hook_pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*routine)(void*), void* argument) {
  TBPROF_RESOLVED(pthread_create);
  if (!Armed(kFamilyThread)) return g_real.pthread_create(thread, attributes, routine, argument);
  WaitScope wait;
  BeginWait(&wait, kOp_pthread_create, 0, __builtin_return_address(0));
  StartBlock* block = wait.thread == nullptr ? nullptr : TakeStartBlock();
  if (block == nullptr) {
    const int plain = g_real.pthread_create(thread, attributes, routine, argument);
    EndWait(&wait, plain, plain);
    return plain;
  }
  block->routine = routine;
  block->argument = argument;
  block->created_ticks = wait.start;
  block->creator_serial = wait.thread->writer.thread->serial;
  // Fresh attributes contain the current default size, which is neither RLIMIT_STACK (2 MiB where that is unlimited)
  // nor constant.
  pthread_attr_t standard;
  if (attributes == nullptr) pthread_attr_init(&standard);
  size_t stack_bytes = 0;
  pthread_attr_getstacksize(attributes == nullptr ? &standard : attributes, &stack_bytes);
  block->stack_bytes = stack_bytes;
  const int result = g_real.pthread_create(thread, attributes, StartThread, block);
  if (result != 0) __atomic_store_n(&block->used, 0, __ATOMIC_RELEASE);
  EndWait(&wait, result, result);
  return result;
}

void NoteOwnName(const char* name) {
  ThreadState* self = CurrentThread();
  if (self == nullptr) return;
  const size_t length = TextLength(name, sizeof(ThreadSlot::name) - 1);
  ThreadSlot* slot = self->writer.thread;
  for (size_t i = 0; i < sizeof(slot->name); ++i) slot->name[i] = i < length ? name[i] : '\0';
  RecordThreadName(self, name, length, 0);
}

int Hook_pthread_setname_np(pthread_t thread, const char* name) {
  TBPROF_RESOLVED(pthread_setname_np);
  const int result = g_real.pthread_setname_np(thread, name);
  if (result != 0 || !Armed(kFamilyThread)) return result;
  if (pthread_equal(thread, pthread_self())) {
    NoteOwnName(name);
    return result;
  }
  ThreadState* self = CurrentThread();
  if (self == nullptr) return result;
  const size_t length = TextLength(name, 16);
  // Another thread: only this function of the public interface gives its kernel id (glibc 2.30 and later keep it
  // there).
  const int saved = errno;
  clockid_t clock;
  if (pthread_getcpuclockid(thread, &clock) == 0) {
    // A thread's CPU clock is ~tid << 3 | 6.
    const int tid = static_cast<int>(~(clock >> 3));
    if (tid > 0) RecordThreadName(self, name, length, tid);
  }
  errno = saved;
  return result;
}

}  // namespace tbprof
