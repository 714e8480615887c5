// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/xspace_builder.h"

#include <limits>

#include "writer/convert/torch_operations.h"

namespace tbprof {
namespace {

// A map entry: key, and a message that repeats the key as its field 1.
void PutMetadata(ByteBuffer& out, int map_field, uint32_t id, std::string_view name,
                 const std::pair<Stat, std::string>* text = nullptr, std::string_view display_name = {}) {
  const size_t entry = out.Open(BytesTag(map_field));
  PutVarintField(out, xfield::kMapKey, id);
  const size_t value = out.Open(BytesTag(xfield::kMapValue));
  PutVarintField(out, xfield::kMetadataId, id);
  PutTextField(out, xfield::kMetadataName, name);
  if (!display_name.empty()) PutTextField(out, xfield::kMetadataDisplayName, display_name);
  if (text != nullptr) {
    const size_t stat = out.Open(BytesTag(xfield::kMetadataStats));
    PutVarintField(out, xfield::kStatMetadataId, FixedStatId(text->first));
    PutTextField(out, xfield::kStatText, text->second);
    out.Close(stat);
  }
  out.Close(value);
  out.Close(entry);
}

}  // namespace

void LineBuilder::InlineText(Stat stat, std::string_view text) {
  MarkUsed(FixedStatId(stat));
  const size_t start = events_.Open(BytesTag(xfield::kEventStats));
  PutVarintField(events_, xfield::kStatMetadataId, FixedStatId(stat));
  PutTextField(events_, xfield::kStatText, text);
  events_.Close(start);
}

void LineBuilder::Double(uint32_t stat_id, double value) {
  MarkUsed(stat_id);
  const size_t start = events_.Open(BytesTag(xfield::kEventStats));
  PutVarintField(events_, xfield::kStatMetadataId, stat_id);
  PutDoubleField(events_, xfield::kStatDouble, value);
  events_.Close(start);
}

LineBuilder& PlaneBuilder::AddLine(uint64_t id, std::string_view name, uint64_t display_id) {
  LineBuilder& line = lines_.emplace_back();
  line.plane_ = this;
  line.id_ = id;
  line.name_ = name;
  line.display_id_ = display_id;
  return line;
}

uint32_t PlaneBuilder::EventId(std::string_view name) {
  return events_.try_emplace(name, static_cast<uint32_t>(events_.size() + 1)).first->second;
}

void PlaneBuilder::EventText(uint32_t event_id, Stat stat, std::string_view text) {
  MarkUsed(stat);
  event_stats_.try_emplace(event_id, stat, text);
}

uint32_t PlaneBuilder::TextId(std::string_view text) {
  // A second entry with the name of a stat would make look-ups by name fail at random.
  if (texts_.empty()) {
    for (size_t i = 0; i < kStatCount; ++i) texts_.try_emplace(kStats[i].name, static_cast<uint32_t>(i + 1));
  }
  const uint32_t id = texts_.try_emplace(text, static_cast<uint32_t>(texts_.size() + 1)).first->second;
  if (id <= kStatCount) MarkUsed(static_cast<Stat>(id - 1));
  return id;
}

void PlaneBuilder::PlaneVarint(Stat stat, int field, uint64_t value) {
  MarkUsed(stat);
  const size_t start = stats_.Open(BytesTag(xfield::kPlaneStats));
  PutVarintField(stats_, xfield::kStatMetadataId, FixedStatId(stat));
  PutVarintField(stats_, field, value);
  stats_.Close(start);
}

void PlaneBuilder::PlaneText(Stat stat, std::string_view text) {
  MarkUsed(stat);
  const size_t start = stats_.Open(BytesTag(xfield::kPlaneStats));
  PutVarintField(stats_, xfield::kStatMetadataId, FixedStatId(stat));
  PutTextField(stats_, xfield::kStatText, text);
  stats_.Close(start);
}

ByteBuffer PlaneBuilder::Header() const {
  ByteBuffer out;
  if (id_ != 0) PutVarintField(out, xfield::kPlaneId, static_cast<uint64_t>(id_));
  PutTextField(out, xfield::kPlaneName, name_);

  // Sorted by id, so that the same timeline gives the same bytes.
  std::vector<std::string_view> names(events_.size());
  for (const auto& [name, id] : events_) names[id - 1] = name;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto text = event_stats_.find(static_cast<uint32_t>(i + 1));
    // On a host plane xprof takes `left:right` for an operation, whatever `tf_op` contains. The viewer shows the
    // display name.
    const bool hides = name_.starts_with(kHostCpuPlane) && !OperationOfName(names[i]).empty();
    std::string hidden(hides ? names[i] : std::string_view());
    if (hides) hidden.insert(hidden.find(':') + 1, 1, ' ');
    std::string_view display_name = hides ? names[i] : std::string_view();
    if (const auto shown = display_names_.find(static_cast<uint32_t>(i + 1)); shown != display_names_.end()) {
      display_name = shown->second;
    }
    PutMetadata(out, xfield::kPlaneEventMetadata, static_cast<uint32_t>(i + 1), hides ? hidden : names[i],
                text == event_stats_.end() ? nullptr : &text->second, display_name);
  }
  for (size_t i = 0; i < kStatCount; ++i) {
    if (used_stats_.test(i)) {
      PutMetadata(out, xfield::kPlaneStatMetadata, static_cast<uint32_t>(i + 1), kStats[i].name);
    }
  }
  if (texts_.size() > kStatCount) {
    std::vector<std::string_view> texts(texts_.size() - kStatCount);
    for (const auto& [text, id] : texts_) {
      if (id > kStatCount) texts[id - kStatCount - 1] = text;
    }
    for (size_t i = 0; i < texts.size(); ++i) {
      PutMetadata(out, xfield::kPlaneStatMetadata, static_cast<uint32_t>(kStatCount + i + 1), texts[i]);
    }
  }
  const std::string_view stats = stats_.view();
  if (!stats.empty()) {
    uint8_t* p = out.Reserve(stats.size());
    std::memcpy(p, stats.data(), stats.size());
    out.Commit(p + stats.size());
  }
  return out;
}

absl::Status XSpaceWriter::Append(std::string_view bytes) {
  written_ += bytes.size();
  return sink_->Append(bytes);
}

absl::Status XSpaceWriter::Write(PlaneBuilder& plane) {
  const ByteBuffer header = plane.Header();
  uint64_t size = header.size();
  std::vector<ByteBuffer> line_headers;
  line_headers.reserve(plane.lines_.size());
  for (const LineBuilder& line : plane.lines_) {
    ByteBuffer fields;
    PutVarintField(fields, xfield::kLineId, line.id_);
    PutTextField(fields, xfield::kLineName, line.name_);
    if (line_start_ns_ != 0) PutVarintField(fields, xfield::kLineTimestamp, line_start_ns_);
    if (line.display_id_ != 0) PutVarintField(fields, xfield::kLineDisplayId, line.display_id_);
    const uint64_t line_size = fields.size() + line.events_.size();
    ByteBuffer& out = line_headers.emplace_back();
    uint8_t* p = out.Reserve(1 + kMaxVarint + fields.size());
    *p++ = BytesTag(xfield::kPlaneLines);
    p = PutVarint(p, line_size);
    std::memcpy(p, fields.view().data(), fields.size());
    out.Commit(p + fields.size());
    size += out.size() + line.events_.size();
  }
  // protobuf parses at most INT_MAX bytes; the rest of the file (other planes, warnings) is small.
  constexpr uint64_t kLimit = std::numeric_limits<int32_t>::max() - (1 << 20);
  if (written_ + size > kLimit) {
    return absl::ResourceExhaustedError(StrCat("plane ", plane.name_, " would make the file ", written_ + size,
                                               " bytes long; TensorBoard reads at most 2147483647"));
  }
  ByteBuffer prefix;
  uint8_t* p = prefix.Reserve(1 + kMaxVarint);
  *p++ = BytesTag(xfield::kSpacePlanes);
  prefix.Commit(PutVarint(p, size));
  if (absl::Status status = Append(prefix.view()); !status.ok()) return status;
  if (absl::Status status = Append(header.view()); !status.ok()) return status;
  for (size_t i = 0; i < line_headers.size(); ++i) {
    if (absl::Status status = Append(line_headers[i].view()); !status.ok()) return status;
    if (absl::Status status = Append(plane.lines_[i].events_.view()); !status.ok()) return status;
    plane.lines_[i].events_.Release();
  }
  return absl::OkStatus();
}

absl::Status XSpaceWriter::Finish(std::string_view host, const std::vector<std::string>& errors,
                                  const std::vector<std::string>& warnings) {
  ByteBuffer out;
  for (const std::string& text : errors) PutTextField(out, xfield::kSpaceErrors, text);
  for (const std::string& text : warnings) PutTextField(out, xfield::kSpaceWarnings, text);
  PutTextField(out, xfield::kSpaceHostnames, host);
  return Append(out.view());
}

}  // namespace tbprof
