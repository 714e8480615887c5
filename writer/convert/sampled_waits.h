// SPDX-License-Identifier: Apache-2.0
//
// The waits of processes that tbprof only samples (`tbprof attach`): no hook has seen their calls, so each run of
// samples in which a thread was blocked in the same system call becomes an event of that call. Such an event is as
// exact as the samples: its borders lie between two of them, and two calls of one kind without a sample in between are
// one.
//
//   AddSampledWaits(&types, &timeline);    // after the threads have their events, and the samples their stacks
//
// Process: converter, one thread. Untrusted: numbers of calls.
#ifndef TBPROF_WRITER_CONVERT_SAMPLED_WAITS_H_
#define TBPROF_WRITER_CONVERT_SAMPLED_WAITS_H_

#include <cstdint>

#include "writer/convert/event_types.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

// Returns the expected size of the events in the profile. Beyond `most_bytes` no further event is added.
// Of a process with tbprof's library: the calls that began before the window alone.
uint64_t AddSampledWaits(uint64_t most_bytes, EventTypes* types, Timeline* timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_SAMPLED_WAITS_H_
