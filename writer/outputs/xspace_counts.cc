// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/xspace_counts.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/wire_format_lite.h>

#include "absl/container/flat_hash_map.h"
#include "writer/outputs/xspace_builder.h"
#include "writer/timeline/schema.h"

namespace tbprof {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr uint32_t kMostTextBytes = 1 << 20;
constexpr size_t kMostNames = 1 << 22;

using TextStats = std::vector<std::pair<uint64_t, std::string>>;  // id of the stat, and its text

class Counter {
 public:
  explicit Counter(CodedInputStream* in) : in_(in) {}

  bool Space(XspaceCounts* counts) {
    return Fields([&](uint32_t tag) {
      return tag == BytesTag(xfield::kSpacePlanes) ? Message([&] { return Plane(counts); }) : Skip(tag);
    });
  }

 private:
  struct PlaneContent {
    std::string name;
    absl::flat_hash_map<uint64_t, TextStats> event_stats;
    absl::flat_hash_map<uint64_t, std::string> stat_names;
    absl::flat_hash_map<uint64_t, uint64_t> events;  // on lines of threads, by the id of their name
    TextStats stats;
  };

  template <typename Take>
  bool Fields(Take take) {
    while (const uint32_t tag = in_->ReadTag()) {
      if (!take(tag)) return false;
    }
    return in_->ConsumedEntireMessage();
  }
  template <typename Body>
  bool Message(Body body) {
    uint32_t length;
    if (!in_->ReadVarint32(&length) || length > INT32_MAX) return false;
    const CodedInputStream::Limit limit = in_->PushLimit(static_cast<int>(length));
    if (!body() || in_->BytesUntilLimit() != 0) return false;
    in_->PopLimit(limit);
    return true;
  }
  bool Skip(uint32_t tag) { return WireFormatLite::SkipField(in_, tag); }
  bool Text(std::string* text) {
    uint32_t length;
    return in_->ReadVarint32(&length) && length <= kMostTextBytes && in_->ReadString(text, static_cast<int>(length));
  }

  bool Stat(TextStats* stats) {
    uint64_t id = 0;
    std::string text;
    const bool good = Fields([&](uint32_t tag) {
      if (tag == VarintTag(xfield::kStatMetadataId)) return in_->ReadVarint64(&id);
      return tag == BytesTag(xfield::kStatText) ? Text(&text) : Skip(tag);
    });
    if (good && !text.empty()) stats->emplace_back(id, std::move(text));
    return good;
  }

  // An entry of a map of names. `stats`: the stats of an event's name.
  bool Name(uint64_t* id, std::string* name, TextStats* stats) {
    const auto value = [&] {
      return Fields([&](uint32_t tag) {
        if (tag == VarintTag(xfield::kMetadataId)) return in_->ReadVarint64(id);
        if (tag == BytesTag(xfield::kMetadataName)) return Text(name);
        return tag == BytesTag(xfield::kMetadataStats) ? Message([&] { return Stat(stats); }) : Skip(tag);
      });
    };
    return Fields([&](uint32_t tag) { return tag == BytesTag(xfield::kMapValue) ? Message(value) : Skip(tag); });
  }

  // The second form is that of earlier versions.
  static bool IsSampled(std::string_view line) {
    return ((line.starts_with(kPythonLine) || line.starts_with(kNativeLine)) && line.ends_with(kSampledLine)) ||
           line.ends_with(" python (sampled)") || line.ends_with(" native (sampled)");
  }

  bool Line(PlaneContent* plane) {
    std::string name;
    absl::flat_hash_map<uint64_t, uint64_t> events;
    const auto event = [&] {
      uint64_t id = 0;
      const bool good = Fields([&](uint32_t tag) {
        return tag == VarintTag(xfield::kEventMetadataId) ? in_->ReadVarint64(&id) : Skip(tag);
      });
      if (good && events.size() < kMostNames) ++events[id];
      return good;
    };
    const bool good = Fields([&](uint32_t tag) {
      if (tag == BytesTag(xfield::kLineName)) return Text(&name);
      return tag == BytesTag(xfield::kLineEvents) ? Message(event) : Skip(tag);
    });
    // Sampled functions may have the same names as calls.
    if (!good || IsSampled(name)) return good;
    for (const std::string_view other :
         {kStepsLine, kPhasesLine, kMemoryLine, kEstimatesLine, kCountersLine, kGilLine}) {
      if (name == other) return true;
    }
    for (const auto& [id, count] : events) plane->events[id] += count;
    return true;
  }

  bool Plane(XspaceCounts* counts) {
    PlaneContent plane;
    const auto event_name = [&] {
      uint64_t id = 0;
      std::string name;
      TextStats stats;
      if (!Name(&id, &name, &stats)) return false;
      if (!stats.empty() && plane.event_stats.size() < kMostNames) plane.event_stats[id] = std::move(stats);
      return true;
    };
    const auto stat_name = [&] {
      uint64_t id = 0;
      std::string name;
      TextStats ignored;
      if (!Name(&id, &name, &ignored)) return false;
      if (plane.stat_names.size() < kMostNames) plane.stat_names[id] = std::move(name);
      return true;
    };
    const bool good = Fields([&](uint32_t tag) {
      if (tag == BytesTag(xfield::kPlaneName)) return Text(&plane.name);
      if (tag == BytesTag(xfield::kPlaneLines)) return Message([&] { return Line(&plane); });
      if (tag == BytesTag(xfield::kPlaneEventMetadata)) return Message(event_name);
      if (tag == BytesTag(xfield::kPlaneStatMetadata)) return Message(stat_name);
      return tag == BytesTag(xfield::kPlaneStats) ? Message([&] { return Stat(&plane.stats); }) : Skip(tag);
    });
    if (good) Take(plane, counts);
    return good;
  }

  static void Take(const PlaneContent& plane, XspaceCounts* counts) {
    const auto is = [&](uint64_t id, tbprof::Stat stat) {
      const auto found = plane.stat_names.find(id);
      return found != plane.stat_names.end() && found->second == kStats[static_cast<size_t>(stat)].name;
    };
    for (const auto& [id, text] : plane.stats) {
      if (plane.name == kTaskEnvironmentPlane && is(id, tbprof::Stat::kConservation)) counts->conservation = text;
    }
    if (!plane.name.starts_with(kHostCpuPlane)) return;
    for (const auto& [event, stats] : plane.event_stats) {
      const auto found = plane.events.find(event);
      if (found == plane.events.end()) continue;
      for (const auto& [id, text] : stats) {
        if (is(id, tbprof::Stat::kKind)) counts->events[text] += found->second;
      }
    }
  }

  CodedInputStream* const in_;
};

}  // namespace

XspaceCounts CountXspace(int fd) {
  XspaceCounts counts;
  google::protobuf::io::FileInputStream file(fd);
  CodedInputStream in(&file);
  in.SetTotalBytesLimit(INT32_MAX);
  counts.parsed = Counter(&in).Space(&counts);
  return counts;
}

}  // namespace tbprof
