// SPDX-License-Identifier: Apache-2.0
//
// What the program's lines call in libraries: the functions that take the time of a line such as `trainer.fit()`, and
// libraries that run each operation by itself though they can compile them.
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_VERDICT_LIBRARY_CODE_H_
#define TBPROF_WRITER_VERDICT_LIBRARY_CODE_H_

#include <string>

#include "writer/timeline/timeline.h"
#include "writer/verdict/python_tags.h"
#include "writer/verdict/step_span.h"
#include "writer/verdict/thread_time.h"

namespace tbprof {

// The part, 0 to 1, of the CPU time at a line in which an installed package is on the stack below it.
double LibraryShare(const Timeline& timeline, const PythonTags& tags, const ThreadTime& time, const Where& line);
// Likewise, of all of the thread's CPU time.
double LibraryShare(const Timeline& timeline, const PythonTags& tags, const ThreadTime& time);

// kEagerJax or kEagerTensorFlow if half of the thread's CPU time is below Python of such a library that runs single
// operations, neither compiled nor while it compiles; else kOfCause.
Advice AdviceOfEagerCode(const Timeline& timeline, const PythonTags& tags, const ThreadTime& time);

// `train.py:23 spends 61 % in Tensor.backward (torch), 27 % in GPT2MLP.forward (transformers)`: at most two functions
// of libraries, of all that the thread does at this line in `span`, waits included. Empty if the time is in the line's
// own code, or spread over functions that take less than a fifth of it.
std::string FactOfLibraryFunctions(const Timeline& timeline, const PythonTags& tags, const StepSpan& span,
                                   const Where& line);

// The part of the thread's CPU time in which code of the program itself is on the stack.
double ProgramShare(const PythonTags& tags, const ThreadTime& time);

// `jsonable_encoder (fastapi) with all that it calls: 71 %`: the innermost function of an installed package that has at
// least half of the thread's CPU time. Empty: there is none.
std::string FactOfPackages(const Timeline& timeline, const ThreadTime& time);

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_LIBRARY_CODE_H_
