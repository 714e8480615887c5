// SPDX-License-Identifier: Apache-2.0
//
// The peak of the memory that the CUDA driver has allocated on each device. The users of the memory are not known:
// frameworks allocate segments and distribute them themselves.
//
// Process: converter. A pure function of the timeline.
#ifndef TBPROF_WRITER_CONVERT_DRIVER_MEMORY_H_
#define TBPROF_WRITER_CONVERT_DRIVER_MEMORY_H_

#include <vector>

#include "writer/timeline/timeline.h"

namespace tbprof {

// Adds the devices that have counter tracks.
void AddDriverMemory(const Timeline& timeline, std::vector<DeviceMemory>* devices);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_DRIVER_MEMORY_H_
