// SPDX-License-Identifier: Apache-2.0
// Threads and locks. Rules: RULES.md.
#include "preload/hooks.h"
#include "preload/record.h"
#include "wire/raw.h"

namespace tbprof {
namespace {

// ---- pthread_create

// What a new thread needs to know, in a pool of our own: the allocator is not ours to call. Taken by the creator, given
// back by the new thread as its first act. When the pool is empty, threads start without us and register at their first
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
  // The guard and the TLS block lie within the stack's size; a quarter is surely readable below us and enough.
  thread->stack_low = here - block->stack_bytes / 4;
  __atomic_store_n(&block->used, 0, __ATOMIC_RELEASE);
  if (Armed(kFamilyThread)) CurrentThread();
  return routine(routine_argument);
}

void LeaveWaits(ThreadState* thread) {
  thread->waiting = nullptr;
  if (thread->phase != ThreadPhase::kLive || thread->epoch != g_fork_page->epoch) return;
  __atomic_store_n(&thread->writer.thread->wait_since, 0, __ATOMIC_RELAXED);
}

// ---- locks

// glibc's ABI: the first int of a mutex is its lock word, 0 while free. A glance costs 0.2 ns; trying the lock first
// costs 6, and recording every lock changes the contention itself.
bool LooksFree(const pthread_mutex_t* mutex) {
  return __atomic_load_n(reinterpret_cast<const int*>(mutex), __ATOMIC_RELAXED) == 0;
}

// The first word of a semaphore holds its value (in the low half on 64-bit systems).
bool LooksAvailable(const sem_t* semaphore) {
  return __atomic_load_n(reinterpret_cast<const unsigned*>(semaphore), __ATOMIC_RELAXED) != 0;
}

// A read-write lock's internals have changed between versions; the public trylock tells instead, and leaves it taken.
// Not for the timed ones: they refuse an invalid time also where the lock is free.
template <typename Try, typename Lock>
inline int LockReadWrite(pthread_rwlock_t* lock, uint16_t operation, const void* site, Try attempt, Lock wait_for) {
  if (attempt(lock) == 0) return 0;
  WaitScope wait;
  BeginWait(&wait, operation, reinterpret_cast<uint64_t>(lock), site);
  const int result = wait_for();
  EndWait(&wait, result, result);
  return result;
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
  // Of fresh attributes libc gives the default in force: neither RLIMIT_STACK (2 MiB where that is unlimited) nor
  // constant.
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

int Hook_pthread_setname_np(pthread_t thread, const char* name) {
  TBPROF_RESOLVED(pthread_setname_np);
  const int result = g_real.pthread_setname_np(thread, name);
  if (result != 0 || !Armed(kFamilyThread)) return result;
  ThreadState* self = CurrentThread();
  if (self == nullptr) return result;
  const size_t length = TextLength(name, 16);
  if (pthread_equal(thread, pthread_self())) {
    ThreadSlot* slot = self->writer.thread;
    for (size_t i = 0; i < sizeof(slot->name); ++i) slot->name[i] = i < length ? name[i] : '\0';
    RecordThreadName(self, name, length, 0);
    return result;
  }
  // Another thread: its kernel id stands in no public place but behind this call (glibc 2.30 and later keep it there).
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

// ---- jumps

// A jump may leave a wait that a signal handler has interrupted, and nothing else would end it. One within a handler
// ends the wait below it too early: the lesser evil, for it is still recorded when it returns.
#define TBPROF_JUMP(name)                               \
  void Hook_##name(__jmp_buf_tag* target, int value) {  \
    TBPROF_RESOLVED(name);                              \
    ThreadState* thread = &t_thread;                    \
    if (thread->waiting != nullptr) LeaveWaits(thread); \
    g_real.name(target, value);                         \
    __builtin_unreachable();                            \
  }
TBPROF_JUMP(longjmp)
TBPROF_JUMP(_longjmp)
TBPROF_JUMP(siglongjmp)
TBPROF_JUMP(__longjmp_chk)

// ---- mutexes

#define TBPROF_LOCK_MUTEX(name, parameters, arguments)                                              \
  int Hook_##name parameters {                                                                      \
    TBPROF_RESOLVED(name);                                                                          \
    if (__builtin_expect(LooksFree(mutex), 1) || !Armed(kFamilyLock)) return g_real.name arguments; \
    WaitScope wait;                                                                                 \
    BeginWait(&wait, kOp_##name, reinterpret_cast<uint64_t>(mutex), __builtin_return_address(0));   \
    const int result = g_real.name arguments;                                                       \
    EndWait(&wait, result, result);                                                                 \
    return result;                                                                                  \
  }
TBPROF_LOCK_MUTEX(pthread_mutex_lock, (pthread_mutex_t * mutex), (mutex))
TBPROF_LOCK_MUTEX(pthread_mutex_timedlock, (pthread_mutex_t * mutex, const timespec* until), (mutex, until))
TBPROF_LOCK_MUTEX(pthread_mutex_clocklock, (pthread_mutex_t * mutex, clockid_t clock, const timespec* until),
                  (mutex, clock, until))

// ---- read-write locks

#define TBPROF_LOCK_READ_WRITE(name, trylock, parameters, arguments)             \
  int Hook_##name parameters {                                                   \
    TBPROF_RESOLVED(name);                                                       \
    if (!Armed(kFamilyLock)) return g_real.name arguments;                       \
    return LockReadWrite(lock, kOp_##name, __builtin_return_address(0), trylock, \
                         [&]() { return g_real.name arguments; });               \
  }
TBPROF_LOCK_READ_WRITE(pthread_rwlock_rdlock, pthread_rwlock_tryrdlock, (pthread_rwlock_t * lock), (lock))
TBPROF_LOCK_READ_WRITE(pthread_rwlock_wrlock, pthread_rwlock_trywrlock, (pthread_rwlock_t * lock), (lock))

// ---- condition variables

#define TBPROF_WAIT_CONDITION(function, real, operation, parameters, arguments)                      \
  int function parameters {                                                                          \
    TBPROF_RESOLVED(real);                                                                           \
    if (!Armed(kFamilyLock)) return g_real.real arguments;                                           \
    WaitScope wait;                                                                                  \
    BeginWait(&wait, operation, reinterpret_cast<uint64_t>(condition), __builtin_return_address(0)); \
    const int result = g_real.real arguments;                                                        \
    EndWait(&wait, result, result);                                                                  \
    return result;                                                                                   \
  }
TBPROF_WAIT_CONDITION(Hook_pthread_cond_wait, pthread_cond_wait, kOp_pthread_cond_wait,
                      (pthread_cond_t * condition, pthread_mutex_t* mutex), (condition, mutex))
TBPROF_WAIT_CONDITION(Hook_pthread_cond_timedwait, pthread_cond_timedwait, kOp_pthread_cond_timedwait,
                      (pthread_cond_t * condition, pthread_mutex_t* mutex, const timespec* until),
                      (condition, mutex, until))
#if defined(__x86_64__)
// Programs linked before glibc 2.3.2 have another layout behind the same name: they must reach the old code.
TBPROF_EXPORT int OldConditionWait(pthread_cond_t* condition, pthread_mutex_t* mutex) __asm__("tbprof_cond_wait_old");
TBPROF_EXPORT int OldConditionTimedWait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                        const timespec* until) __asm__("tbprof_cond_timedwait_old");
TBPROF_WAIT_CONDITION(OldConditionWait, pthread_cond_wait_old, kOp_pthread_cond_wait,
                      (pthread_cond_t * condition, pthread_mutex_t* mutex), (condition, mutex))
TBPROF_WAIT_CONDITION(OldConditionTimedWait, pthread_cond_timedwait_old, kOp_pthread_cond_timedwait,
                      (pthread_cond_t * condition, pthread_mutex_t* mutex, const timespec* until),
                      (condition, mutex, until))
__asm__(".symver tbprof_pthread_cond_wait, pthread_cond_wait@@@GLIBC_2.3.2");
__asm__(".symver tbprof_pthread_cond_timedwait, pthread_cond_timedwait@@@GLIBC_2.3.2");
__asm__(".symver tbprof_cond_wait_old, pthread_cond_wait@GLIBC_2.2.5, remove");
__asm__(".symver tbprof_cond_timedwait_old, pthread_cond_timedwait@GLIBC_2.2.5, remove");
#endif

// ---- semaphores

#define TBPROF_WAIT_SEMAPHORE(name, parameters, arguments)                                                   \
  int Hook_##name parameters {                                                                               \
    TBPROF_RESOLVED(name);                                                                                   \
    if (__builtin_expect(LooksAvailable(semaphore), 1) || !Armed(kFamilyLock)) return g_real.name arguments; \
    WaitScope wait;                                                                                          \
    BeginWait(&wait, kOp_##name, reinterpret_cast<uint64_t>(semaphore), __builtin_return_address(0));        \
    const int result = g_real.name arguments;                                                                \
    EndWait(&wait, result, result < 0 ? errno : 0);                                                          \
    return result;                                                                                           \
  }
TBPROF_WAIT_SEMAPHORE(sem_wait, (sem_t * semaphore), (semaphore))
TBPROF_WAIT_SEMAPHORE(sem_timedwait, (sem_t * semaphore, const timespec* until), (semaphore, until))
TBPROF_WAIT_SEMAPHORE(sem_clockwait, (sem_t * semaphore, clockid_t clock, const timespec* until),
                      (semaphore, clock, until))

}  // namespace tbprof
