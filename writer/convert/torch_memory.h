// SPDX-License-Identifier: Apache-2.0
//
// What PyTorch's allocators of device memory have reported: each tensor's memory, as it came and went.
//
//   TorchMemory memory;
//   memory.Take(process, thread, record);                      // as often as there are reports
//   timeline.tensor_memory = memory.Finish(timeline, to_ps, &timeline.device_memory);   // of a finished timeline
//
// Memory: bounded; of too many, those between a low and a high are left out. Process: converter, one thread.
#ifndef TBPROF_WRITER_CONVERT_TORCH_MEMORY_H_
#define TBPROF_WRITER_CONVERT_TORCH_MEMORY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <tuple>
#include <vector>

#include "writer/spool/record_view.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

class TorchMemory {
 public:
  static constexpr size_t kMostOfADevice = 1u << 16;
  // The page draws 1000 points at most and parses all of them first.
  static constexpr size_t kMostKept = 4000;

  // `process`, `thread`: indices into the timeline. False: no report that can be.
  bool Take(uint32_t process, uint32_t thread, const RecordView& view);
  // In order of time, with the operation and the kind of each. Adds to `devices` what each held at its peak.
  std::vector<TensorMemory> Finish(const Timeline& timeline, const std::function<int64_t(uint64_t)>& to_ps,
                                   std::vector<DeviceMemory>* devices);

 private:
  struct Reports {
    std::vector<TensorMemory> reports;  // times are ticks
    bool thinned = false;               // then a report may be without its other half
  };
  std::map<std::tuple<uint32_t, uint32_t, uint16_t>, Reports> devices_;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_TORCH_MEMORY_H_
