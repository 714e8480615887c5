// SPDX-License-Identifier: Apache-2.0
// Rules: RULES.md.
#include "preload/torch_turns.h"

#include <sys/syscall.h>

#include "preload/record.h"
#include "preload/seccomp.h"
#include "wire/clock.h"
#include "wire/raw.h"

namespace tbprof {
namespace {

// The turn, and the forks that are under way. Each side writes its own and then reads the other's, so that one of two
// sees the other.
uint32_t g_busy, g_forks;

int32_t g_leader;      // tid; 0: none
uint64_t g_leader_ns;  // time of its last border
uint64_t g_usual_ns;   // between its last two borders
constexpr uint64_t kForgottenNs = 2'000'000'000, kTimesUsual = 4;

int32_t TidOf(const ThreadState* thread) { return thread->writer.thread->tid; }

}  // namespace

bool TakeTorchTurn() {
  if (__atomic_exchange_n(&g_busy, 1, __ATOMIC_SEQ_CST) != 0) return false;
  if (__atomic_load_n(&g_forks, __ATOMIC_SEQ_CST) == 0) return true;
  EndTorchTurn();
  return false;
}

void EndTorchTurn() { __atomic_store_n(&g_busy, 0, __ATOMIC_RELEASE); }

bool BeginTorchFork() {
  __atomic_add_fetch(&g_forks, 1, __ATOMIC_SEQ_CST);
  if (__builtin_expect(__atomic_load_n(&g_busy, __ATOMIC_SEQ_CST) == 0, 1)) return true;
  // A turn takes microseconds; longer only if its thread has no CPU, or was interrupted by the handler that forks.
  constexpr uint64_t kLongestNs = 50'000'000;
  constexpr int kLooks = 256;
  const bool may_yield = !__atomic_load_n(&g_has_filter, __ATOMIC_RELAXED);
  const uint64_t end = ReadMonotonic() + kLongestNs;
  do {
    for (int i = 0; i < kLooks; ++i) {
      if (__atomic_load_n(&g_busy, __ATOMIC_SEQ_CST) == 0) return true;
    }
    if (may_yield) raw::Call(SYS_sched_yield);
  } while (ReadMonotonic() < end);
  return false;
}

void EndTorchFork(bool is_child, bool was_free) {
  if (is_child) {
    // The other threads are not in the child, with their forks, and with the turn that one may just have tried to take.
    __atomic_store_n(&g_forks, 0, __ATOMIC_SEQ_CST);
    if (was_free) __atomic_store_n(&g_busy, 0, __ATOMIC_SEQ_CST);
    return;
  }
  // A child that a signal handler forked within this fork has set it to 0.
  uint32_t forks = __atomic_load_n(&g_forks, __ATOMIC_SEQ_CST);
  while (forks > 0 &&
         !__atomic_compare_exchange_n(&g_forks, &forks, forks - 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
  }
}

bool IsMainThread(const ThreadState* thread) {
  if (thread == nullptr) return raw::GetTid() == raw::GetPid();
  const ThreadSlot* const slot = thread->writer.thread;
  return slot->tid == g_attachment.segment.process_slots[slot->process_slot].pid;
}

bool LeadsTorch(const ThreadState* thread) {
  if (thread != nullptr && __atomic_load_n(&g_leader, __ATOMIC_RELAXED) == TidOf(thread)) return true;
  return IsMainThread(thread);
}

bool SetsTorchBorders(const ThreadState* thread) {
  const int32_t leader = __atomic_load_n(&g_leader, __ATOMIC_RELAXED), tid = TidOf(thread);
  const uint64_t last = __atomic_load_n(&g_leader_ns, __ATOMIC_ACQUIRE), now = ReadMonotonic();
  const uint64_t silent = now > last ? now - last : 0;
  const uint64_t usual = __atomic_load_n(&g_usual_ns, __ATOMIC_RELAXED);
  const uint64_t longest = usual > kForgottenNs / kTimesUsual ? usual * kTimesUsual : kForgottenNs;
  if (leader != 0 && leader != tid && !IsMainThread(thread) && silent < longest) return false;
  __atomic_store_n(&g_usual_ns, leader == tid ? silent : 0, __ATOMIC_RELAXED);
  __atomic_store_n(&g_leader, tid, __ATOMIC_RELAXED);
  __atomic_store_n(&g_leader_ns, now, __ATOMIC_RELEASE);
  return true;
}

void ForgetTorchLeader() { __atomic_store_n(&g_leader, 0, __ATOMIC_RELAXED); }

}  // namespace tbprof
