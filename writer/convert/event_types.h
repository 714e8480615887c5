// SPDX-License-Identifier: Apache-2.0
//
// The types of events: one for each name and kind, and the operations of hooks by number.
//
// Process: converter, one thread. Untrusted: names and numbers.
#ifndef TBPROF_WRITER_CONVERT_EVENT_TYPES_H_
#define TBPROF_WRITER_CONVERT_EVENT_TYPES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "writer/spool/spool_facts.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

// An index into Timeline::types that means none.
inline constexpr uint16_t kNoType = 65535;
// The limit of types.
inline constexpr size_t kMaxEventTypes = 60000;

class EventTypes {
 public:
  EventTypes(const SpoolFacts* facts, Timeline* timeline) : facts_(*facts), timeline_(*timeline) {}

  // Returns an index into Timeline::types, and creates the type if needed; kNoType: there are too many.
  uint16_t Find(std::string_view name, EventFamily family, ObjectKind object, ValueKind value,
                RangeOrigin origin = RangeOrigin::kProgram);
  // The type of an operation of a segment; kNoType: no such operation.
  uint16_t OfOperation(uint32_t segment, uint32_t operation);

 private:
  const SpoolFacts& facts_;
  Timeline& timeline_;
  absl::flat_hash_map<std::string, uint16_t> ids_;
  std::map<uint32_t, std::vector<uint16_t>> of_operations_;
  std::vector<uint16_t>* of_segment_ = nullptr;  // of segment_, the latest segment that was requested
  uint32_t segment_ = 0;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_EVENT_TYPES_H_
