// SPDX-License-Identifier: Apache-2.0
//
// Which thread may change PyTorch's list of observers, and when. PyTorch takes its own lock while it changes the list:
// a child that another thread forks in that microsecond would find it taken for ever. So a fork waits until no thread
// changes the list, and no thread begins to while another one forks.
//
//   if (TakeTorchTurn()) { ...; EndTorchTurn(); }       // in a call of an observer, or of PyTorch's allocator
//   const bool free = BeginTorchFork(); pid = fork(); EndTorchFork(pid == 0, free);
//
// Mostly the main thread changes it: it is the one that trains. Where another thread trains (Ray Train, a server), that
// one leads.
//
// Process: target. Rules: RULES.md; the wait before a fork is bounded.
#ifndef TBPROF_PRELOAD_TORCH_TURNS_H_
#define TBPROF_PRELOAD_TORCH_TURNS_H_

#include <stdint.h>

#include "preload/state.h"

namespace tbprof {

// False: another thread has the turn, or forks. The caller tries again at its next call.
bool TakeTorchTurn();
void EndTorchTurn();

// Around a fork. Waits at most 50 ms for a thread that has the turn; false: it still has it.
bool BeginTorchFork();
// `was_free`: what BeginTorchFork returned. A child whose parent still had the turn never gets one: PyTorch's lock may
// be taken there.
void EndTorchFork(bool is_child, bool was_free);

// `thread`: null in a process that records nothing.
bool IsMainThread(const ThreadState* thread);
// The main thread, or the one whose steps are the borders.
bool LeadsTorch(const ThreadState* thread);
// Called at an optimizer's end, and where a loader begins: whether the steps of this thread are the borders. Those of
// the main thread are; of other threads those of the first one, until it has made none for two seconds, or for four
// times as long as between its last two.
bool SetsTorchBorders(const ThreadState* thread);
// A fork child has its own leader.
void ForgetTorchLeader();

}  // namespace tbprof

#endif  // TBPROF_PRELOAD_TORCH_TURNS_H_
