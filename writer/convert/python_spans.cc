// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/python_spans.h"

#include <algorithm>
#include <string_view>

#include "writer/timeline/python_origin.h"

namespace tbprof {
namespace {

// One lost sample does not end a span: an interval between samples is at most one and a half periods.
constexpr int64_t kLongestGapInHalfPeriods = 6;

bool IsGap(const PythonRun& before, const PythonRun& after) {
  const int64_t period_ps = std::max(before.period_ps, after.period_ps);
  return (after.first_ps - before.last_ps) / kLongestGapInHalfPeriods > period_ps / 2;
}

uint64_t LengthOf(const PythonSpan& span) { return static_cast<uint64_t>(span.duration_ps); }
uint64_t StartOf(const PythonSpan& span) { return static_cast<uint64_t>(span.start_ps); }

// A span that contains another comes first.
bool StartsBefore(const PythonSpan& a, const PythonSpan& b) {
  if (a.start_ps != b.start_ps) return a.start_ps < b.start_ps;
  if (a.duration_ps != b.duration_ps) return a.duration_ps > b.duration_ps;
  return a.depth < b.depth;
}

}  // namespace

void SetExtents(int64_t duration_ps, std::vector<PythonRun>* runs) {
  for (size_t i = 0; i < runs->size(); ++i) {
    PythonRun& run = (*runs)[i];
    const int64_t half_ps = run.period_ps / 2;
    run.from_ps = std::max<int64_t>(run.first_ps - half_ps, 0);
    run.to_ps = std::min(run.last_ps + half_ps, duration_ps);
    if (i == 0) continue;
    PythonRun& before = (*runs)[i - 1];
    const int64_t middle_ps = before.last_ps + (run.first_ps - before.last_ps) / 2;
    if (!IsGap(before, run)) {
      before.to_ps = run.from_ps = middle_ps;
      continue;
    }
    before.to_ps = std::min(before.to_ps, middle_ps);
    run.from_ps = std::max(run.from_ps, middle_ps);
  }
}

PythonSpans::PythonSpans(const StringTable& strings, PythonTimeline* python, uint64_t most_bytes)
    : python_(*python), shown_(strings, *python), most_spans_(most_bytes / kPythonSpanBytes) {}

void PythonSpans::Add(size_t index) {
  PythonThread& thread = python_.threads[index];
  std::vector<uint32_t> frames;  // stacks, the outermost first
  for (size_t i = 0; i < thread.runs.size(); ++i) {
    const PythonRun& run = thread.runs[i];
    const int64_t before_ps = i > 0 ? thread.runs[i - 1].to_ps : 0;
    if (i > 0 && IsGap(thread.runs[i - 1], run)) CloseDownTo(0, before_ps, &thread.spans);
    shown_.Get(run.stack, &frames);
    size_t common = 0;
    while (common < std::min(depth_, frames.size()) &&
           open_[common].function == python_.stacks[frames[common]].function) {
      ++common;
    }
    CloseDownTo(common, before_ps, &thread.spans);
    for (size_t depth = 0; depth < frames.size(); ++depth) {
      const PythonStack& stack = python_.stacks[frames[depth]];
      if (depth >= depth_) Open(stack.function, run.from_ps);
      OpenSpan& span = open_[depth];
      span.samples += run.samples;
      const auto line = std::ranges::find(span.lines, stack.line, &std::pair<int32_t, uint32_t>::first);
      if (line != span.lines.end()) {
        line->second += run.samples;
      } else {
        span.lines.emplace_back(stack.line, run.samples);
      }
    }
  }
  if (!thread.runs.empty()) CloseDownTo(0, thread.runs.back().to_ps, &thread.spans);
}

void PythonSpans::Open(uint32_t function, int64_t at_ps) {
  if (depth_ == open_.size()) open_.emplace_back();
  OpenSpan& span = open_[depth_++];
  span.function = function;
  span.samples = 0;
  span.start_ps = at_ps;
  span.lines.clear();
}

void PythonSpans::CloseDownTo(size_t depth, int64_t at_ps, std::vector<PythonSpan>* spans) {
  while (depth_ > depth) {
    const OpenSpan& open = open_[--depth_];
    PythonSpan span;
    span.start_ps = open.start_ps;
    span.duration_ps = at_ps - open.start_ps;
    span.function = open.function;
    span.samples = open.samples;
    span.depth = static_cast<uint32_t>(depth_);
    span.line = std::ranges::max_element(open.lines, {}, &std::pair<int32_t, uint32_t>::second)->first;
    Keep(span, spans);
  }
}

void PythonSpans::Keep(const PythonSpan& span, std::vector<PythonSpan>* spans) {
  if (!cut_.Keeps(LengthOf(span), StartOf(span))) {
    ++python_.spans_left_out;
    return;
  }
  spans->push_back(span);
  // Trim runs seldom, so that its cost does not matter.
  if (++kept_ > 2 * most_spans_) Trim();
}

void PythonSpans::Trim() {
  LengthHistogram histogram;
  for (const PythonThread& thread : python_.threads) {
    for (const PythonSpan& span : thread.spans) histogram.Add(LengthOf(span), 1);
  }
  cut_ = histogram.CutTo(most_spans_, cut_);
  kept_ = 0;
  for (PythonThread& thread : python_.threads) {
    python_.spans_left_out +=
        std::erase_if(thread.spans, [&](const PythonSpan& span) { return !cut_.Keeps(LengthOf(span), StartOf(span)); });
    kept_ += thread.spans.size();
  }
}

uint64_t PythonSpans::Finish() {
  if (kept_ > most_spans_) Trim();
  for (PythonThread& thread : python_.threads) std::sort(thread.spans.begin(), thread.spans.end(), StartsBefore);
  if (cut_.cuts()) python_.shortest_span_ps = static_cast<int64_t>(cut_.shortest());
  return kept_ * kPythonSpanBytes;
}

}  // namespace tbprof
