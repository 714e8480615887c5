// SPDX-License-Identifier: Apache-2.0
//
// The thread of a server that answers its clients, while the main thread waits for them.
//
// Process: converter. Pure function of the timeline.
#ifndef TBPROF_WRITER_VERDICT_SERVER_THREADS_H_
#define TBPROF_WRITER_VERDICT_SERVER_THREADS_H_

#include <cstdint>

#include "writer/verdict/python_tags.h"

namespace tbprof {

// Of a process whose thread `waiting` mostly waits for clients: the thread that is busy with what they ask for longest,
// if that is a fifth of the time. Else `waiting`.
uint32_t ThreadThatAnswers(const Timeline& timeline, const PythonTags& tags, uint32_t waiting);

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_SERVER_THREADS_H_
