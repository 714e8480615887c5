// SPDX-License-Identifier: Apache-2.0
//
// The reports of PyTorch's allocators of device memory: the allocation and the release of each tensor's memory.
//
//   TorchMemory memory;
//   memory.Take(process, thread, record);                      // for each report
//   timeline.tensor_memory = memory.Finish(timeline, to_ps, &timeline.device_memory);   // of a finished timeline
//
// Memory: bounded; of too many reports, those between a minimum and a maximum are left out. Process: converter, one
// thread.
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

  // `process`, `thread`: indices into the timeline. Returns false if the report is not valid.
  bool Take(uint32_t process, uint32_t thread, const RecordView& view);
  // In order of time, with the operation and the kind of each. Adds the peak of each device to `devices`.
  std::vector<TensorMemory> Finish(const Timeline& timeline, const std::function<int64_t(uint64_t)>& to_ps,
                                   std::vector<DeviceMemory>* devices);

 private:
  struct Reports {
    std::vector<TensorMemory> reports;  // times are ticks
    bool thinned = false;               // a report may lack its counterpart
  };
  std::map<std::tuple<uint32_t, uint32_t, uint16_t>, Reports> devices_;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_TORCH_MEMORY_H_
