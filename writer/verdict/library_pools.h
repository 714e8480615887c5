// SPDX-License-Identifier: Apache-2.0
//
// Which waits of a Python thread are for the computing threads of a native library (polars, DuckDB): shown by what
// these threads do meanwhile, whatever the library.
//
// Process: converter. Pure function of the timeline.
#ifndef TBPROF_WRITER_VERDICT_LIBRARY_POOLS_H_
#define TBPROF_WRITER_VERDICT_LIBRARY_POOLS_H_

#include <cstdint>
#include <vector>

#include "writer/verdict/gpu_time.h"
#include "writer/verdict/python_tags.h"
#include "writer/verdict/thread_time.h"

namespace tbprof {

// The call sites of such waits of `thread`: no lock that a thread may hold, no lock of Python, and threads without
// Python run or lack a CPU for 60 % of the time, and no GPU works. Empty for a program without Python.
std::vector<StringId> FindLibraryPools(const Timeline& timeline, const PythonTags& tags, const WaitClasses& classes,
                                       const GpuTime& gpu, uint32_t thread, const std::vector<TimeSpan>& spans);

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_LIBRARY_POOLS_H_
