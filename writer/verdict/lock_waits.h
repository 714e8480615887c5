// SPDX-License-Identifier: Apache-2.0
//
// Which waits are for locks, and the threads that hold each other up at them.
//
// Process: converter. Pure function of the timeline.
#ifndef TBPROF_WRITER_VERDICT_LOCK_WAITS_H_
#define TBPROF_WRITER_VERDICT_LOCK_WAITS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "writer/timeline/time_span.h"
#include "writer/verdict/blockers.h"
#include "writer/verdict/python_tags.h"
#include "writer/verdict/thread_time.h"

namespace tbprof {

// The number of other threads of the process that often wait for the same lock.
size_t OthersThatWaitFor(const Timeline& timeline, const WaitClasses& classes, uint32_t thread, uint64_t object);

// The types of calls that wait for a semaphore or a futex for which another thread waits, too: a lock.
std::vector<uint16_t> LocksAmong(const Timeline& timeline, const WaitClasses& classes, uint32_t thread,
                                 const std::vector<WaitSlice>& waits);

// The threads of the process that wait for locks for most of the spans in which they live: they hold each other up. Not
// found: fewer than two do.
Blocker ThreadsAtLocks(const Timeline& timeline, const PythonTags& tags, const WaitClasses& classes, uint32_t thread,
                       const std::vector<TimeSpan>& spans);

// Whether all of the waits are for locks that one thread holds at a time.
bool AreOwned(const WaitClasses& classes, const std::vector<WaitSlice>& waits);

// Whether most of the time of the waits is for locks that other threads hold.
bool AreForLocks(const WaitClasses& classes, const std::vector<WaitSlice>& waits);

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_LOCK_WAITS_H_
