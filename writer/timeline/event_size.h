// SPDX-License-Identifier: Apache-2.0
//
// Computes the bytes that an event of a host thread takes in the xplane file, before it is written: the budget is in
// bytes, and building a timeline twice to meet it would double the time of a capture. Exact to a few bytes, except for
// texts that are written in place (objects beyond those that share a text, error texts without a name).
//
// Process: converter. Pure functions.
#ifndef TBPROF_WRITER_TIMELINE_EVENT_SIZE_H_
#define TBPROF_WRITER_TIMELINE_EVENT_SIZE_H_

#include <cstdint>

#include "writer/base/proto_encoder.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

// Bytes of a stat without its value: tag and length, tag and number of its name, tag of its value.
inline constexpr uint64_t kStatBytes = 5;
// Bytes of the number of a name or a text: most files have more than 127 and less than 16,384 of them.
inline constexpr uint64_t kReferenceBytes = 2;
// Bytes of the id of an arrow, which is distinct from the ids in the other files of a run.
inline constexpr uint64_t kFlowBytes = 9;
inline constexpr uint64_t kTextStatBytes = kStatBytes + kReferenceBytes;

// `event`: an Event, or a RawEvent whose times and line are not known yet. `offset_ps`: an offset near the window's end
// is right for most events. `duration_ps`: 0 for an instant.
template <typename AnyEvent>
uint64_t EventBytes(const EventType& type, const AnyEvent& event, bool has_call_site, uint64_t offset_ps,
                    uint64_t duration_ps) {
  constexpr uint64_t kHeader = 2;
  const auto number = [](uint64_t value) { return kStatBytes + VarintSize(value); };
  uint64_t bytes = kHeader + 1 + kReferenceBytes + 1 + VarintSize(offset_ps);
  if (duration_ps != 0) bytes += 1 + VarintSize(duration_ps);
  if (has_call_site) bytes += kTextStatBytes;
  switch (type.object) {
    case ObjectKind::kNone:
      break;
    case ObjectKind::kAddress:
    case ObjectKind::kThread:
      if (event.object != 0) bytes += kTextStatBytes;
      break;
    case ObjectKind::kDescriptor:
      bytes += number(event.object);
      break;
    case ObjectKind::kProcessId:
    case ObjectKind::kStream:
      if (event.object != 0 && HasObjectToShow(type, event)) bytes += number(event.object);
      break;
  }
  if (event.error != 0) bytes += kTextStatBytes;
  if ((event.flags & (Event::kClippedAtStart | Event::kClippedAtEnd)) != 0) bytes += kStatBytes + sizeof("start");
  if ((event.flags & Event::kOpen) != 0) bytes += number(1);
  switch (type.value) {
    case ValueKind::kNone:
      break;
    case ValueKind::kCorrelation:
      if (event.value != 0) bytes += number(static_cast<uint64_t>(event.value));
      break;
    case ValueKind::kFlowOut:
    case ValueKind::kFlowIn:
      if (event.value != 0) bytes += kStatBytes + kFlowBytes;
      break;
    case ValueKind::kPayload:
    case ValueKind::kPayloadUnsigned:
    case ValueKind::kSequence:
      bytes += number(static_cast<uint64_t>(event.value));
      break;
    case ValueKind::kPayloadDouble:
      bytes += kStatBytes + sizeof(double);
      break;
    case ValueKind::kBytes:
    case ValueKind::kResult:
    case ValueKind::kProcessId:
    case ValueKind::kSignal:
      if (HasValueToShow(type, event)) bytes += number(static_cast<uint64_t>(event.value));
      break;
  }
  if (event.detail != 0) bytes += kTextStatBytes;
  // The line, and the stack if it has callers; nearly all have some.
  if (event.python != 0) bytes += 2 * kTextStatBytes;
  return bytes;
}

}  // namespace tbprof

#endif  // TBPROF_WRITER_TIMELINE_EVENT_SIZE_H_
