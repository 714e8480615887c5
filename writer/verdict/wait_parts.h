// SPDX-License-Identifier: Apache-2.0
//
// The part of the step that a wait belongs to: decided by the tag of its Python stack, else by the call.
//
// Process: converter. Pure function.
#ifndef TBPROF_WRITER_VERDICT_WAIT_PARTS_H_
#define TBPROF_WRITER_VERDICT_WAIT_PARTS_H_

#include <vector>

#include "writer/verdict/python_tags.h"
#include "writer/verdict/thread_time.h"

namespace tbprof {

// For a wait for a GPU, the result applies where the GPU's activity during the wait is unknown.
StepPart PartOfWait(const PythonTags& tags, const WaitSlice& wait);
// The part for a sample that was blocked in a call that is not recorded. `stack`: index into PythonTimeline::stacks.
StepPart PartOfBlocked(const PythonTags& tags, uint32_t stack, BlockedIn kind);

// Most of the time is in reads of a pipe at descriptor 0, which whoever started the program writes to.
bool IsOfStdin(const std::vector<WaitSlice>& waits);

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_WAIT_PARTS_H_
