// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iterator>
#include <limits>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/stubs/common.h>
#include <google/protobuf/wire_format_lite.h>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "writer/base/text.h"
#include "writer/outputs/xplane.h"
#include "writer/timeline/schema.h"

namespace tbprof {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

using TextSet = absl::flat_hash_set<std::string, TextHash, TextEqual>;

// The reader multiplies timestamp_ns by 1000 in int64.
constexpr int64_t kMaxTimestampNs = 9'000'000'000'000'000;
constexpr uint32_t kMostLintedBytes = 64 << 20;
constexpr size_t kMaxIds = 16 << 20;

enum Arm : uint8_t { kArmDouble = 2, kArmUint64 = 3, kArmInt64 = 4, kArmText = 5, kArmBytes = 6, kArmRef = 7 };

// A set of ids, each with some bits. Ids in real files are small, and every event looks them up.
class IdTable {
 public:
  void Add(int64_t id, uint8_t bits) {
    if (id >= 0 && static_cast<uint64_t>(id) < std::size(small_)) {
      small_[id] |= bits;
    } else {
      large_[id] |= bits;
    }
  }
  size_t large_count() const { return large_.size(); }

  // Stops when `visit` returns false.
  template <typename Visit>
  bool ForEach(Visit visit) const {
    for (size_t id = 0; id < std::size(small_); ++id) {
      if (small_[id] != 0 && !visit(static_cast<int64_t>(id), small_[id])) return false;
    }
    for (const auto& [id, bits] : large_) {
      if (!visit(id, bits)) return false;
    }
    return true;
  }

 private:
  uint8_t small_[4096] = {};
  absl::flat_hash_map<int64_t, uint8_t> large_;
};

class Lint {
 public:
  Lint(CodedInputStream* in, std::string host) : in_(in), host_(std::move(host)) {}

  absl::StatusOr<XplaneCounts> Space();

 private:
  struct Plane {
    std::string name;
    absl::flat_hash_map<int64_t, std::string> event_names, stat_names;
    TextSet unique_event_names, unique_stat_names;
    IdTable used_events, used_texts, used_stats;
    absl::flat_hash_set<int64_t> line_ids;
  };
  struct Event {
    int64_t metadata_id = 0, offset = 0, duration = 0;
    bool has_offset = false;
  };

  bool PlaneBody(Plane& plane);
  bool LineBody(Plane& plane);
  bool EventBody(Plane& plane, Event& event);
  bool TakePlainEvent(Plane& plane, Event& event);
  void TakeStat(Plane& plane, int64_t id, uint8_t arm, int64_t number);
  bool StatBody(Plane& plane);
  bool MetadataEntry(absl::flat_hash_map<int64_t, std::string>& names, TextSet& unique, std::string_view what);
  bool CheckPlane(const Plane& plane);
  bool CheckArms(std::string_view name, uint8_t arms);

  // Reads a length-delimited message: `body` reads to its end.
  template <typename Body>
  bool Message(Body body) {
    uint32_t length;
    if (!in_->ReadVarint32(&length)) return Malformed("a length");
    const CodedInputStream::Limit limit = in_->PushLimit(static_cast<int>(length));
    if (!body()) return false;
    if (!in_->ConsumedEntireMessage() || in_->BytesUntilLimit() != 0) return Malformed("the end of a message");
    in_->PopLimit(limit);
    return true;
  }
  bool Text(std::string& text) {
    uint32_t length;
    if (!in_->ReadVarint32(&length) || length > kMostLintedBytes) return Malformed("the length of a text");
    if (!in_->ReadString(&text, static_cast<int>(length))) return Malformed("a text");
    if (!google::protobuf::internal::IsStructurallyValidUTF8(text.data(), static_cast<int>(text.size()))) {
      return Fail("a text is not valid UTF-8");
    }
    return true;
  }
  bool Int(int64_t& value) {
    uint64_t raw;
    if (!in_->ReadVarint64(&raw)) return Malformed("a number");
    value = static_cast<int64_t>(raw);
    return true;
  }
  bool Skip(uint32_t tag) { return WireFormatLite::SkipField(in_, tag) || Malformed("an unknown field"); }
  bool Malformed(std::string_view what) { return Fail(StrCat("cannot read ", what)); }
  template <typename... Parts>
  bool Fail(const Parts&... parts) {
    if (error_.empty()) error_ = StrCat(parts..., " (before byte ", in_->CurrentPosition(), ")");
    return false;
  }

  CodedInputStream* in_;
  std::string host_;
  std::string error_;
  XplaneCounts counts_;
  TextSet plane_names_;
  std::vector<int64_t> open_ends_;
};

constexpr uint32_t Varint(int field) { return static_cast<uint32_t>(field) << 3; }
constexpr uint32_t Bytes(int field) { return static_cast<uint32_t>(field) << 3 | 2; }

absl::StatusOr<XplaneCounts> Lint::Space() {
  int hosts = 0;
  std::string text;
  auto fields = [&] {
    while (const uint32_t tag = in_->ReadTag()) {
      switch (tag) {
        case Bytes(1): {
          Plane plane;
          if (!Message([&] { return PlaneBody(plane); }) || !CheckPlane(plane)) return false;
          ++counts_.planes;
          break;
        }
        case Bytes(2):
        case Bytes(3):
          if (!Text(text)) return false;
          break;
        case Bytes(4):
          if (!Text(text)) return false;
          ++hosts;
          if (text != host_) return Fail("the host name is `", text, "`, the file's is `", host_, "`");
          break;
        default:
          if (!Skip(tag)) return false;
      }
    }
    if (!in_->ConsumedEntireMessage()) return Malformed("the end of the file");
    if (hosts != 1) return Fail("there are ", hosts, " host names instead of one");
    return true;
  };
  if (!fields()) return absl::DataLossError(error_);
  return counts_;
}

bool Lint::PlaneBody(Plane& plane) {
  while (const uint32_t tag = in_->ReadTag()) {
    bool ok;
    switch (tag) {
      case Bytes(2):
        ok = Text(plane.name);
        break;
      case Bytes(3):
        ok = Message([&] { return LineBody(plane); });
        ++counts_.lines;
        break;
      case Bytes(4):
        ok = Message([&] { return MetadataEntry(plane.event_names, plane.unique_event_names, "event"); });
        break;
      case Bytes(5):
        ok = Message([&] { return MetadataEntry(plane.stat_names, plane.unique_stat_names, "stat"); });
        break;
      case Bytes(6):
        ok = Message([&] { return StatBody(plane); });
        break;
      default:
        ok = Skip(tag);
    }
    if (!ok) return false;
  }
  return true;
}

bool Lint::MetadataEntry(absl::flat_hash_map<int64_t, std::string>& names, TextSet& unique, std::string_view what) {
  int64_t key = 0, id = 0;
  std::string name;
  auto value = [&] {
    while (const uint32_t tag = in_->ReadTag()) {
      if (tag == Varint(1) ? !Int(id) : tag == Bytes(2) ? !Text(name) : !Skip(tag)) return false;
    }
    return true;
  };
  while (const uint32_t tag = in_->ReadTag()) {
    if (tag == Varint(1) ? !Int(key) : tag == Bytes(2) ? !Message(value) : !Skip(tag)) return false;
  }
  if (key < 1) return Fail("an id of ", what, " metadata is ", key);
  if (key != id) return Fail("the key ", key, " of ", what, " metadata differs from its id ", id);
  if (names.size() >= kMaxIds) return Fail("too much ", what, " metadata");
  if (!unique.insert(name).second) return Fail("two entries of ", what, " metadata are called `", name, "`");
  if (!names.emplace(key, std::move(name)).second) return Fail("two entries of ", what, " metadata have the id ", key);
  return true;
}

bool Lint::LineBody(Plane& plane) {
  int64_t id = 0, timestamp_ns = 0, display_id = 0;
  int64_t last_offset = 0, last_duration = std::numeric_limits<int64_t>::max();
  std::string name;
  bool has_events = false;
  open_ends_.clear();
  while (const uint32_t tag = in_->ReadTag()) {
    switch (tag) {
      case Varint(1):
        if (!Int(id)) return false;
        break;
      case Bytes(2):
      case Bytes(11):
        if (!Text(name)) return false;
        break;
      case Varint(3):
        if (!Int(timestamp_ns)) return false;
        break;
      case Varint(10):
        if (!Int(display_id)) return false;
        break;
      case Bytes(4): {
        Event event;
        if (!TakePlainEvent(plane, event) && !Message([&] { return EventBody(plane, event); })) return false;
        ++counts_.events;
        has_events = true;
        if (!event.has_offset) return Fail("an event has no offset");
        if (event.offset < 0 || event.duration < 0) return Fail("an event has a negative time");
        if (event.duration > std::numeric_limits<int64_t>::max() - event.offset) return Fail("an event ends too late");
        if (event.offset < last_offset || (event.offset == last_offset && event.duration > last_duration)) {
          return Fail("the events of line `", name, "` are out of order");
        }
        last_offset = event.offset;
        last_duration = event.duration;
        const int64_t end = event.offset + event.duration;
        while (!open_ends_.empty() && open_ends_.back() <= event.offset) open_ends_.pop_back();
        if (!open_ends_.empty() && end > open_ends_.back()) {
          return Fail("events of line `", name, "` overlap without nesting");
        }
        open_ends_.push_back(end);
        break;
      }
      default:
        if (!Skip(tag)) return false;
    }
  }
  if (timestamp_ns < 0 || timestamp_ns > kMaxTimestampNs)
    return Fail("timestamp_ns ", timestamp_ns, " is out of range");
  // The viewer keys rows by 32 bits; ids from -559038737 up mark lines that the plugin derives itself.
  const int64_t row = display_id != 0 ? display_id : id;
  if (row < 0 || row >= 0xDEADBEEF) return Fail("the id ", row, " of line `", name, "` is out of range");
  if (!plane.line_ids.insert(row).second) return Fail("two lines of plane `", plane.name, "` have the id ", row);
  if (name.empty()) return Fail("line ", id, " has no name");
  return has_events || Fail("line `", name, "` is empty");
}

bool Lint::EventBody(Plane& plane, Event& event) {
  while (const uint32_t tag = in_->ReadTag()) {
    switch (tag) {
      case Varint(1):
        if (!Int(event.metadata_id)) return false;
        break;
      case Varint(2):
        if (!Int(event.offset)) return false;
        event.has_offset = true;
        break;
      case Varint(3):
        if (!Int(event.duration)) return false;
        break;
      case Bytes(4):
        if (!Message([&] { return StatBody(plane); })) return false;
        break;
      default:
        if (!Skip(tag)) return false;
    }
  }
  plane.used_events.Add(event.metadata_id, 1);
  return plane.used_events.large_count() <= kMaxIds || Fail("too many ids");
}

void Lint::TakeStat(Plane& plane, int64_t id, uint8_t arm, int64_t number) {
  if (arm == kArmRef) plane.used_texts.Add(number, 1);
  plane.used_stats.Add(id, static_cast<uint8_t>(1 << arm));
}

// Reads an event that is contiguous in the stream's buffer and contains only the numbers that most events have. This
// takes a third of the stream's time. Returns false if nothing was read: then the stream must read the event.
bool Lint::TakePlainEvent(Plane& plane, Event& event) {
  constexpr size_t kMostStats = 8;
  struct {
    int64_t id, number;
    uint8_t arm;
  } stats[kMostStats];
  size_t stat_count = 0;
  const void* buffer;
  int size;
  in_->GetDirectBufferPointerInline(&buffer, &size);
  const auto* const begin = static_cast<const uint8_t*>(buffer);
  const uint8_t* p = begin;
  // The length must fit into one byte: longer events contain texts.
  if (size < 2 || *p > 0x7F || size - 1 < *p) return false;
  const uint8_t* const end = p + 1 + *p;
  ++p;
  const auto number = [&p](const uint8_t* limit, int64_t* value) {
    uint64_t result = 0;
    for (int shift = 0; shift < 63 && p < limit; shift += 7) {
      const uint8_t byte = *p++;
      result |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte > 0x7F) continue;
      *value = static_cast<int64_t>(result);
      return true;
    }
    return false;
  };
  Event read;
  while (p < end) {
    const uint8_t tag = *p++;
    if (tag == Varint(1)) {
      if (!number(end, &read.metadata_id)) return false;
    } else if (tag == Varint(2)) {
      if (!number(end, &read.offset)) return false;
      read.has_offset = true;
    } else if (tag == Varint(3)) {
      if (!number(end, &read.duration)) return false;
    } else if (tag == Bytes(4)) {
      if (p == end || *p > end - p - 1 || stat_count == kMostStats) return false;
      const uint8_t* const stat_end = p + 1 + *p;
      auto& stat = stats[stat_count++];
      ++p;
      if (p == stat_end || *p++ != Varint(1) || !number(stat_end, &stat.id) || p == stat_end) return false;
      const uint8_t arm = *p++;
      if (arm != Varint(kArmUint64) && arm != Varint(kArmInt64) && arm != Varint(kArmRef)) return false;
      stat.arm = arm >> 3;
      if (!number(stat_end, &stat.number) || p != stat_end) return false;
    } else {
      return false;
    }
  }
  plane.used_events.Add(read.metadata_id, 1);
  for (size_t i = 0; i < stat_count; ++i) TakeStat(plane, stats[i].id, stats[i].arm, stats[i].number);
  if (plane.used_events.large_count() > kMaxIds ||
      plane.used_stats.large_count() + plane.used_texts.large_count() > kMaxIds) {
    return false;
  }
  event = read;
  return in_->Skip(static_cast<int>(end - begin));
}

bool Lint::StatBody(Plane& plane) {
  int64_t id = 0, number = 0;
  uint64_t bits;
  uint8_t arm = 0;
  while (const uint32_t tag = in_->ReadTag()) {
    bool ok;
    switch (tag) {
      case Varint(1):
        ok = Int(id);
        break;
      case Varint(kArmDouble) | 1:
        ok = in_->ReadLittleEndian64(&bits) || Malformed("a number");
        arm = kArmDouble;
        break;
      case Varint(kArmUint64):
      case Varint(kArmInt64):
      case Varint(kArmRef):
        ok = Int(number);
        arm = static_cast<uint8_t>(tag >> 3);
        break;
      case Bytes(kArmText): {
        std::string text;
        ok = Text(text);
        arm = kArmText;
        break;
      }
      case Bytes(kArmBytes):
        return Fail("a stat holds bytes, which no reader shows");
      default:
        ok = Skip(tag);
    }
    if (!ok) return false;
  }
  if (arm == 0) return Fail("a stat has no value");
  TakeStat(plane, id, arm, number);
  return plane.used_stats.large_count() + plane.used_texts.large_count() <= kMaxIds || Fail("too many ids");
}

bool Lint::CheckArms(std::string_view name, uint8_t arms) {
  for (const StatRow& row : kStats) {
    if (row.name != name) continue;
    uint8_t allowed = 0;
    switch (row.arm) {
      case StatArm::kInt64:
        allowed = 1 << kArmInt64;
        break;
      case StatArm::kUint64:
        allowed = 1 << kArmUint64;
        break;
      case StatArm::kInteger:
        allowed = 1 << kArmInt64 | 1 << kArmUint64;
        break;
      case StatArm::kDouble:
        allowed = 1 << kArmDouble;
        break;
      case StatArm::kText:
        allowed = 1 << kArmText | 1 << kArmRef;
        break;
    }
    if ((arms & ~allowed) != 0) return Fail("the stat `", name, "` has a value of another kind than its readers want");
  }
  return true;
}

bool Lint::CheckPlane(const Plane& plane) {
  if (plane.name.empty()) return Fail("a plane has no name");
  if (!plane_names_.insert(plane.name).second) return Fail("two planes are called `", plane.name, "`");
  auto where = [&] { return StrCat(" of plane `", plane.name, "`"); };
  const auto event_is_named = [&](int64_t id, uint8_t) {
    return plane.event_names.contains(id) || Fail("event metadata ", id, where(), " does not exist");
  };
  const auto text_exists = [&](int64_t id, uint8_t) {
    return plane.stat_names.contains(id) || Fail("text ", id, where(), " does not exist");
  };
  const auto stat_is_named = [&](int64_t id, uint8_t arms) {
    const auto name = plane.stat_names.find(id);
    if (name == plane.stat_names.end()) return Fail("stat metadata ", id, where(), " does not exist");
    if (name->second.empty()) return Fail("stat metadata ", id, where(), " has no name");
    return CheckArms(name->second, arms);
  };
  if (!plane.used_events.ForEach(event_is_named) || !plane.used_texts.ForEach(text_exists) ||
      !plane.used_stats.ForEach(stat_is_named)) {
    return false;
  }
  for (std::string_view name : kForbiddenStats) {
    if (plane.unique_stat_names.contains(name)) return Fail("stat metadata", where(), " holds `", name, "`");
  }
  for (std::string_view name : kForbiddenEvents) {
    if (plane.unique_event_names.contains(name)) return Fail("event metadata", where(), " holds `", name, "`");
  }
  return true;
}

}  // namespace

absl::StatusOr<XplaneCounts> LintXplane(const std::string& path, const std::string& host) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return absl::ErrnoToStatus(errno, StrCat("cannot open ", path));
  google::protobuf::io::FileInputStream file(fd, 1 << 18);
  file.SetCloseOnDelete(true);
  CodedInputStream in(&file);
  in.SetTotalBytesLimit(std::numeric_limits<int32_t>::max());
  absl::StatusOr<XplaneCounts> counts = Lint(&in, host).Space();
  if (file.GetErrno() != 0) return absl::ErrnoToStatus(file.GetErrno(), StrCat("cannot read ", path));
  if (!counts.ok()) return absl::DataLossError(StrCat(path, ": ", counts.status().message()));
  return counts;
}

}  // namespace tbprof
