// SPDX-License-Identifier: Apache-2.0
//
// To which part of the step a wait belongs: by what its stack of Python is for, else by the call.
//
// Process: converter. Pure function.
#ifndef TBPROF_WRITER_VERDICT_WAIT_PARTS_H_
#define TBPROF_WRITER_VERDICT_WAIT_PARTS_H_

#include "writer/verdict/python_tags.h"
#include "writer/verdict/thread_time.h"

namespace tbprof {

// Of a wait for a GPU: where nothing is known of what the GPU does meanwhile.
StepPart PartOfWait(const PythonTags& tags, const WaitSlice& wait);
// Of a sample that was blocked in what no recorded call says. `stack`: index into PythonTimeline::stacks.
StepPart PartOfBlocked(const PythonTags& tags, uint32_t stack, BlockedIn kind);

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_WAIT_PARTS_H_
