// SPDX-License-Identifier: Apache-2.0
//
// What the threads that another one waits for are, and what they wait for themselves.
//
// Process: converter. Pure function of the timeline.
#ifndef TBPROF_WRITER_VERDICT_WORKER_WAITS_H_
#define TBPROF_WRITER_VERDICT_WORKER_WAITS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "writer/timeline/time_span.h"
#include "writer/timeline/timeline_verdict.h"
#include "writer/verdict/python_tags.h"
#include "writer/verdict/thread_time.h"

namespace tbprof {

// Shares of the time in which these threads run or wait.
struct WorkerWaits {
  double gil = 0, locks = 0;
};

// `spans`: the waits of `thread`, in order, disjoint. Looks at the other threads of its process. Of threads that run
// Python, locks are those for which a line of the program waits itself: in a library, they wait for work.
WorkerWaits WaitsOfWorkers(const Timeline& timeline, const PythonTags& tags, const WaitClasses& classes,
                           uint32_t thread, const std::vector<TimeSpan>& spans);

// `its threads wait 40 % for the GIL and 12 % for locks`.
std::string FactOfWorkerWaits(const WorkerWaits& shares);

// What the threads of a server do for its clients, apart from waits for the next request: where they spend most of
// their time together. Nothing: no such thread was seen to do anything.
std::optional<Where> WorkForClients(const Timeline& timeline, const PythonTags& tags, const WaitClasses& classes,
                                    uint32_t thread, const std::vector<TimeSpan>& spans);

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_WORKER_WAITS_H_
