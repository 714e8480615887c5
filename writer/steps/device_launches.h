// SPDX-License-Identifier: Apache-2.0
//
// The device launches of one thread of a process: the input of the step detection.
//
//   const DeviceLaunches device = LaunchesOnDevices(timeline, process);
//   if (!device.launches.empty()) ...    // of device.thread, in order
//
// Process: converter, one thread. Untrusted: all of the timeline.
#ifndef TBPROF_WRITER_STEPS_DEVICE_LAUNCHES_H_
#define TBPROF_WRITER_STEPS_DEVICE_LAUNCHES_H_

#include <cstdint>
#include <vector>

#include "writer/steps/step_detector.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

struct DeviceLaunches {
  std::vector<StepLaunch> launches;  // and the waits between them; empty: no thread launches work other than trials
  uint32_t thread = 0;
};

DeviceLaunches LaunchesOnDevices(const Timeline& timeline, uint32_t process);

}  // namespace tbprof

#endif  // TBPROF_WRITER_STEPS_DEVICE_LAUNCHES_H_
