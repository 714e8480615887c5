// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/event_types.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/timeline/schema.h"

namespace tbprof {
namespace {

EventFamily FamilyOf(uint32_t family) {
  switch (family) {
    case kFamilyThread:
      return EventFamily::kThread;
    case kFamilyLock:
      return EventFamily::kLock;
    case kFamilySleep:
      return EventFamily::kSleep;
    case kFamilyIo:
      return EventFamily::kIo;
    case kFamilyProcess:
      return EventFamily::kProcess;
    case kFamilyMalloc:
      return EventFamily::kMemory;
    default:
      return EventFamily::kOther;
  }
}
ObjectKind ObjectOf(ObjectRole role) {
  switch (role) {
    case ObjectRole::kAddress:
      return ObjectKind::kAddress;
    case ObjectRole::kDescriptor:
      return ObjectKind::kDescriptor;
    case ObjectRole::kProcessId:
      return ObjectKind::kProcessId;
    case ObjectRole::kThread:
      return ObjectKind::kThread;
    default:
      return ObjectKind::kNone;
  }
}
ValueKind ValueOf(const Operation& row) {
  if (strcmp(row.name, "pthread_create") == 0) return ValueKind::kFlowOut;
  switch (row.result) {
    case ResultRole::kBytes:
      return ValueKind::kBytes;
    case ResultRole::kProcessId:
      return ValueKind::kProcessId;
    case ResultRole::kDescriptor:
    case ResultRole::kCount:
      return ValueKind::kResult;
    default:
      return ValueKind::kNone;
  }
}

}  // namespace

uint16_t EventTypes::Find(std::string_view given, EventFamily family, ObjectKind object, ValueKind value,
                          RangeOrigin origin) {
  const std::string name = ValidUtf8(given);
  // Only annotations may have the name of another type: their origin is part of the key.
  const int kind = family == EventFamily::kAnnotation ? 1 + static_cast<int>(origin) : 0;
  const std::string key = StrCat(name, "\n", static_cast<int>(object), "\n", static_cast<int>(value), "\n", kind);
  if (timeline_.types.size() >= kMaxEventTypes && ids_.find(key) == ids_.end()) return kNoType;
  const auto [entry, added] = ids_.try_emplace(key, static_cast<uint16_t>(timeline_.types.size()));
  if (added) {
    EventType type;
    // Readers of the profile take these names for a step or for a loop of TensorFlow. Only operations
    // of a hostile target have them.
    const bool reserved =
        name.rfind("train", 0) == 0 || name.rfind("test", 0) == 0 ||
        std::find(std::begin(kForbiddenEvents), std::end(kForbiddenEvents), name) != std::end(kForbiddenEvents);
    type.name = reserved ? StrCat("call ", name) : name;
    type.family = family;
    type.object = object;
    type.value = value;
    type.origin = origin;
    timeline_.types.push_back(std::move(type));
  }
  return entry->second;
}

uint16_t EventTypes::OfOperation(uint32_t segment, uint32_t operation) {
  if (of_segment_ == nullptr || segment != segment_) {
    of_segment_ = &of_operations_[segment];
    segment_ = segment;
  }
  auto& types = *of_segment_;
  if (types.empty()) {
    const auto found = facts_.segments.find(segment);
    if (found == facts_.segments.end()) return kNoType;
    for (const Operation& row : found->second.operations) {
      types.push_back(Find(row.name, FamilyOf(row.family), ObjectOf(row.object), ValueOf(row)));
    }
    if (types.empty()) types.push_back(kNoType);
  }
  return operation < types.size() ? types[operation] : kNoType;
}

}  // namespace tbprof
