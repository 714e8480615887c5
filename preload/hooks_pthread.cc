// SPDX-License-Identifier: Apache-2.0
// Hooks on locks, and on jumps out of waits. Rules: RULES.md.
#include "preload/hooks.h"
#include "preload/record.h"

namespace tbprof {
namespace {

void LeaveWaits(ThreadState* thread) {
  thread->waiting = nullptr;
  if (thread->phase != ThreadPhase::kLive || thread->epoch != g_fork_page->epoch) return;
  CountLeft(thread);
  __atomic_store_n(&thread->writer.thread->wait_since, 0, __ATOMIC_RELAXED);
}

// ---- locks

// glibc's ABI: the first int of a mutex is its lock word, 0 while free. Reading it costs 0.2 ns; trying the lock first
// costs 6 ns, and recording every lock would change the contention itself.
bool LooksFree(const pthread_mutex_t* mutex) {
  return __atomic_load_n(reinterpret_cast<const int*>(mutex), __ATOMIC_RELAXED) == 0;
}

// The first word of a semaphore holds its value (in the low half on 64-bit systems).
bool LooksAvailable(const sem_t* semaphore) {
  return __atomic_load_n(reinterpret_cast<const unsigned*>(semaphore), __ATOMIC_RELAXED) != 0;
}

// The layout of a read-write lock differs between glibc versions, so the public trylock is used: if it succeeds, the
// lock is taken. Not for the timed functions: they reject an invalid time even if the lock is free.
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

// ---- jumps

// A jump may leave a wait that a signal handler has interrupted, and nothing else would end this wait. A jump within
// the handler ends the interrupted wait too early. This is acceptable: the wait is still recorded when it returns.
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
// Programs linked before glibc 2.3.2 use another layout of a condition variable and must reach the old code.
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
