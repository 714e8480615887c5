// SPDX-License-Identifier: Apache-2.0
//
// Maps the handles of streams to their numbers in records.
//
// Process: target, any thread.
#ifndef TBPROF_CUPTI_OBSERVED_STREAMS_H_
#define TBPROF_CUPTI_OBSERVED_STREAMS_H_

#include "cupti/observer_state.h"

namespace tbprof::cupti {

// Null: a default stream, or no room.
Stream* StreamOf(uint64_t handle);
// 0: the stream has no number.
uint32_t StreamNumber(uint64_t handle);
// A key that distinguishes the default streams of green contexts: all contexts use the same handles for them.
uint64_t StreamKey(uint64_t stream);

}  // namespace tbprof::cupti

#endif  // TBPROF_CUPTI_OBSERVED_STREAMS_H_
