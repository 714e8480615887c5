// SPDX-License-Identifier: Apache-2.0
// Rules: RULES.md.
#include "preload/torch_turns.h"

#include "preload/record.h"
#include "wire/clock.h"
#include "wire/raw.h"

namespace tbprof {
namespace {

// The turn, and the forks that are under way. Each side writes its own and then reads the other's, so that one of two
// sees the other.
uint32_t g_busy, g_forks;

int32_t g_leader;      // tid; 0: none
uint64_t g_leader_ns;  // time of its last border
constexpr uint64_t kForgottenNs = 2'000'000'000;

int32_t TidOf(const ThreadState* thread) { return thread->writer.thread->tid; }

}  // namespace

bool TakeTorchTurn() {
  if (__atomic_exchange_n(&g_busy, 1, __ATOMIC_SEQ_CST) != 0) return false;
  if (__atomic_load_n(&g_forks, __ATOMIC_SEQ_CST) == 0) return true;
  EndTorchTurn();
  return false;
}

void EndTorchTurn() { __atomic_store_n(&g_busy, 0, __ATOMIC_RELEASE); }

void BeginTorchFork() {
  __atomic_add_fetch(&g_forks, 1, __ATOMIC_SEQ_CST);
  // A turn takes microseconds; longer only if its thread has no CPU, or was interrupted by the handler that forks.
  constexpr int kMostLooks = 1'000'000;
  for (int i = 0; i < kMostLooks && __atomic_load_n(&g_busy, __ATOMIC_SEQ_CST) != 0; ++i) {
    asm volatile("" ::: "memory");
  }
}

void EndTorchFork(bool is_child) {
  if (is_child) {
    // The other threads, with their forks, are not in the child.
    __atomic_store_n(&g_forks, 0, __ATOMIC_SEQ_CST);
  } else {
    __atomic_sub_fetch(&g_forks, 1, __ATOMIC_SEQ_CST);
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
  const uint64_t now = ReadMonotonic();
  const uint64_t silent = now - __atomic_load_n(&g_leader_ns, __ATOMIC_RELAXED);
  if (leader != 0 && leader != tid && !IsMainThread(thread) && silent < kForgottenNs) return false;
  __atomic_store_n(&g_leader, tid, __ATOMIC_RELAXED);
  __atomic_store_n(&g_leader_ns, now, __ATOMIC_RELAXED);
  return true;
}

void ForgetTorchLeader() { __atomic_store_n(&g_leader, 0, __ATOMIC_RELAXED); }

}  // namespace tbprof
