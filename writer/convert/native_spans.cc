// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/native_spans.h"

#include <algorithm>
#include <utility>

#include "writer/convert/input_wait.h"
#include "writer/timeline/time_span.h"
#include "writer/verdict/cpu_split.h"

namespace tbprof {
namespace {

// A thread that runs on reaches the next sample after exactly the CPU time that it stands for. One lost sample does not
// end a span.
bool IsGap(const NativePoint& before, const NativePoint& after) {
  const int64_t beyond_ps = after.at_ps - before.at_ps - PeriodPs(after);
  return beyond_ps / 3 > std::min(PeriodPs(before), PeriodPs(after)) / 2;
}

uint64_t LengthOf(const NativeSpan& span) { return static_cast<uint64_t>(span.duration_ps); }
uint64_t StartOf(const NativeSpan& span) { return static_cast<uint64_t>(span.start_ps); }

// A span that contains another comes first.
bool StartsBefore(const NativeSpan& a, const NativeSpan& b) {
  if (a.start_ps != b.start_ps) return a.start_ps < b.start_ps;
  if (a.duration_ps != b.duration_ps) return a.duration_ps > b.duration_ps;
  return a.depth < b.depth;
}

// Shorter ones would cut each span into pieces of one sample.
constexpr int64_t kLongWaitPs = 1'000'000'000;

// Both ends are included.
size_t PointsBetween(const std::vector<NativePoint>& points, int64_t from_ps, int64_t to_ps) {
  const auto first = std::ranges::lower_bound(points, from_ps, {}, &NativePoint::at_ps);
  const auto end = std::ranges::upper_bound(first, points.end(), to_ps, {}, &NativePoint::at_ps);
  return static_cast<size_t>(end - first);
}

// Without those that have a sample in them: a call may wait, and compute besides.
std::vector<TimeSpan> LongWaits(const Timeline& timeline, const Thread& thread,
                                const std::vector<NativePoint>& points) {
  std::vector<TimeSpan> waits;
  for (const Event& event : thread.events) {
    if (event.duration_ps < kLongWaitPs || !IsWait(timeline.types[event.type].family)) continue;
    waits.push_back({event.start_ps, event.start_ps + event.duration_ps});
  }
  waits = Merged(std::move(waits));
  std::erase_if(waits, [&](const TimeSpan& wait) { return PointsBetween(points, wait.start_ps, wait.end_ps) > 0; });
  return waits;
}

// Adds the parts of a span outside of the waits that have a sample of their own.
void AddPieces(const NativeSpan& span, const std::vector<TimeSpan>& waits, const std::vector<NativePoint>& points,
               std::vector<NativeSpan>* spans) {
  const int64_t end_ps = span.start_ps + span.duration_ps;
  int64_t from_ps = span.start_ps;
  const auto add = [&](int64_t to_ps) {
    const size_t samples = to_ps >= from_ps ? PointsBetween(points, from_ps, to_ps) : 0;
    if (samples == 0) return;
    NativeSpan& piece = spans->emplace_back(span);
    piece.start_ps = from_ps;
    piece.duration_ps = to_ps - from_ps;
    piece.samples = static_cast<uint32_t>(std::min<size_t>(samples, span.samples));
  };
  auto wait = std::ranges::upper_bound(waits, from_ps, {}, &TimeSpan::end_ps);
  for (; wait != waits.end() && wait->start_ps < end_ps; ++wait) {
    add(wait->start_ps);
    from_ps = wait->end_ps;
  }
  add(end_ps);
}

}  // namespace

NativeSpans::NativeSpans(const StringTable& strings, NativeTimeline* native, int64_t duration_ps, uint64_t most_bytes)
    : native_(*native), duration_ps_(duration_ps), most_spans_(most_bytes / kNativeSpanBytes) {
  std::vector<bool> are_interpreter;
  for (const NativeStack& stack : native->stacks) {
    are_interpreter.push_back(!are_interpreter.empty() && IsInterpreter(strings.Get(stack.module)));
    are_inner_.push_back(are_interpreter.back() && are_interpreter[stack.parent]);
  }
}

bool NativeSpans::IsSameFunction(uint32_t a, uint32_t b) const {
  const NativeStack &x = native_.stacks[a], &y = native_.stacks[b];
  return x.function == y.function && x.module == y.module;
}

void NativeSpans::FramesOf(uint32_t stack, std::vector<uint32_t>* frames) const {
  frames->clear();
  for (uint32_t frame = stack; frame != 0; frame = native_.stacks[frame].parent) {
    if (frame == stack || !are_inner_[frame]) frames->push_back(frame);
  }
  std::ranges::reverse(*frames);
}

void NativeSpans::Add(size_t index) {
  const std::vector<NativePoint>& points = native_.threads[index].points;
  std::vector<NativeSpan>& spans = native_.threads[index].spans;
  std::vector<uint32_t> frames;  // stacks, the outermost first
  int64_t end_ps = 0;            // of the previous point
  for (size_t i = 0; i < points.size(); ++i) {
    const NativePoint& point = points[i];
    int64_t from_ps = std::max<int64_t>(point.at_ps - PeriodPs(point) / 2, 0);
    if (i > 0) {
      const int64_t middle_ps = points[i - 1].at_ps + (point.at_ps - points[i - 1].at_ps) / 2;
      end_ps = std::min(points[i - 1].at_ps + PeriodPs(point) / 2, middle_ps);
      from_ps = std::max(from_ps, middle_ps);
      if (IsGap(points[i - 1], point)) CloseDownTo(0, end_ps, &spans);
    }
    FramesOf(point.stack, &frames);
    size_t common = 0;
    while (common < std::min(open_.size(), frames.size()) && IsSameFunction(open_[common].stack, frames[common])) {
      ++common;
    }
    CloseDownTo(common, end_ps, &spans);
    while (open_.size() < frames.size()) open_.push_back({frames[open_.size()], 0, from_ps});
    for (OpenSpan& span : open_) ++span.samples;
    end_ps = std::min(point.at_ps + PeriodPs(point) / 2, duration_ps_);
  }
  CloseDownTo(0, end_ps, &spans);
}

void NativeSpans::CloseDownTo(size_t depth, int64_t at_ps, std::vector<NativeSpan>* spans) {
  while (open_.size() > depth) {
    const OpenSpan open = open_.back();
    open_.pop_back();
    NativeSpan span;
    span.start_ps = open.start_ps;
    span.duration_ps = std::max<int64_t>(at_ps - open.start_ps, 0);
    span.stack = open.stack;
    span.samples = open.samples;
    span.depth = static_cast<uint32_t>(open_.size());
    Keep(span, spans);
  }
}

void NativeSpans::Keep(const NativeSpan& span, std::vector<NativeSpan>* spans) {
  if (!cut_.Keeps(LengthOf(span), StartOf(span))) {
    ++native_.spans_left_out;
    return;
  }
  spans->push_back(span);
  // Trim runs seldom, so that its cost does not matter.
  if (++kept_ > 2 * most_spans_) Trim();
}

void NativeSpans::Trim() {
  LengthHistogram histogram;
  for (const NativeThread& thread : native_.threads) {
    for (const NativeSpan& span : thread.spans) histogram.Add(LengthOf(span), 1);
  }
  cut_ = histogram.CutTo(most_spans_, cut_);
  kept_ = 0;
  for (NativeThread& thread : native_.threads) {
    native_.spans_left_out +=
        std::erase_if(thread.spans, [&](const NativeSpan& span) { return !cut_.Keeps(LengthOf(span), StartOf(span)); });
    kept_ += thread.spans.size();
  }
}

uint64_t NativeSpans::Finish() {
  if (kept_ > most_spans_) Trim();
  for (NativeThread& thread : native_.threads) std::sort(thread.spans.begin(), thread.spans.end(), StartsBefore);
  return kept_ * kNativeSpanBytes;
}

uint64_t CutSpansAtWaits(Timeline* timeline, uint64_t most_bytes) {
  const uint64_t most = most_bytes / kNativeSpanBytes;
  uint64_t added = 0;
  for (NativeThread& thread : timeline->native.threads) {
    const std::vector<TimeSpan> waits = LongWaits(*timeline, timeline->threads[thread.thread], thread.points);
    if (waits.empty()) continue;
    std::vector<NativeSpan> spans;
    const uint64_t room = thread.spans.size() + most - added;
    for (size_t i = 0; i < thread.spans.size() && spans.size() <= room; ++i) {
      AddPieces(thread.spans[i], waits, thread.points, &spans);
    }
    if (spans.size() > room) continue;
    std::ranges::sort(spans, StartsBefore);
    if (spans.size() > thread.spans.size()) added += spans.size() - thread.spans.size();
    thread.spans = std::move(spans);
  }
  return added * kNativeSpanBytes;
}

}  // namespace tbprof
