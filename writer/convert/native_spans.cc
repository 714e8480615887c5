// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/native_spans.h"

#include <algorithm>

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

}  // namespace

NativeSpans::NativeSpans(NativeTimeline* native, int64_t duration_ps, uint64_t most_bytes)
    : native_(*native), duration_ps_(duration_ps), most_spans_(most_bytes / kNativeSpanBytes) {}

bool NativeSpans::IsSameFunction(uint32_t a, uint32_t b) const {
  const NativeStack &x = native_.stacks[a], &y = native_.stacks[b];
  return x.function == y.function && x.module == y.module;
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
    frames.clear();
    for (uint32_t stack = point.stack; stack != 0; stack = native_.stacks[stack].parent) frames.push_back(stack);
    std::reverse(frames.begin(), frames.end());
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

}  // namespace tbprof
