// SPDX-License-Identifier: Apache-2.0
//
// Recognizes waits that ended by their timeout, not by the action of another thread: their rhythm is not the program's.
//
// Process: converter. Pure function.
#ifndef TBPROF_WRITER_STEPS_CLOCK_WAITS_H_
#define TBPROF_WRITER_STEPS_CLOCK_WAITS_H_

#include "writer/timeline/timeline.h"

namespace tbprof {

bool WaitsForAClock(const EventType& type, const Event& event);

}  // namespace tbprof

#endif  // TBPROF_WRITER_STEPS_CLOCK_WAITS_H_
