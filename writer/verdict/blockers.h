// SPDX-License-Identifier: Apache-2.0
//
// Whom a thread waits for: the thread or process that works, sleeps or reads while it waits, and where.
//
// Which one gives it what it waits for is not recorded. Named is the one that is busy for most of the wait; one that
// only sleeps must wake when the waits end, more often than by chance, or fill a queue: a heartbeat does neither.
//
// Process: converter.
#ifndef TBPROF_WRITER_VERDICT_BLOCKERS_H_
#define TBPROF_WRITER_VERDICT_BLOCKERS_H_

#include <cstdint>
#include <vector>

#include "writer/verdict/account.h"

namespace tbprof {

enum class BlockerScope : uint8_t {
  kThreads,  // of the same process
  kAll,      // and those of its descendants
};

struct Blocker {
  bool found = false;
  uint32_t thread = 0;
  bool other_process = false;
  double busy = 0;               // of the time of the waits
  size_t alike = 1;              // threads that do the same
  std::vector<AccountRow> rows;  // what it does meanwhile, longest first
};

// `waits`: of `thread`, in order of time.
Blocker FindBlocker(const Timeline& timeline, const PythonTags& tags, const WaitClasses& classes, uint32_t thread,
                    const std::vector<WaitSlice>& waits, BlockerScope scope);

// Whether one process is another or descends from it.
bool IsWithin(const Timeline& timeline, uint32_t process, uint32_t ancestor);

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_BLOCKERS_H_
