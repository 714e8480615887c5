// SPDX-License-Identifier: Apache-2.0
//
// Waits in locks of a native library that has no hook: TensorFlow waits so for its own threads, which compute, or which
// run functions of the program (tf.numpy_function).
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_VERDICT_LIBRARY_WAITS_H_
#define TBPROF_WRITER_VERDICT_LIBRARY_WAITS_H_

#include <cstdint>
#include <vector>

#include "writer/verdict/thread_time.h"

namespace tbprof {

// The samples of `thread` that were blocked in such a lock within `gaps`, as waits. In order of time.
std::vector<WaitSlice> LibraryWaits(const Timeline& timeline, uint32_t thread, const std::vector<TimeSpan>& gaps);

// Mean number of the process's threads without Python that were on a CPU in the waits.
double ComputingBeside(const Timeline& timeline, uint32_t thread, const std::vector<WaitSlice>& waits);

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_LIBRARY_WAITS_H_
