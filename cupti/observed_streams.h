// SPDX-License-Identifier: Apache-2.0
//
// Streams by their handles, as records number them.
//
// Process: target, any thread.
#ifndef TBPROF_CUPTI_OBSERVED_STREAMS_H_
#define TBPROF_CUPTI_OBSERVED_STREAMS_H_

#include "cupti/observer_state.h"

namespace tbprof::cupti {

// Null: a default stream, or one too many.
Stream* StreamOf(uint64_t handle);
// 0: not known by a number.
uint32_t StreamNumber(uint64_t handle);
// The default streams of a green context are not those of another, though they have the same names.
uint64_t StreamKey(uint64_t stream);

}  // namespace tbprof::cupti

#endif  // TBPROF_CUPTI_OBSERVED_STREAMS_H_
