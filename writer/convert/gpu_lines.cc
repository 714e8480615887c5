// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/gpu_lines.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "writer/base/nearly_sorted.h"

namespace tbprof {
namespace {

constexpr size_t kMaxLanes = 32;  // per stream
constexpr size_t kMaxLines = 4 * kMaxStreams;

void NumberGpuLines(Timeline* timeline) {
  // A line's id is the number of its stream, unless another line of the device already has that id.
  std::stable_sort(
      timeline->gpu_streams.begin(), timeline->gpu_streams.end(), [](const GpuStream& a, const GpuStream& b) {
        return std::tie(a.device, a.process, a.number, a.lane) < std::tie(b.device, b.process, b.number, b.lane);
      });
  constexpr uint32_t kOwnNumbers = 1'000'000;
  std::set<std::pair<uint32_t, uint64_t>> taken;
  for (GpuStream& stream : timeline->gpu_streams) {
    if (stream.lane == 0 && stream.number > 0 && stream.number < kOwnNumbers &&
        taken.emplace(stream.device, stream.number).second) {
      stream.line_id = stream.number;
    }
  }
  std::map<uint32_t, uint64_t> next;
  for (GpuStream& stream : timeline->gpu_streams) {
    if (stream.line_id == 0) stream.line_id = kOwnNumbers + ++next[stream.device];
  }
  std::stable_sort(timeline->gpu_streams.begin(), timeline->gpu_streams.end(),
                   [](const GpuStream& a, const GpuStream& b) {
                     return std::tie(a.device, a.line_id) < std::tie(b.device, b.line_id);
                   });
}

}  // namespace

void SplitGpuLanes(Timeline* timeline) {
  std::vector<GpuStream> lines;
  for (GpuStream& stream : timeline->gpu_streams) {
    SortNearlySorted(&stream.events, [](const GpuEvent& a, const GpuEvent& b) {
      return a.start_ps != b.start_ps ? a.start_ps < b.start_ps : a.duration_ps > b.duration_ps;
    });
    std::vector<GpuEvent> events = std::move(stream.events);
    stream.events.clear();
    const size_t first = lines.size();
    std::vector<std::vector<int64_t>> ends;
    for (GpuEvent& event : events) {
      const int64_t end = event.start_ps + event.duration_ps;
      size_t lane = 0;
      for (; lane < ends.size(); ++lane) {
        while (!ends[lane].empty() && ends[lane].back() <= event.start_ps) ends[lane].pop_back();
        if (ends[lane].empty() || end <= ends[lane].back()) break;
      }
      if (lane == ends.size()) {
        if (lane == kMaxLanes || lines.size() >= kMaxLines) {
          ++timeline->events_over_budget;
          continue;
        }
        ends.emplace_back();
        lines.push_back(stream);
        lines.back().lane = static_cast<uint32_t>(lane);
      }
      ends[lane].push_back(end);
      lines[first + lane].events.push_back(event);
    }
  }
  timeline->gpu_streams = std::move(lines);
}

void NumberGpuDevices(const std::vector<GpuDevicePlace>& places, Timeline* timeline) {
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < places.size(); ++i) {
    if (places[i].is_used) order.push_back(i);
  }
  const auto place = [&](uint32_t i) {
    const GpuDeviceRecord& record = places[i].record;
    return std::make_tuple(places[i].number, record.pci_domain, record.pci_bus, record.pci_device, i);
  };
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return place(a) < place(b); });
  std::set<uint32_t> numbers;
  std::vector<GpuDevice> devices;
  std::vector<uint32_t> index(places.size(), UINT32_MAX);
  for (const uint32_t i : order) {
    uint32_t number = places[i].number < kMaxDevices ? places[i].number : 0;
    while (!numbers.insert(number).second) ++number;
    timeline->gpu_devices[i].number = number;
  }
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return timeline->gpu_devices[a].number < timeline->gpu_devices[b].number; });
  for (const uint32_t i : order) {
    index[i] = static_cast<uint32_t>(devices.size());
    devices.push_back(std::move(timeline->gpu_devices[i]));
  }
  timeline->gpu_devices = std::move(devices);
  for (GpuStream& stream : timeline->gpu_streams) stream.device = index[stream.device];
  for (CounterTrack& track : timeline->counters) {
    if (track.device >= 0) track.device = static_cast<int>(index[static_cast<size_t>(track.device)]);
  }
  NumberGpuLines(timeline);
}

}  // namespace tbprof
