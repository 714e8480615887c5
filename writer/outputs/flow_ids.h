// SPDX-License-Identifier: Apache-2.0
//
// Values of the stat `flow`, which draws an arrow: the direction in bits 0 and 1, an id in bits 2 to 57, the reader's
// category above.
//
// Process: converter.
#ifndef TBPROF_WRITER_OUTPUTS_FLOW_IDS_H_
#define TBPROF_WRITER_OUTPUTS_FLOW_IDS_H_

#include <cstdint>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "writer/base/crc32c.h"

namespace tbprof {

// Ids are dense within the file, and different from those of the other files of a run.
class FlowIds {
 public:
  explicit FlowIds(std::string_view host) : file_((uint64_t{Crc32c(0, host.data(), host.size())} & 0xFFFFFF) << 32) {}

  uint64_t Value(int64_t flow, bool begins) {
    return (file_ | ids_.try_emplace(flow, ids_.size() + 1).first->second) << 2 | Direction(begins);
  }
  // From a call to the work of a device that it caused, like the arrows that the reader draws itself.
  uint64_t ValueOfCall(uint64_t correlation, bool begins) const {
    return kGpuLaunch << 58 | (file_ | kOfCalls | (correlation & (kOfCalls - 1))) << 2 | Direction(begins);
  }

 private:
  static constexpr uint64_t kGpuLaunch = 9;  // XLA's ContextType
  static constexpr uint64_t kOfCalls = uint64_t{1} << 31;
  static uint64_t Direction(bool begins) { return begins ? 2 : 1; }

  uint64_t file_;
  absl::flat_hash_map<int64_t, uint64_t> ids_;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_FLOW_IDS_H_
