// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/xspace_shift.h"

#include <cstring>
#include <optional>

#include "writer/base/file_window.h"
#include "writer/base/proto_encoder.h"
#include "writer/base/text.h"
#include "writer/outputs/xspace_builder.h"

namespace tbprof {
namespace {

constexpr std::string_view kEnvironment = "Task Environment";
constexpr std::string_view kStart = "profile_start_time";
constexpr std::string_view kStop = "profile_stop_time";
constexpr uint64_t kMostShiftNs = uint64_t{86'400} * 30 * 1'000'000'000;  // far below the limit of the reader's int64

absl::Status Broken() { return absl::DataLossError("not a whole XSpace"); }

void PutBytes(ByteBuffer& out, std::string_view bytes) {
  if (bytes.empty()) return;
  uint8_t* const p = out.Reserve(bytes.size());
  memcpy(p, bytes.data(), bytes.size());
  out.Commit(p + bytes.size());
}

void PutMessage(ByteBuffer& out, int field, std::string_view bytes) {
  uint8_t* p = out.Reserve(1 + kMaxVarint);
  *p++ = BytesTag(field);
  out.Commit(PutVarint(p, bytes.size()));
  PutBytes(out, bytes);
}

// Calls `take` with each field of a message and with the field's bytes, including the tag. Returns false if the message
// is corrupt.
template <typename Take>
bool ForEachField(std::string_view message, const Take& take) {
  FieldReader reader(message);
  size_t begin = 0;
  while (reader.Next()) {
    if (reader.type() == 2 && reader.bytes().size() != reader.length()) return false;
    if (!take(reader, message.substr(begin, reader.position() - begin))) return false;
    begin = reader.position();
  }
  return !reader.malformed() && begin == message.size();
}

struct PlaneFacts {
  std::string_view name;
  std::optional<uint64_t> start_id, stop_id;  // ids of the stat names
};

bool ReadPlane(std::string_view plane, PlaneFacts* facts) {
  return ForEachField(plane, [&](const FieldReader& field, std::string_view) {
    if (field.number() == xfield::kPlaneName && field.type() == 2) facts->name = field.bytes();
    if (field.number() != xfield::kPlaneStatMetadata || field.type() != 2) return true;
    uint64_t id = 0;
    std::string_view name;
    const bool whole = ForEachField(field.bytes(), [&](const FieldReader& entry, std::string_view) {
      if (entry.number() == xfield::kMapKey && entry.type() == 0) id = entry.value();
      if (entry.number() != xfield::kMapValue || entry.type() != 2) return true;
      return ForEachField(entry.bytes(), [&](const FieldReader& value, std::string_view) {
        if (value.number() == xfield::kMetadataName && value.type() == 2) name = value.bytes();
        return true;
      });
    });
    if (name == kStart) facts->start_id = id;
    if (name == kStop) facts->stop_id = id;
    return whole;
  });
}

struct StatFacts {
  uint64_t id = 0, value = 0;
};

bool ReadStat(std::string_view stat, StatFacts* facts) {
  return ForEachField(stat, [&](const FieldReader& field, std::string_view) {
    if (field.number() == xfield::kStatMetadataId && field.type() == 0) facts->id = field.value();
    if ((field.number() == xfield::kStatUint64 || field.number() == xfield::kStatInt64) && field.type() == 0) {
      facts->value = field.value();
    }
    return true;
  });
}

bool ShiftLine(std::string_view line, uint64_t later_ns, ByteBuffer* out) {
  uint64_t timestamp = 0;
  const bool whole = ForEachField(line, [&](const FieldReader& field, std::string_view bytes) {
    if (field.number() == xfield::kLineTimestamp && field.type() == 0) {
      timestamp = field.value();
    } else {
      PutBytes(*out, bytes);
    }
    return true;
  });
  if (timestamp + later_ns != 0) PutVarintField(*out, xfield::kLineTimestamp, timestamp + later_ns);
  return whole;
}

bool ShiftPlane(std::string_view plane, const XspaceShift& shift, ByteBuffer* out) {
  PlaneFacts facts;
  if (!ReadPlane(plane, &facts)) return false;
  const bool environment = facts.name == kEnvironment && shift.start_unix_ns != 0;
  return ForEachField(plane, [&](const FieldReader& field, std::string_view bytes) {
    if (field.number() == xfield::kPlaneLines && field.type() == 2) {
      ByteBuffer line;
      if (!ShiftLine(field.bytes(), shift.later_ns, &line)) return false;
      PutMessage(*out, xfield::kPlaneLines, line.view());
      return true;
    }
    if (environment && field.number() == xfield::kPlaneStats && field.type() == 2) {
      StatFacts stat;
      if (!ReadStat(field.bytes(), &stat)) return false;
      if (facts.start_id == stat.id) {
        ByteBuffer changed;
        PutVarintField(changed, xfield::kStatMetadataId, stat.id);
        PutVarintField(changed, xfield::kStatUint64, shift.start_unix_ns);
        PutMessage(*out, xfield::kPlaneStats, changed.view());
        return true;
      }
    }
    PutBytes(*out, bytes);
    return true;
  });
}

}  // namespace

absl::StatusOr<XspaceTimes> TimesOf(std::string_view xspace) {
  XspaceTimes times;
  const bool whole = ForEachField(xspace, [&](const FieldReader& field, std::string_view) {
    if (field.number() != xfield::kSpacePlanes || field.type() != 2) return true;
    PlaneFacts facts;
    if (!ReadPlane(field.bytes(), &facts)) return false;
    if (facts.name != kEnvironment) return true;
    return ForEachField(field.bytes(), [&](const FieldReader& member, std::string_view) {
      if (member.number() != xfield::kPlaneStats || member.type() != 2) return true;
      StatFacts stat;
      if (!ReadStat(member.bytes(), &stat)) return false;
      if (facts.start_id == stat.id) times.start_unix_ns = stat.value;
      if (facts.stop_id == stat.id) times.stop_unix_ns = stat.value;
      return true;
    });
  });
  if (!whole) return Broken();
  return times;
}

absl::Status ShiftXspace(std::string_view xspace, const XspaceShift& shift, Sink& sink) {
  if (shift.later_ns > kMostShiftNs) {
    return absl::OutOfRangeError(StrCat("it began ", shift.later_ns / 1'000'000'000, " s after the first of them"));
  }
  absl::Status status;
  bool host_written = shift.host.empty();
  const bool whole = ForEachField(xspace, [&](const FieldReader& field, std::string_view bytes) {
    ByteBuffer out;
    if (field.number() == xfield::kSpacePlanes && field.type() == 2) {
      ByteBuffer plane;
      if (!ShiftPlane(field.bytes(), shift, &plane)) return false;
      ByteBuffer header;
      uint8_t* p = header.Reserve(1 + kMaxVarint);
      *p++ = BytesTag(xfield::kSpacePlanes);
      header.Commit(PutVarint(p, plane.size()));
      status = sink.Append(header.view());
      if (status.ok()) status = sink.Append(plane.view());
    } else if (field.number() == xfield::kSpaceHostnames && field.type() == 2 && !host_written) {
      host_written = true;
      PutMessage(out, xfield::kSpaceHostnames, shift.host);
      status = sink.Append(out.view());
    } else {
      status = sink.Append(bytes);
    }
    return status.ok();
  });
  if (!status.ok()) return status;
  if (!whole) return Broken();
  if (host_written) return absl::OkStatus();
  ByteBuffer out;
  PutMessage(out, xfield::kSpaceHostnames, shift.host);
  return sink.Append(out.view());
}

}  // namespace tbprof
