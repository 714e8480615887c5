// SPDX-License-Identifier: Apache-2.0
//
// Where the threads of a job wait of which nothing runs: all the time of a capture, or at the end of a run that was
// killed or failed.
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_VERDICT_HANG_H_
#define TBPROF_WRITER_VERDICT_HANG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "writer/timeline/time_span.h"
#include "writer/verdict/python_tags.h"
#include "writer/verdict/thread_time.h"

namespace tbprof {

struct Hang {
  // `main thread, in pthread_mutex_lock at commit`; empty: something ran, or too little was recorded to say. The judged
  // process comes first, its main thread before others, then what ended before and may be why: `python/1234 ended 3.1 s
  // before: killed by SIGKILL`, then other processes of the job with their names.
  std::vector<std::string> texts;
  TimeSpan span;        // from then on nothing ran
  bool is_all = false;  // in all that was recorded
};

// `thread`: the judged one, index into Timeline::threads.
Hang FindHang(const Timeline& timeline, const PythonTags& tags, const WaitClasses& classes, uint32_t thread);

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_HANG_H_
