// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/gpu_calls.h"

#include <algorithm>
#include <iterator>

namespace tbprof {
namespace {

// Whether the event counts as computing, so that the reader accepts a step that contains it.
bool IsCompute(const Timeline& timeline, const GpuEvent& event) {
  switch (event.kind) {
    case GpuEventKind::kKernel:
      return !IsCollective(timeline.strings.Get(event.name));
    case GpuEventKind::kGraph:
      return true;
    default:
      return false;
  }
}

// Work of a device, or a sample of its memory, which the reader takes for work.
struct DeviceItem {
  int64_t start, end;
  uint64_t correlation;  // 0: a sample
};

// In the order in which the reader passes them.
std::vector<DeviceItem> ItemsOf(const Timeline& timeline, uint32_t device) {
  std::vector<DeviceItem> items;
  for (const GpuStream& stream : timeline.gpu_streams) {
    if (stream.device != device) continue;
    for (const GpuEvent& event : stream.events) {
      items.push_back({event.start_ps, event.start_ps + event.duration_ps, event.correlation});
    }
  }
  for (const CounterTrack& track : timeline.counters) {
    if (track.device != static_cast<int>(device)) continue;
    for (const CounterSample& sample : track.samples) items.push_back({sample.time_ps, sample.time_ps, 0});
  }
  std::ranges::stable_sort(items, {}, &DeviceItem::start);
  return items;
}

}  // namespace

GpuCalls::GpuCalls(const Timeline& timeline, const HostPlane& counted, const std::vector<StepEvent>& steps)
    : has_steps_(timeline.gpu_devices.size()), spans_(timeline.gpu_devices.size()) {
  for (const StepEvent& step : steps) {
    if (step.is_marker) markers_.push_back({step.start_ps, step.end_ps});
  }
  PlaceCalls(timeline, counted);
  if (places_.empty()) return;
  FindSteps(timeline);
  outside_.resize(places_.size());
  for (uint32_t device = 0; device < has_steps_.size(); ++device) {
    if (has_steps_[device]) FindOutside(timeline, device);
  }
}

void GpuCalls::PlaceCalls(const Timeline& timeline, const HostPlane& counted) {
  uint64_t highest = 0;
  for (const GpuStream& stream : timeline.gpu_streams) {
    for (const GpuEvent& event : stream.events) highest = std::max(highest, event.correlation);
  }
  if (highest == 0) return;
  // The builder assigns dense numbers. A timeline from another source must not make this table large.
  uint64_t events = 0;
  for (const GpuStream& stream : timeline.gpu_streams) events += stream.events.size();
  for (const Thread& thread : timeline.threads) events += thread.events.size();
  if (highest > 16 * events + 1024) return;
  places_.resize(highest + 1, kNotKnown);
  for (const uint32_t index : counted.threads) {
    for (const Event& event : timeline.threads[index].events) {
      if (timeline.types[event.type].value != ValueKind::kCorrelation || event.value <= 0) continue;
      const auto correlation = static_cast<uint64_t>(event.value);
      if (correlation <= highest) places_[correlation] = static_cast<uint32_t>(MarkerAt(event.start_ps));
    }
  }
}

void GpuCalls::FindSteps(const Timeline& timeline) {
  for (const GpuStream& stream : timeline.gpu_streams) {
    if (stream.device >= has_steps_.size() || has_steps_[stream.device]) continue;
    has_steps_[stream.device] = std::any_of(stream.events.begin(), stream.events.end(), [&](const GpuEvent& event) {
      return IsCompute(timeline, event) && IsInStep(event.correlation);
    });
  }
}

// Work whose call is not known stays with the work before it, as the reader does it.
void GpuCalls::FindOutside(const Timeline& timeline, uint32_t device) {
  const std::vector<DeviceItem> items = ItemsOf(timeline, device);
  std::vector<uint64_t> next(items.size() + 1);  // the step of the next item that has one
  for (size_t i = items.size(); i-- > 0;) {
    const uint64_t marker = MarkerOf(items[i].correlation);
    next[i] = marker != 0 ? marker : next[i + 1];
  }
  std::vector<OutsideSpan>& spans = spans_[device];
  uint64_t step = 0;
  int64_t step_end = 0;
  bool in_span = false;
  for (size_t i = 0; i < items.size(); ++i) {
    const DeviceItem& item = items[i];
    if (const uint64_t marker = MarkerOf(item.correlation); marker != 0) {
      step_end = marker == step && !in_span ? std::max(step_end, item.end) : item.end;
      step = marker;
      in_span = false;
      continue;
    }
    const bool has_number = item.correlation != 0 && item.correlation < outside_.size();
    if (has_number && PlaceOf(item.correlation) == kNoMarker) outside_[item.correlation] = true;
    if (step == 0) continue;
    if (!in_span && next[i] != step && item.end > step_end) {
      in_span = true;
      // A picosecond earlier: the reader's order of events with equal starts is not known.
      const int64_t start = std::max<int64_t>(item.start - 1, 0);
      if (!spans.empty()) spans.back().end_ps = std::min(spans.back().end_ps, start);
      spans.push_back({start, item.end});
    }
    if (!in_span) continue;
    spans.back().end_ps = std::max(spans.back().end_ps, item.end);
    if (has_number) outside_[item.correlation] = true;
  }
}

bool GpuCalls::AnyOutside() const {
  return std::ranges::any_of(spans_, [](const auto& spans) { return !spans.empty(); });
}

uint64_t GpuCalls::MarkerAt(int64_t time_ps) const {
  const auto above = std::upper_bound(markers_.begin(), markers_.end(), time_ps,
                                      [](int64_t value, const Marker& marker) { return value < marker.start; });
  if (above == markers_.begin() || std::prev(above)->end <= time_ps) return 0;
  return static_cast<uint64_t>(above - markers_.begin());
}

ThreadSteps StepsOfThread(const Timeline& timeline, const Thread& thread, const GpuCalls& calls) {
  ThreadSteps out;
  const std::vector<Event>& events = thread.events;
  const auto end_of = [&](int32_t i) {
    return events[static_cast<size_t>(i)].start_ps + events[static_cast<size_t>(i)].duration_ps;
  };
  const auto start_of = [&](int32_t i) { return events[static_cast<size_t>(i)].start_ps; };
  const auto is_call = [&](const Event& event) {
    return event.value > 0 && timeline.types[event.type].value == ValueKind::kCorrelation;
  };
  if (timeline.gpu_streams.empty() || events.size() > INT32_MAX ||
      std::none_of(events.begin(), events.end(), is_call)) {
    return out;
  }
  std::vector<int32_t> parents(events.size(), -1);
  std::vector<int32_t> open;
  for (int32_t i = 0; i < static_cast<int32_t>(events.size()); ++i) {
    while (!open.empty() && end_of(open.back()) <= start_of(i)) open.pop_back();
    if (!open.empty()) parents[static_cast<size_t>(i)] = open.back();
    open.push_back(i);
  }
  std::vector<uint32_t> members;
  uint64_t marker = 0;
  const auto finish = [&] {
    if (members.empty()) return;
    auto first = static_cast<int32_t>(members.front());
    int32_t last = first;
    for (const uint32_t i : members) {
      if (end_of(static_cast<int32_t>(i)) >= end_of(last)) last = static_cast<int32_t>(i);
    }
    int64_t start = start_of(first), end = end_of(last);
    // The bar takes in events that overlap one of its ends, until it contains them or they contain it.
    for (bool grown = true; grown;) {
      grown = false;
      for (int32_t up; (up = parents[static_cast<size_t>(first)]) >= 0 && end_of(up) < end; grown = true) {
        first = up;
        start = start_of(up);
      }
      for (int32_t up; (up = parents[static_cast<size_t>(last)]) >= 0 && start_of(up) > start; grown = true) {
        last = up;
        end = std::max(end, end_of(up));
      }
    }
    if (!out.bars.empty() && start < out.bars.back().end_ps) {
      out.tied.insert(out.tied.end(), members.begin(), members.end());
    } else {
      out.bars.push_back({start, end, marker});
    }
    members.clear();
  };
  for (uint32_t i = 0; i < events.size(); ++i) {
    if (!is_call(events[i])) continue;
    const uint64_t in = calls.MarkerAt(events[i].start_ps);
    if (in != marker) finish();
    marker = in;
    if (in != 0) members.push_back(i);
  }
  finish();
  return out;
}

}  // namespace tbprof
