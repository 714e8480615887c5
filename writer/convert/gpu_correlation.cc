// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/gpu_correlation.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "writer/convert/gpu_names.h"

namespace tbprof {
namespace {

uint64_t KeyOf(uint32_t owner, uint64_t correlation) { return uint64_t{owner} << 32 | correlation; }

struct Call {
  uint64_t key;
  int64_t start, end;
  uint32_t thread;
  uint32_t index;
  bool driver;
  uint64_t unique;
};

absl::flat_hash_set<uint64_t> WantedKeys(const std::vector<GpuHostSpan>& spans, const Timeline& timeline) {
  absl::flat_hash_set<uint64_t> wanted;
  for (const GpuStream& stream : timeline.gpu_streams) {
    for (const GpuEvent& event : stream.events) {
      if (event.correlation != 0) wanted.insert(KeyOf(stream.process, event.correlation));
    }
  }
  for (const GpuHostSpan& span : spans) {
    if (span.correlation != 0) wanted.insert(KeyOf(span.owner, span.correlation));
  }
  return wanted;
}

// Removes the correlation numbers from the events and returns the calls.
std::vector<Call> TakeCalls(const absl::flat_hash_set<uint64_t>& wanted, const Timeline& timeline, HostEvents* events) {
  std::vector<Call> calls;
  const bool any = std::any_of(timeline.types.begin(), timeline.types.end(),
                               [](const EventType& type) { return type.value == ValueKind::kCorrelation; });
  for (uint32_t t = 0; any && t < timeline.threads.size(); ++t) {
    const std::vector<RawEvent>& line = events->Of(t);
    for (uint32_t i = 0; i < line.size(); ++i) {
      const RawEvent& event = line[i];
      if (timeline.types[event.type].value != ValueKind::kCorrelation) continue;
      const auto value = static_cast<uint64_t>(event.value);
      events->SetValue(t, i, 0);
      const uint64_t key = KeyOf(timeline.threads[t].process, value & UINT32_MAX);
      if ((value & UINT32_MAX) == 0 || !wanted.contains(key)) continue;
      calls.push_back(
          {key, static_cast<int64_t>(event.start), static_cast<int64_t>(event.end()), t, i, (value >> 32) != 0, 0});
    }
  }
  return calls;
}

// A call of the runtime and the driver's call in it share a number and are one call, the runtime's. Two calls that do
// not overlap share a number because its 32 bits wrapped.
class CallIndex {
 public:
  explicit CallIndex(std::vector<Call> calls) : calls_(std::move(calls)) {
    std::sort(calls_.begin(), calls_.end(), [](const Call& a, const Call& b) {
      if (a.key != b.key) return a.key < b.key;
      if (a.start != b.start) return a.start < b.start;
      return a.driver < b.driver;
    });
    size_t count = 0;
    for (const Call& call : calls_) {
      if (count > 0 && calls_[count - 1].key == call.key && call.start < calls_[count - 1].end) {
        Call& group = calls_[count - 1];
        group.end = std::max(group.end, call.end);
        if (group.driver && !call.driver) {
          group.driver = false;
          group.thread = call.thread;
          group.index = call.index;
        }
      } else {
        calls_[count++] = call;
      }
    }
    calls_.resize(count);
  }

  // The latest call of the number that began at `start` or before; if there is none, the first one, since clocks may
  // disagree by a little. Null: no call has the number.
  Call* Find(uint64_t key, int64_t start) {
    auto above = std::upper_bound(calls_.begin(), calls_.end(), std::make_pair(key, start),
                                  [](const std::pair<uint64_t, int64_t>& value, const Call& call) {
                                    return value.first != call.key ? value.first < call.key : value.second < call.start;
                                  });
    if (above != calls_.begin() && std::prev(above)->key == key) return &*std::prev(above);
    return above != calls_.end() && above->key == key ? &*above : nullptr;
  }

  const std::vector<Call>& calls() const { return calls_; }

 private:
  std::vector<Call> calls_;
};

void NumberEvents(const CaptureWindow& window, CallIndex* index, HostEvents* events, Timeline* timeline) {
  uint64_t next = 0;
  absl::flat_hash_map<uint64_t, uint64_t> without_call;
  for (GpuStream& stream : timeline->gpu_streams) {
    for (GpuEvent& event : stream.events) {
      const uint64_t key = KeyOf(stream.process, event.correlation);
      Call* call = event.correlation == 0 ? nullptr : index->Find(key, event.start_ps);
      if (call != nullptr) {
        if (call->unique == 0) call->unique = ++next;
        // Between two clock pairs with a jump only the order is certain.
        if ((event.flags & GpuEvent::kUncertain) != 0 && event.start_ps < call->start) {
          event.start_ps = call->start;
          const auto close = static_cast<int64_t>(window.close);
          event.duration_ps = std::max<int64_t>(std::min(event.duration_ps, close - event.start_ps), 1);
        }
        event.correlation = call->unique;
      } else if (event.correlation == 0) {
        event.correlation = ++next;
      } else {
        uint64_t& unique = without_call[key];
        if (unique == 0) unique = ++next;
        event.correlation = unique;
      }
    }
  }
  for (const Call& call : index->calls()) {
    events->SetValue(call.thread, call.index, call.unique);
  }
}

void KeepOnHost(const GpuHostSpan& span, const Call* call, const CaptureWindow& window, const HostParts& host,
                Timeline* timeline) {
  const std::string_view name = span.is_copy ? "copy from host to host" : SynchronizationName(span.type);
  const std::string_view line_name = span.is_copy ? "CUDA copies by the host" : "CUDA synchronization";
  const uint32_t line = call != nullptr ? call->thread : host.model->LineOf(span.owner, std::string(line_name));
  const uint16_t type = host.types->Find(name, EventFamily::kGpu, ObjectKind::kStream,
                                         span.is_copy ? ValueKind::kBytes : ValueKind::kNone);
  if (line == kNoLine || type == kNoType) {
    --timeline->records;
    ++timeline->events_over_budget;
    return;
  }
  RawEvent event;
  ClipTo(window.open, window.close, span.start, span.end, &event);
  event.type = type;
  if (span.stream != UINT32_MAX) event.object = span.stream;
  if (span.is_copy) event.value = static_cast<int64_t>(std::min<uint64_t>(span.bytes, INT64_MAX));
  host.events->Keep(line, event);
}

}  // namespace

void CorrelateGpu(const std::vector<GpuHostSpan>& spans, const CaptureWindow& window, const HostParts& host,
                  Timeline* timeline) {
  CallIndex index(TakeCalls(WantedKeys(spans, *timeline), *timeline, host.events));
  NumberEvents(window, &index, host.events, timeline);
  for (const GpuHostSpan& span : spans) {
    const Call* call = span.correlation == 0 ? nullptr
                                             : index.Find(KeyOf(span.owner, span.correlation),
                                                          static_cast<int64_t>(std::max(span.start, window.open)));
    KeepOnHost(span, call, window, host, timeline);
  }
}

}  // namespace tbprof
