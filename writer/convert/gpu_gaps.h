// SPDX-License-Identifier: Apache-2.0
//
// Warnings for the parts of a window in which a process was not recorded on its GPUs.
//
// Process: converter.
#ifndef TBPROF_WRITER_CONVERT_GPU_GAPS_H_
#define TBPROF_WRITER_CONVERT_GPU_GAPS_H_

#include <string>
#include <vector>

#include "writer/timeline/timeline_gpu.h"

namespace tbprof {

// One for each cause, in the order of the first gaps; beyond 8 causes one for the rest. `process`: how it is called.
std::vector<std::string> GapWarnings(const std::string& process, const std::vector<GpuGap>& gaps);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_GPU_GAPS_H_
