// SPDX-License-Identifier: Apache-2.0
//
// Finds the thread or process that another thread waits for: one that works, sleeps or reads during the wait, and
// where.
//
// The records do not contain which thread ends a wait. The blocker is the thread that is busy for most of the wait. A
// thread that only sleeps must also return from its calls just before the waits end, more often than by chance, or
// sleep in the waits and not between them, or fill a queue. A heartbeat thread does none of these.
//
// Process: converter.
#ifndef TBPROF_WRITER_VERDICT_BLOCKERS_H_
#define TBPROF_WRITER_VERDICT_BLOCKERS_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "writer/verdict/account.h"
#include "writer/verdict/native_places.h"

namespace tbprof {

enum class BlockerScope : uint8_t {
  kThreads,  // threads of the same process
  // kThreads that run Python, or functions of a program without it; those that do the same in turn count together.
  kPool,
  kDescendants,    // threads of its descendants, likewise
  kAll,            // also threads of its descendants
  kBehindReaders,  // kAll; a process that computes is preferred to a thread that may only read what it sends
};

struct Blocker {
  bool HasTag(PythonTag tag) const { return std::ranges::find(rows, tag, &AccountRow::tag) != rows.end(); }

  bool found = false;
  uint32_t thread = 0;
  bool other_process = false;
  double busy = 0;               // share of the time of the waits, waits for the GIL included
  double for_gil = 0;            // part of it: it waits for the GIL
  double queued = 0;             // part of it: it could run and has no CPU
  double busiest = 0;            // of one thread: `busy`, if that is of several
  bool in_turn = false;          // of `alike` threads, no two lived at the same time; `busy` is of all
  size_t alike = 1;              // number of threads that do the same
  std::vector<AccountRow> rows;  // activity during the waits, longest first
  bool together = false;         // `busy` is the share in which any of them works
  // Of FindGilHolder: `busy` is a share of the samples that show who holds the GIL.
  bool holds_gil = false;
  bool at_locks = false;  // of ThreadsAtLocks: `busy` is the share of their time in which they wait for locks
  double holds_lock = 0;  // share of the samples of the waits in which it was seen to hold the lock
  double held = 0;        // share of the time of the waits in which any other thread was seen to hold it: a lower bound
};

// `waits`: the waits of `thread`, in order of time.
Blocker FindBlocker(const Timeline& timeline, const PythonTags& tags, const WaitClasses& classes,
                    const NativePlaces& natives, uint32_t thread, const std::vector<WaitSlice>& waits,
                    BlockerScope scope);

// `that thread works, sleeps or reads for 60 % of the wait, as does 1 more`, or who holds the GIL.
std::string FactOfBlocker(const Blocker& blocker);

// Whether `process` is `ancestor` or one of its descendants.
bool IsWithin(const Timeline& timeline, uint32_t process, uint32_t ancestor);

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_BLOCKERS_H_
