// SPDX-License-Identifier: Apache-2.0
//
// Waits for the change of a word in memory, for a limited time.
//
// Process: target, only where a wait is allowed. No allocation; errno is not changed.
#ifndef TBPROF_CUPTI_FUTEX_H_
#define TBPROF_CUPTI_FUTEX_H_

#include <errno.h>
#include <linux/futex.h>
#include <stdint.h>
#include <time.h>

#include "wire/clock.h"
#include "wire/layout.h"
#include "wire/raw.h"

namespace tbprof::cupti {

inline void FutexWake(uint32_t* word) { raw::Call(SYS_futex, raw::Pointer(word), FUTEX_WAKE, INT32_MAX); }

// True: timed out.
inline bool FutexWait(uint32_t* word, uint32_t seen, uint64_t ns) {
  timespec timeout{static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
  return raw::Call(SYS_futex, raw::Pointer(word), FUTEX_WAIT, seen, raw::Pointer(&timeout)) == -ETIMEDOUT;
}

// tbprof's own thread waits for this word, which the launcher also changes to request a flush.
inline void WakeOwnThread(ProcessSlot* process) {
  __atomic_fetch_add(&process->gpu_flush_requested, 1, __ATOMIC_ACQ_REL);
  FutexWake(&process->gpu_flush_requested);
}

// Waits until `good` is true for the word's value, or until the time limit.
template <typename Good>
void FutexWaitFor(uint32_t* word, uint64_t limit_ns, Good good) {
  const uint64_t begun = ReadMonotonic();
  for (;;) {
    const uint32_t now = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    if (good(now)) return;
    const uint64_t waited = ReadMonotonic() - begun;
    if (waited >= limit_ns) return;
    FutexWait(word, now, limit_ns - waited);
  }
}

}  // namespace tbprof::cupti

#endif  // TBPROF_CUPTI_FUTEX_H_
