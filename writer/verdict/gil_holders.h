// SPDX-License-Identifier: Apache-2.0
//
// Finds who holds the GIL while a thread waits for it, or for threads that need it: the threads of its process, and
// where.
//
// Process: converter.
#ifndef TBPROF_WRITER_VERDICT_GIL_HOLDERS_H_
#define TBPROF_WRITER_VERDICT_GIL_HOLDERS_H_

#include <cstdint>
#include <vector>

#include "writer/verdict/blockers.h"
#include "writer/verdict/python_tags.h"

namespace tbprof {

// `waits`: waits of `thread`, in order of time. Not found: there are too few samples of holders, as in a spool of an
// older tbprof.
Blocker FindGilHolder(const Timeline& timeline, const PythonTags& tags, uint32_t thread,
                      const std::vector<WaitSlice>& waits);

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_GIL_HOLDERS_H_
