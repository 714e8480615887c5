// SPDX-License-Identifier: Apache-2.0
//
// Builds an XSpace (writer/proto/xplane.proto) as bytes, plane by plane, with interned names.
//
//   PlaneBuilder plane(/*id=*/0, kHostCpuPlane);
//   LineBuilder& line = plane.AddLine(/*id=*/1, "python/4711");
//   line.Begin(plane.EventId("poll"), offset_ps, duration_ps);
//   line.Text(Stat::kCallSite, plane.TextId("Wait (queue.cc:7)"));
//   line.End();
//   XSpaceWriter writer(&sink);
//   writer.Write(plane);
//   writer.Finish("myhost", errors, warnings);
//
// The caller appends the events of a line in the order of the file. All text must be valid UTF-8.
//
// Process: converter. Single-threaded.
#ifndef TBPROF_WRITER_OUTPUTS_XSPACE_BUILDER_H_
#define TBPROF_WRITER_OUTPUTS_XSPACE_BUILDER_H_

#include <bitset>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "writer/base/proto_encoder.h"
#include "writer/base/sink.h"
#include "writer/base/text.h"
#include "writer/timeline/schema.h"

namespace tbprof {

// Field numbers of the schema. On the writing side, they are defined only here.
namespace xfield {
inline constexpr int kSpacePlanes = 1, kSpaceErrors = 2, kSpaceWarnings = 3, kSpaceHostnames = 4;
inline constexpr int kPlaneId = 1, kPlaneName = 2, kPlaneLines = 3, kPlaneEventMetadata = 4, kPlaneStatMetadata = 5,
                     kPlaneStats = 6;
inline constexpr int kLineId = 1, kLineName = 2, kLineTimestamp = 3, kLineEvents = 4, kLineDisplayId = 10,
                     kLineDisplayName = 11;
inline constexpr int kEventMetadataId = 1, kEventOffset = 2, kEventDuration = 3, kEventStats = 4;
inline constexpr int kStatMetadataId = 1, kStatDouble = 2, kStatUint64 = 3, kStatInt64 = 4, kStatText = 5, kStatRef = 7;
inline constexpr int kMetadataId = 1, kMetadataName = 2, kMetadataDisplayName = 4, kMetadataStats = 5;
inline constexpr int kMapKey = 1, kMapValue = 2;
}  // namespace xfield

// The names in schema.def have fixed ids, which come first; a plane writes those that it used.
inline constexpr uint32_t FixedStatId(Stat stat) { return static_cast<uint32_t>(stat) + 1; }

class PlaneBuilder;

class LineBuilder {
 public:
  void Begin(uint32_t event_id, int64_t offset_ps, int64_t duration_ps);
  void End() {
    events_.Close(start_);
    ++count_;
  }

  // Stats of the event that Begin started.
  void Int64(Stat stat, int64_t value) { Varint(FixedStatId(stat), xfield::kStatInt64, static_cast<uint64_t>(value)); }
  void Uint64(Stat stat, uint64_t value) { Varint(FixedStatId(stat), xfield::kStatUint64, value); }
  void Text(Stat stat, uint32_t text_id) { Varint(FixedStatId(stat), xfield::kStatRef, text_id); }
  void InlineText(Stat stat, std::string_view text);
  void Double(uint32_t stat_id, double value);
  void Double(Stat stat, double value) { Double(FixedStatId(stat), value); }

  // Expected size, to avoid copies while growing.
  void ReserveEvents(size_t events, size_t bytes_per_event) { events_.Reserve(events * bytes_per_event); }

 private:
  friend class PlaneBuilder;
  friend class XSpaceWriter;
  void Varint(uint32_t stat_id, int field, uint64_t value);
  void MarkUsed(uint32_t stat_id);

  PlaneBuilder* plane_ = nullptr;
  uint64_t id_ = 0;
  uint64_t display_id_ = 0;
  std::string name_;
  ByteBuffer events_;
  size_t start_ = 0;
  uint64_t count_ = 0;
};

class PlaneBuilder {
 public:
  PlaneBuilder(int64_t id, std::string_view name) : id_(id), name_(name) {}
  PlaneBuilder(const PlaneBuilder&) = delete;
  PlaneBuilder& operator=(const PlaneBuilder&) = delete;

  // The reference stays valid. `display_id` 0: rows are ordered by id.
  LineBuilder& AddLine(uint64_t id, std::string_view name, uint64_t display_id = 0);

  // Returns one id per name, from 1.
  uint32_t EventId(std::string_view name);
  // A stat of all events of that name: shown with each event, but written once. One per name.
  void EventText(uint32_t event_id, Stat stat, std::string_view text);
  // The text that the viewer shows instead of a name that its reader would misinterpret.
  void ShowAs(uint32_t event_id, std::string_view display_name) { display_names_.try_emplace(event_id, display_name); }
  // The id of a stat name that is not in schema.def.
  uint32_t StatId(std::string_view name) { return TextId(name); }
  // The id for LineBuilder::Text. Names of stats and texts share one table, as readers expect.
  uint32_t TextId(std::string_view text);
  bool HasText(std::string_view text) const { return texts_.contains(text); }

  void PlaneInt64(Stat stat, int64_t value) { PlaneVarint(stat, xfield::kStatInt64, static_cast<uint64_t>(value)); }
  void PlaneUint64(Stat stat, uint64_t value) { PlaneVarint(stat, xfield::kStatUint64, value); }
  void PlaneText(Stat stat, std::string_view text);

  const std::string& name() const { return name_; }
  size_t line_count() const { return lines_.size(); }

 private:
  friend class LineBuilder;
  friend class XSpaceWriter;
  void PlaneVarint(Stat stat, int field, uint64_t value);
  void MarkUsed(Stat stat) { used_stats_.set(static_cast<size_t>(stat)); }
  ByteBuffer Header() const;  // id, name, metadata, stats: everything before the lines

  int64_t id_;
  std::string name_;
  std::deque<LineBuilder> lines_;
  absl::flat_hash_map<std::string, uint32_t, TextHash, TextEqual> events_;
  absl::flat_hash_map<std::string, uint32_t, TextHash, TextEqual> texts_;
  std::map<uint32_t, std::pair<Stat, std::string>> event_stats_;
  absl::flat_hash_map<uint32_t, std::string> display_names_;
  std::bitset<kStatCount> used_stats_;
  ByteBuffer stats_;
};
static_assert(kStatCount < 128, "the id of a stat is one byte of the file");

inline void LineBuilder::MarkUsed(uint32_t stat_id) {
  if (stat_id <= kStatCount) plane_->used_stats_.set(stat_id - 1);
}

inline void LineBuilder::Begin(uint32_t event_id, int64_t offset_ps, int64_t duration_ps) {
  start_ = events_.Open(BytesTag(xfield::kLineEvents));
  uint8_t* p = events_.Reserve(3 * (1 + kMaxVarint));
  *p++ = VarintTag(xfield::kEventMetadataId);
  p = PutVarint(p, event_id);
  // A member of a oneof: it is written even if it is 0, or `data` would not be set.
  *p++ = VarintTag(xfield::kEventOffset);
  p = PutVarint(p, static_cast<uint64_t>(offset_ps));
  if (duration_ps != 0) {
    *p++ = VarintTag(xfield::kEventDuration);
    p = PutVarint(p, static_cast<uint64_t>(duration_ps));
  }
  events_.Commit(p);
}

inline void LineBuilder::Varint(uint32_t stat_id, int field, uint64_t value) {
  MarkUsed(stat_id);
  uint8_t* p = events_.Reserve(4 + 2 * kMaxVarint);
  p[0] = BytesTag(xfield::kEventStats);
  p[2] = VarintTag(xfield::kStatMetadataId);
  uint8_t* end = PutVarint(p + 3, stat_id);
  *end++ = VarintTag(field);
  end = PutVarint(end, value);
  p[1] = static_cast<uint8_t>(end - p - 2);
  events_.Commit(end);
}

class XSpaceWriter {
 public:
  // `line_start_ns`: the start of all lines, relative to the start that several profiles agreed on.
  explicit XSpaceWriter(Sink* sink, uint64_t line_start_ns = 0) : sink_(sink), line_start_ns_(line_start_ns) {}
  // Writes the plane and releases its memory piece by piece.
  absl::Status Write(PlaneBuilder& plane);
  absl::Status Finish(std::string_view host, const std::vector<std::string>& errors,
                      const std::vector<std::string>& warnings);

 private:
  absl::Status Append(std::string_view bytes);

  Sink* sink_;
  uint64_t line_start_ns_;
  uint64_t written_ = 0;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_XSPACE_BUILDER_H_
