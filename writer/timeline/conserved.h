// SPDX-License-Identifier: Apache-2.0
//
// For each kind of recorded item: how many were made, how many are events of the profile, and how many are counted by a
// cause instead.
#ifndef TBPROF_WRITER_TIMELINE_CONSERVED_H_
#define TBPROF_WRITER_TIMELINE_CONSERVED_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tbprof {

enum class ConservedKind : uint8_t {
#define TBPROF_CONSERVED_KIND(id, text) k##id,
#include "writer/timeline/conserved.def"
  kKinds,
  kNone = kKinds,
};

enum class ConservedCause : uint8_t {
#define TBPROF_CONSERVED_CAUSE(id, text) k##id,
#include "writer/timeline/conserved.def"
  kCauses,
};

std::string_view NameOf(ConservedKind kind);
std::string_view NameOf(ConservedCause cause);

struct ConservedRow {
  ConservedKind kind = ConservedKind::kNone;
  std::optional<uint64_t> made;  // none: not counted where they are made
  uint64_t published = 0;
  uint64_t rest[static_cast<size_t>(ConservedCause::kCauses)] = {};
  uint64_t left_at_most = 0;  // upper limit of rest[kLeft]
  int64_t missing = 0;        // made minus all others, beyond the number that may be missing; below 0: too many
  std::optional<bool> holds;  // none: not known
};

struct Event;
struct EventType;
struct GpuEvent;
// The kind of an event on the line of a thread or a stream; kNone: the event is not a call.
ConservedKind ConservedKindOf(const EventType& type);
ConservedKind ConservedKindOf(const GpuEvent& event);

}  // namespace tbprof

#endif  // TBPROF_WRITER_TIMELINE_CONSERVED_H_
