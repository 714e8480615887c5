// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/driver_memory.h"

#include <algorithm>

namespace tbprof {

void AddDriverMemory(const Timeline& timeline, std::vector<DeviceMemory>* devices) {
  for (const CounterTrack& track : timeline.counters) {
    const auto index = static_cast<size_t>(track.device);
    if (track.device < 0 || index >= timeline.gpu_devices.size() || track.samples.empty()) continue;
    if (timeline.gpu_devices[index].peak_bytes <= 0) continue;
    const auto highest = std::ranges::max_element(track.samples, {}, &CounterSample::value);
    DeviceMemory device;
    device.device = static_cast<uint32_t>(index);
    device.process = track.process;
    device.peak_bytes = static_cast<int64_t>(timeline.gpu_devices[index].peak_bytes);
    device.peak_ps = highest->time_ps;
    device.complete = false;
    devices->push_back(std::move(device));
  }
}

}  // namespace tbprof
