// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/memory_events.h"
#include "writer/outputs/memory_text.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "writer/base/extremes.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/outputs/native_place.h"
#include "writer/timeline/schema.h"

namespace tbprof {
namespace {

// The page draws at most 1000 points, but parses all of them first.
constexpr size_t kMaxPerProcess = 4000;
// Each held row is also a row without time on the page of operations, which reads the same stat.
constexpr size_t kMostLines = 50;
constexpr std::string_view kHeldElsewhere = "not held by these places";
constexpr std::string_view kEstimated = "estimated from samples";

// Keeps the first and last sample, every sample that is an extreme within its share of the time, and drops the rest.
std::vector<CounterSample> Thin(const std::vector<CounterSample>& samples) {
  if (samples.size() <= kMaxPerProcess) return samples;
  const auto lower = [](const CounterSample& a, const CounterSample& b) { return a.value < b.value; };
  // Of equal samples, the first: the time at which a peak was reached.
  return KeepExtremes(samples, kMaxPerProcess / 2, [&](auto from, auto to) {
    return std::make_pair(std::min_element(from, to, lower), std::max_element(from, to, lower));
  });
}

// Adds the bytes that places held at the peak. The page's table describes that moment: it lists, by address, what was
// allocated before and not freed. The events of the level itself have address 0; an event without bytes removes the
// last of them. Each has a time of its own, since the page orders those of one time at random, and all but the last a
// level of one byte less: some versions of the page take the first of equal levels for the peak, others the last.
void AddHeld(const Timeline& timeline, const CounterTrack& track, const std::vector<HeldBytes>& rows,
             std::vector<MemoryEvent>* events) {
  const auto highest = std::max_element(events->begin(), events->end(),
                                        [](const MemoryEvent& a, const MemoryEvent& b) { return a.in_use < b.in_use; });
  if (track.device >= 0 || highest == events->end() || rows.empty()) return;
  const int64_t peak = highest->in_use;
  int64_t rest = peak;
  for (MemoryEvent& level : *events) level.in_use -= level.in_use == peak;
  MemoryEvent event = *highest;
  ++event.time_ps;
  event.delta = 0;
  std::vector<MemoryEvent> held{event};
  const auto add = [&](int64_t bytes) {
    event.delta = bytes;
    event.held = held.size();
    ++event.time_ps;
    held.push_back(event);
    rest -= bytes;
  };
  for (const HeldBytes& row : rows) {
    if (held.size() > kMostLines || row.bytes <= 0 || row.bytes > rest) break;
    event.row = &row;
    add(row.bytes);
  }
  event.row = nullptr;
  if (rest > 0) add(rest);
  held.back().in_use = peak;
  events->insert(std::next(highest), held.begin(), held.end());
}

// The page takes `<module>` and `<frozen importlib._bootstrap>` for markup, and leaves them out.
std::string WithoutMarkup(std::string_view text) {
  std::string out;
  for (const char c : text) StrAppend(&out, c == '<' ? "\u2039" : c == '>' ? "\u203a" : std::string_view(&c, 1));
  return out;
}

// For a Python line `train.py:88 load_batch`; else the native place.
std::string PlaceOf(const Timeline& timeline, const HeldBytes* row) {
  if (row == nullptr) return std::string(kHeldElsewhere);
  if (row->python != 0) return timeline.strings.Get(row->python);
  return row->frames.empty() ? std::string(kHeldElsewhere) : NativePlace(timeline, row->frames);
}

// The native place that a Python line called, and whether the bytes are an estimate.
std::string RegionOf(const Timeline& timeline, const MemoryEvent& event) {
  const HeldBytes* const row = event.row;
  if (row == nullptr) return "";
  std::string region;
  if (row->python != 0 && !row->frames.empty()) region = StrCat("via ", NativePlace(timeline, row->frames));
  if (timeline.processes[event.process].memory.basis == MemoryBasis::kExact) return region;
  return StrCat(region, region.empty() ? "" : ", ", kEstimated);
}

std::string AllocatorName(const Timeline& timeline, const MemoryEvent& event) {
  if (event.tensor != nullptr) {
    // c10::DeviceType.
    const uint32_t type = event.tensor->device_type;
    const std::string device = type == 1 || type == 6 ? "GPU" : type == 12 ? "XPU" : StrCat("device ", type);
    const bool one = std::all_of(timeline.tensor_memory.begin(), timeline.tensor_memory.end(),
                                 [&](const TensorMemory& other) { return other.process == event.process; });
    const std::string process = one ? "" : StrCat(" [", timeline.processes[event.process].pid, "]");
    return StrCat(device, ":", event.tensor->device, " (torch)", process);
  }
  // A framework's allocator takes large pieces and divides them itself: these bytes are not tensors.
  if (event.device >= 0) {
    return StrCat("GPU:", timeline.gpu_devices[static_cast<size_t>(event.device)].number, " cudaMalloc (segments)");
  }
  const Process& it = timeline.processes[event.process];
  // The page cuts long names. A lower bound: counting began after the process started.
  return StrCat(it.pid, event.lower_bound ? " heap, at least: " : " heap: ", ValidUtf8(it.name));
}

}  // namespace

HeldRows RowsOfMemoryEvents(const Timeline& timeline) {
  HeldRows rows;
  for (const Process& process : timeline.processes) rows.push_back(HeldByLine(timeline, process.memory.at_peak));
  return rows;
}

std::vector<MemoryEvent> MemoryEvents(const Timeline& timeline, const HeldRows& rows) {
  std::vector<MemoryEvent> events;
  for (const CounterTrack& track : timeline.counters) {
    if (track.device >= 0 ? static_cast<size_t>(track.device) >= timeline.gpu_devices.size()
                          : track.name != kHeapTrack || track.process >= timeline.processes.size()) {
      continue;
    }
    std::vector<MemoryEvent> of_track;
    int64_t in_use = 0;
    // The peak of the process's lifetime. The page computes the peak of the window itself.
    auto peak = static_cast<int64_t>(std::llround(std::clamp(track.peak_before, 0.0, 9e18)));
    for (const CounterSample& sample : Thin(track.samples)) {
      const int64_t now = std::llround(std::clamp(sample.value, 0.0, 9e18));
      if (now == in_use) continue;
      peak = std::max(peak, now);
      MemoryEvent event{sample.time_ps, now - in_use, now, peak, track.process, track.device};
      event.lower_bound = track.lower_bound;
      of_track.push_back(event);
      in_use = now;
    }
    if (track.process < rows.size()) AddHeld(timeline, track, rows[track.process], &of_track);
    events.insert(events.end(), of_track.begin(), of_track.end());
  }
  std::map<std::tuple<uint32_t, uint32_t, uint16_t>, int64_t> peaks;
  for (const TensorMemory& tensor : timeline.tensor_memory) {
    if (tensor.process >= timeline.processes.size() || tensor.bytes == 0) continue;
    int64_t& peak = peaks[{tensor.process, tensor.device_type, tensor.device}];
    peak = std::max(peak, tensor.allocated);
    MemoryEvent event{tensor.time_ps, tensor.bytes, tensor.allocated, peak, tensor.process};
    event.tensor = &tensor;
    events.push_back(event);
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const MemoryEvent& a, const MemoryEvent& b) { return a.time_ps < b.time_ps; });
  return events;
}

void WriteMemoryEvents(const Timeline& timeline, uint64_t& line_id, PlaneBuilder& plane) {
  const HeldRows rows = RowsOfMemoryEvents(timeline);
  const std::vector<MemoryEvent> events = MemoryEvents(timeline, rows);
  if (events.empty()) return;
  LineBuilder& line = plane.AddLine(line_id++, kMemoryLine);
  std::map<std::tuple<uint32_t, int, uint32_t, uint32_t>, uint32_t> names;
  for (const MemoryEvent& event : events) {
    const bool allocation = event.delta > 0;
    line.Begin(plane.EventId(allocation ? kMemoryAllocationEvent : kMemoryDeallocationEvent), event.time_ps, 0);
    const TensorMemory* const tensor = event.tensor;
    uint32_t& name = names[{event.process, event.device, tensor == nullptr ? 0 : 1 + tensor->device_type,
                            tensor == nullptr ? 0 : tensor->device}];
    if (name == 0) name = plane.TextId(AllocatorName(timeline, event));
    line.Text(Stat::kAllocatorName, name);
    line.Int64(Stat::kBytesReserved, 0);
    line.Int64(Stat::kBytesAllocated, event.in_use);
    const auto size = tensor != nullptr  ? static_cast<uint64_t>(std::max<int64_t>(tensor->reserved, 0))
                      : event.device < 0 ? 0
                                         : timeline.gpu_devices[static_cast<size_t>(event.device)].memory_bytes;
    line.Int64(Stat::kBytesAvailable,
               std::max<int64_t>(static_cast<int64_t>(std::min<uint64_t>(size, INT64_MAX)) - event.in_use, 0));
    line.Double(Stat::kFragmentation, 0);
    line.Int64(Stat::kPeakBytesInUse, event.peak);
    line.Int64(Stat::kRequestedBytes, std::abs(event.delta));
    line.Int64(Stat::kAllocationBytes, std::abs(event.delta));
    if (event.held != 0) {
      line.Int64(Stat::kAddress, static_cast<int64_t>(event.held));
      line.Text(Stat::kTfOp, plane.TextId(WithoutMarkup(PlaceOf(timeline, event.row))));
      if (const std::string region = RegionOf(timeline, event); !region.empty()) {
        line.Text(Stat::kRegionType, plane.TextId(WithoutMarkup(region)));
      }
    }
    if (tensor != nullptr) {
      line.Int64(Stat::kAddress, static_cast<int64_t>(tensor->address));
      if (tensor->kind_known) {
        line.Text(Stat::kRegionType, plane.TextId(tensor->lasting ? "persist/dynamic" : "temp"));
      }
      if (tensor->operation != 0) line.Text(Stat::kTfOp, plane.TextId(timeline.strings.Get(tensor->operation)));
    }
    line.End();
  }
}

}  // namespace tbprof
