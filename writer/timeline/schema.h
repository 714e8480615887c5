// SPDX-License-Identifier: Apache-2.0
//
// The names of schema.def as constants: kHostCpuPlane, kCountersLine, kStepEvent, Stat::kCallSite.
#ifndef TBPROF_WRITER_TIMELINE_SCHEMA_H_
#define TBPROF_WRITER_TIMELINE_SCHEMA_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tbprof {

#define TBPROF_PLANE(id, text) inline constexpr std::string_view k##id##Plane = text;
#define TBPROF_LINE(id, text) inline constexpr std::string_view k##id##Line = text;
#define TBPROF_EVENT(id, text) inline constexpr std::string_view k##id##Event = text;
#include "writer/timeline/schema.def"

enum class StatArm : uint8_t { kInt64, kUint64, kInteger, kDouble, kText };

enum class Stat : uint8_t {
#define TBPROF_STAT(id, text, arm) k##id,
#include "writer/timeline/schema.def"
};

struct StatRow {
  std::string_view name;
  StatArm arm;
};

inline constexpr StatRow kStats[] = {
#define TBPROF_STAT(id, text, arm) {text, StatArm::k##arm},
#include "writer/timeline/schema.def"
};
inline constexpr size_t kStatCount = sizeof(kStats) / sizeof(kStats[0]);

inline constexpr std::string_view kForbiddenStats[] = {
#define TBPROF_FORBIDDEN_STAT(text) text,
#include "writer/timeline/schema.def"
};

inline constexpr std::string_view kForbiddenEvents[] = {
#define TBPROF_FORBIDDEN_EVENT(text) text,
#include "writer/timeline/schema.def"
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_TIMELINE_SCHEMA_H_
