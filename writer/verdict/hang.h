// SPDX-License-Identifier: Apache-2.0
//
// Of a process that was attached to and in which nothing ran: where each of its threads waits, and who holds the lock.
//
// Process: converter. Pure function of the timeline.
#ifndef TBPROF_WRITER_VERDICT_HANG_H_
#define TBPROF_WRITER_VERDICT_HANG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "writer/timeline/timeline.h"
#include "writer/verdict/python_tags.h"

namespace tbprof {

// A text for each group of threads that wait at one place, the main thread's first: `main thread, in sem_wait (sampled)
// at train.py:12 commit < train.py:40 main`. Empty unless the process of `thread` was attached to and hardly ran.
std::vector<std::string> WhereThreadsHang(const Timeline& timeline, const PythonTags& tags, uint32_t thread);

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_HANG_H_
