// SPDX-License-Identifier: Apache-2.0
//
// Finds the operation of the forward pass for each node of PyTorch's backward pass, across threads, for arrows between
// them.
//
// Process: converter. Bounded: beyond kMostLinks the shortest nodes have no link.
#ifndef TBPROF_WRITER_CONVERT_TORCH_LINKS_H_
#define TBPROF_WRITER_CONVERT_TORCH_LINKS_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

inline constexpr size_t kMostLinks = 20'000;

class TorchLinks {
 public:
  explicit TorchLinks(const Timeline& timeline);

  // The link of an event: from 1 up, the same for an operation and its nodes, otherwise unique; 0: it has no link.
  uint32_t Of(uint32_t thread, size_t event) const {
    const auto found = links_.find({thread, static_cast<uint32_t>(event)});
    return found == links_.end() ? 0 : found->second;
  }
  size_t size() const { return links_.size(); }

 private:
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, uint32_t> links_;
};

// Arrows begin at operations and end at nodes.
inline bool EndsTorchLink(const EventType& type) { return type.origin == RangeOrigin::kTorchBackward; }

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_TORCH_LINKS_H_
