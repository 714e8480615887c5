// SPDX-License-Identifier: Apache-2.0
//
// What the threads that another one waits for are, and what they wait for themselves.
//
// Process: converter. Pure function of the timeline.
#ifndef TBPROF_WRITER_VERDICT_WORKER_WAITS_H_
#define TBPROF_WRITER_VERDICT_WORKER_WAITS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "writer/timeline/time_span.h"
#include "writer/verdict/blockers.h"
#include "writer/verdict/python_tags.h"
#include "writer/verdict/thread_time.h"

namespace tbprof {

// Shares of the time in which these threads run or wait.
struct WorkerWaits {
  double gil = 0, locks = 0;
};

// `spans`: the waits of `thread`, in order, disjoint. Looks at the other threads of its process.
WorkerWaits WaitsOfWorkers(const Timeline& timeline, const WaitClasses& classes, uint32_t thread,
                           const std::vector<TimeSpan>& spans);

// `its threads wait 40 % for the GIL and 12 % for locks`.
std::string FactOfWorkerWaits(const WorkerWaits& shares);

// What the threads of a server do for its clients, apart from waits for the next request: where they spend most of
// their time together. Nothing: no such thread was seen to do anything.
std::optional<Where> WorkForClients(const Timeline& timeline, const PythonTags& tags, const WaitClasses& classes,
                                    uint32_t thread, const std::vector<TimeSpan>& spans);

// The share of the waits in which a process of multiprocessing below the thread's process had not begun with its
// function: it imports modules, and loads what it was given; or in which a fork child that lived too short to be
// sampled was new. 0 if none of them was started after another's end.
double ShareOfStarts(const Timeline& timeline, const PythonTags& tags, uint32_t thread,
                     const std::vector<TimeSpan>& spans);

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

// Whether it is in a process of multiprocessing, not of a program that was started.
bool IsOfMultiprocessing(const Timeline& timeline, const PythonTags& tags, uint32_t thread);

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_WORKER_WAITS_H_
