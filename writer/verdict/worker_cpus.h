// SPDX-License-Identifier: Apache-2.0
//
// What to do about threads and processes that are waited for: it depends on whether CPUs are idle meanwhile, and on
// whether they work or only get their data.
//
// Process: converter. Pure function of the timeline.
#ifndef TBPROF_WRITER_VERDICT_WORKER_CPUS_H_
#define TBPROF_WRITER_VERDICT_WORKER_CPUS_H_

#include <vector>

#include "writer/timeline/time_span.h"
#include "writer/timeline/timeline.h"
#include "writer/verdict/verdict.h"

namespace tbprof {

// Changes the advice of kWorkers, kSlowLoader and kPrefetchThread, and adds how many CPUs the job used. `process`: the
// judged one. Needs the verdict's places.
void AddCpusOfWorkers(const Timeline& timeline, uint32_t process, const std::vector<TimeSpan>& spans, Verdict* verdict);

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_WORKER_CPUS_H_
