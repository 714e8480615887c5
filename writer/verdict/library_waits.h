// SPDX-License-Identifier: Apache-2.0
//
// Waits in locks of a native library that has no hook: TensorFlow waits so for its own threads, which compute, or which
// run functions of the program (tf.numpy_function).
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_VERDICT_LIBRARY_WAITS_H_
#define TBPROF_WRITER_VERDICT_LIBRARY_WAITS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "writer/verdict/gpu_time.h"
#include "writer/verdict/python_tags.h"
#include "writer/verdict/thread_time.h"

namespace tbprof {

// The samples of `thread` that were blocked in such a lock within `gaps`, as waits. In order of time.
std::vector<WaitSlice> LibraryWaits(const Timeline& timeline, const PythonTags& tags, uint32_t thread,
                                    const std::vector<TimeSpan>& gaps);

// Mean number of the process's threads without Python that were on a CPU in the waits; nothing: not known, since native
// threads were not sampled.
std::optional<double> ComputingBeside(const Timeline& timeline, uint32_t thread, const std::vector<WaitSlice>& waits);

// Share of the waits in which any of these threads runs or lacks a CPU, likewise.
std::optional<double> BusyBeside(const Timeline& timeline, uint32_t thread, const std::vector<WaitSlice>& waits);

// The GPU works for half of the waits or more.
bool IsForGpu(const GpuTime& gpu, const std::vector<WaitSlice>& waits);

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_LIBRARY_WAITS_H_
