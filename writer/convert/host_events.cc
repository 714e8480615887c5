// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/host_events.h"

#include <algorithm>

#include "writer/base/nearly_sorted.h"
#include "writer/convert/capture_window.h"
#include "writer/convert/input_wait.h"
#include "writer/timeline/event_size.h"
#include "writer/timeline/torch_names.h"

namespace tbprof {
namespace {

// 1 / kShareOfSteps of the budget is for ranges that may be steps.
constexpr uint64_t kShareOfSteps = 4;
// 1 / kShareOfInstants is for instants outside of the full detail.
constexpr uint64_t kShareOfInstants = 4;
// Eighths of the budget that the full detail gets, if all events do not fit.
constexpr uint64_t kEighthsOfDetail = 3;
constexpr int64_t kJitterPs = 1'000'000;
// 24 bytes per wait.
constexpr size_t kMostCutWaits = 2'000'000;
// The size of a device event in the file, without its arrow and its name.
constexpr uint64_t kDeviceEventBytes = 2 * kBytesPerEvent;

uint64_t LengthOf(const GpuEvent& event) { return static_cast<uint64_t>(event.duration_ps); }
uint64_t StartOf(const GpuEvent& event) { return static_cast<uint64_t>(event.start_ps); }

// An event that contains another comes first.
struct StartsBefore {
  template <typename Timed>
  bool operator()(const Timed& a, const Timed& b) const {
    return a.start_ps != b.start_ps ? a.start_ps < b.start_ps : a.duration_ps > b.duration_ps;
  }
};

// The viewer nests events by containment: an event that exceeds its parent by clock jitter is cut to the parent's end.
void Nest(std::vector<Event>* events) {
  std::vector<int64_t> ends;
  for (Event& event : *events) {
    while (!ends.empty() && ends.back() <= event.start_ps) ends.pop_back();
    if (!ends.empty() && event.start_ps + event.duration_ps > ends.back()) {
      // Ranges of two domains need not nest: a cut of more than jitter is flagged.
      if (event.start_ps + event.duration_ps > ends.back() + kJitterPs) event.flags |= Event::kClippedAtEnd;
      event.duration_ps = ends.back() - event.start_ps;
    }
    ends.push_back(event.start_ps + event.duration_ps);
  }
}

StringId NameOf(const std::vector<StringId>& names, uint32_t site) { return site < names.size() ? names[site] : 0; }

}  // namespace

void HostEvents::SetValue(uint32_t line, size_t index, uint64_t value) {
  RawEvent& event = LineAt(line).events[index];
  event.value = static_cast<int64_t>(value);
  event.bytes = BytesOf(event);
}

bool HostEvents::SetPython(uint32_t line, size_t index, uint32_t python) {
  RawEvent& event = LineAt(line).events[index];
  RawEvent with = event;
  with.python = python;
  with.bytes = BytesOf(with);
  const uint32_t more = with.bytes - std::min(with.bytes, event.bytes);
  if (Bytes() + more > most_bytes_) return false;
  *SumOf(with) += more;
  event = with;
  return true;
}

void HostEvents::Begin(uint64_t most_bytes, uint64_t open, uint64_t close, uint64_t middle) {
  most_bytes_ = most_bytes;
  if (close > open) detail_.Begin(open, close, middle);
  ps_per_tick_ = facts_.clock.ns_per_tick() * 1000;
}

void HostEvents::Expect(uint32_t line, uint64_t count) {
  constexpr uint64_t kLeast = 1000, kMost = 8'000'000;
  // Unused reserved memory costs nothing; growing would copy each event once more.
  const uint64_t room = std::min(count, std::min<uint64_t>(most_bytes_ / kBytesPerEvent, kMost) - expected_);
  if (room < kLeast) return;
  LineAt(line).events.reserve(room);
  expected_ += room;
}

void HostEvents::MayBeSteps(uint16_t type) {
  step_types_.resize(std::max<size_t>(step_types_.size(), type + 1u));
  step_types_[type] = true;
}

// At least kBytesPerEvent, because the budget also bounds the memory of the timeline.
uint32_t HostEvents::BytesOf(const RawEvent& event) const {
  const double duration_ps = static_cast<double>(event.duration) * ps_per_tick_;
  const EventType& type = timeline_.types[event.type];
  const uint64_t name = IsFrameworkWork(type) ? kTextStatBytes : 0;
  const uint64_t bytes =
      EventBytes(type, event, (event.site | event.shapes) != 0, static_cast<uint64_t>(timeline_.duration_ps),
                 static_cast<uint64_t>(std::min(duration_ps, 9e18)));
  return static_cast<uint32_t>(std::max(kBytesPerEvent, name + bytes));
}

uint64_t HostEvents::DeviceBytes() const { return kDeviceEventBytes * device_events_; }

uint64_t HostEvents::Bytes() const {
  return step_bytes_ + detail_bytes_ + instant_bytes_ + kept_bytes_[kHostSpans] + kept_bytes_[kGpuCalls] +
         DeviceBytes();
}

uint64_t* HostEvents::SumOf(const RawEvent& event) {
  if (event.may_be_step) return &step_bytes_;
  if (detail_.Contains(event.start)) return &detail_bytes_;
  return event.duration == 0 ? &instant_bytes_ : &kept_bytes_[CuttableOf(event.type)];
}

bool HostEvents::Fits(const RawEvent& event) const {
  if (detail_.Contains(event.start)) return true;
  return event.duration == 0 ? instant_bytes_ < most_bytes_ / kShareOfInstants
                             : cuts_[CuttableOf(event.type)].Keeps(event.duration, event.start);
}

bool HostEvents::Fits(const GpuEvent& event) const {
  return detail_.Contains(StartOf(event)) || cuts_[kGpuWork].Keeps(LengthOf(event), StartOf(event));
}

void HostEvents::Count(const GpuEvent& event) {
  if (detail_.Contains(StartOf(event))) {
    detail_bytes_ += kDeviceEventBytes;
  } else {
    ++device_events_;
  }
}

void HostEvents::Add(uint32_t line, const RawEvent& event, bool may_be_step, uint64_t* sum) {
  RawEvent& kept = LineAt(line).events.emplace_back(event);
  kept.bytes = BytesOf(event);
  kept.may_be_step = may_be_step;
  *sum += kept.bytes;
  Trim();
}

void HostEvents::Keep(uint32_t line, const RawEvent& event) {
  const bool may_be_step = event.type < step_types_.size() && step_types_[event.type];
  if (may_be_step && step_bytes_ < most_bytes_ / kShareOfSteps) return Add(line, event, true, &step_bytes_);
  if (!Fits(event)) {
    CountCut(ConservedKindOf(timeline_.types[event.type]));
    return RememberCut(line, event);
  }
  Add(line, event, false, SumOf(event));
}

void HostEvents::KeepOnDevice(uint32_t stream, const GpuEvent& event) {
  if (!Fits(event)) return CountCut(ConservedKindOf(event));
  timeline_.gpu_streams[stream].events.push_back(event);
  Count(event);
  Trim();
}

void HostEvents::CountCut(ConservedKind kind) {
  ++timeline_.events_over_budget;
  conservation_.Count(kind, ConservedCause::kBudget);
}

void HostEvents::RememberCut(uint32_t line, const RawEvent& event) {
  const EventType& type = timeline_.types[event.type];
  if (event.duration == 0) return;
  const bool is_main = timeline_.threads[line].is_main;
  if (is_main && type.family == EventFamily::kGpu) {
    if (cut_gpu_calls_ >= kMostCutWaits) return;
    ++cut_gpu_calls_;
  } else {
    const bool is_batch = IsIteratorCall(type) || IsNextBatch(type);
    if ((!is_batch && !(is_main && IsWait(type.family))) || cut_waits_ >= kMostCutWaits) return;
    ++cut_waits_;
  }
  LineAt(line).cut_waits.push_back({event.start, event.duration, event.site, event.type});
}

void HostEvents::Trim() {
  if (Bytes() <= most_bytes_) return;
  ShrinkDetail(most_bytes_ * kEighthsOfDetail / 8);
  TrimToShares();
  if (Bytes() <= most_bytes_) return;
  // Steps and instants took so much that too little is left.
  ShrinkDetail(0);
  TrimToShares();
}

void HostEvents::ShrinkDetail(uint64_t most) {
  if (detail_bytes_ <= most) return;
  detail_.ShrinkTo(most, [this](const auto& add) {
    for (const Line& line : lines_) {
      for (const RawEvent& event : line.events) {
        if (!event.may_be_step) add(event.start, event.bytes);
      }
    }
    for (const GpuStream& stream : timeline_.gpu_streams) {
      for (const GpuEvent& event : stream.events) add(StartOf(event), kDeviceEventBytes);
    }
  });
  CountAgain();
}

// After the full detail has become shorter: what is outside of it now must pass the same cuts as all that is.
void HostEvents::CountAgain() {
  detail_bytes_ = instant_bytes_ = kept_bytes_[kHostSpans] = kept_bytes_[kGpuCalls] = device_events_ = 0;
  for (uint32_t line = 0; line < lines_.size(); ++line) {
    std::erase_if(lines_[line].events, [&](const RawEvent& event) {
      if (event.may_be_step) return false;
      if (!Fits(event)) {
        CountCut(ConservedKindOf(timeline_.types[event.type]));
        RememberCut(line, event);
        return true;
      }
      *SumOf(event) += event.bytes;
      return false;
    });
  }
  for (GpuStream& stream : timeline_.gpu_streams) {
    std::erase_if(stream.events, [&](const GpuEvent& event) {
      if (!Fits(event)) {
        CountCut(ConservedKindOf(event));
        return true;
      }
      Count(event);
      return false;
    });
  }
}

// Trims to three quarters of the budget. A kind that is cut keeps a minimum share of the budget, so that cutting ends.
void HostEvents::TrimToShares() {
  const uint64_t wanted = most_bytes_ / 4 * 3;
  uint64_t before = UINT64_MAX;
  while (Bytes() > wanted && Bytes() < before) {
    before = Bytes();
    const uint64_t share = most_bytes_ / 8;
    const Cuttable kind = kept_bytes_[kHostSpans] > share  ? kHostSpans
                          : kept_bytes_[kGpuCalls] > share ? kGpuCalls
                          : device_events_ > 0             ? kGpuWork
                                                           : kHostSpans;
    // Device work is removed only if nothing else makes room.
    if (kind == kGpuWork && Bytes() <= most_bytes_ / 16 * 15) return;
    const uint64_t others = Bytes() - (kind == kGpuWork ? DeviceBytes() : kept_bytes_[kind]);
    const uint64_t most = std::max(wanted > others ? wanted - others : 0, share / 2);
    if (kind == kGpuWork) {
      TrimDevices(most / kDeviceEventBytes);
    } else {
      TrimHost(kind, most);
    }
  }
}

void HostEvents::TrimHost(Cuttable kind, uint64_t most) {
  const auto can_go = [&](const RawEvent& event) {
    return event.duration > 0 && CuttableOf(event.type) == kind && !event.may_be_step && !detail_.Contains(event.start);
  };
  LengthHistogram histogram;
  for (const Line& line : lines_) {
    for (const RawEvent& event : line.events) {
      if (can_go(event)) histogram.Add(event.duration, event.bytes);
    }
  }
  LengthCut& cut = cuts_[kind];
  cut = histogram.CutTo(most, cut);
  kept_bytes_[kind] = 0;
  for (uint32_t line = 0; line < lines_.size(); ++line) {
    std::erase_if(lines_[line].events, [&](const RawEvent& event) {
      if (!can_go(event)) return false;
      if (!cut.Keeps(event.duration, event.start)) {
        CountCut(ConservedKindOf(timeline_.types[event.type]));
        RememberCut(line, event);
        return true;
      }
      kept_bytes_[kind] += event.bytes;
      return false;
    });
  }
}

void HostEvents::TrimDevices(uint64_t most) {
  const auto can_go = [&](const GpuEvent& event) { return !detail_.Contains(StartOf(event)); };
  LengthHistogram histogram;
  for (const GpuStream& stream : timeline_.gpu_streams) {
    for (const GpuEvent& event : stream.events) {
      if (can_go(event)) histogram.Add(LengthOf(event), 1);
    }
  }
  LengthCut& cut = cuts_[kGpuWork];
  cut = histogram.CutTo(most, cut);
  device_events_ = 0;
  for (GpuStream& stream : timeline_.gpu_streams) {
    std::erase_if(stream.events, [&](const GpuEvent& event) {
      if (!can_go(event)) return false;
      if (!cut.Keeps(LengthOf(event), StartOf(event))) {
        CountCut(ConservedKindOf(event));
        return true;
      }
      ++device_events_;
      return false;
    });
  }
}

void HostEvents::Finish(const std::vector<StringId>& names) {
  for (uint32_t index = 0; index < lines_.size(); ++index) {
    Line line = std::move(lines_[index]);
    Thread& thread = timeline_.threads[index];
    thread.events.reserve(line.events.size());
    for (const RawEvent& raw : line.events) {
      Event& event = thread.events.emplace_back(
          WithoutTimes(raw, IsFrameworkWork(timeline_.types[raw.type]) ? raw.shapes : NameOf(names, raw.site)));
      event.start_ps = PsInWindow(facts_, timeline_, raw.start);
      if (raw.duration == 0) continue;
      event.duration_ps = std::max<int64_t>(PsInWindow(facts_, timeline_, raw.end()) - event.start_ps, 0);
    }
    SortNearlySorted(&thread.events, StartsBefore());
    Nest(&thread.events);
    FinishWaits(names, line.cut_waits, &thread.cut_waits);
  }
  lines_ = {};
  FinishThresholds();
}

void HostEvents::FinishWaits(const std::vector<StringId>& names, const std::vector<RawWait>& raw,
                             std::vector<CutWait>* waits) {
  waits->reserve(raw.size());
  for (const RawWait& wait : raw) {
    const int64_t start = PsInWindow(facts_, timeline_, wait.start);
    const int64_t end = PsInWindow(facts_, timeline_, wait.start + wait.duration);
    waits->push_back({start, std::max<int64_t>(end - start, 0), NameOf(names, wait.site), wait.type});
  }
  std::ranges::sort(*waits, StartsBefore());
}

void HostEvents::FinishThresholds() {
  const auto longest = [&](uint64_t (LengthCut::*length)() const) {
    return facts_.clock.DurationPs(std::max((cuts_[kHostSpans].*length)(), (cuts_[kGpuCalls].*length)()));
  };
  timeline_.shortest_shown_ps = longest(&LengthCut::shortest);
  timeline_.all_shown_from_ps = longest(&LengthCut::all_from);
  timeline_.shortest_gpu_shown_ps = facts_.clock.DurationPs(cuts_[kGpuWork].shortest());
  timeline_.all_gpu_shown_from_ps = facts_.clock.DurationPs(cuts_[kGpuWork].all_from());
  timeline_.full_detail = {0, timeline_.duration_ps};
  if (!detail_.shrunk() || timeline_.events_over_budget == 0) return;
  timeline_.full_detail = {PsInWindow(facts_, timeline_, detail_.start()),
                           PsInWindow(facts_, timeline_, detail_.end())};
}

}  // namespace tbprof
