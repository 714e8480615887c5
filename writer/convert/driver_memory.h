// SPDX-License-Identifier: Apache-2.0
//
// The peak of what the CUDA driver has given of each device. By whom is not known: frameworks take segments and hand
// them out themselves.
//
// Process: converter. A pure function of the timeline.
#ifndef TBPROF_WRITER_CONVERT_DRIVER_MEMORY_H_
#define TBPROF_WRITER_CONVERT_DRIVER_MEMORY_H_

#include <vector>

#include "writer/timeline/timeline.h"

namespace tbprof {

// From counter tracks.
void AddDriverMemory(const Timeline& timeline, std::vector<DeviceMemory>* devices);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_DRIVER_MEMORY_H_
