// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/gil_holders.h"

#include <algorithm>
#include <map>
#include <vector>

#include "writer/base/text.h"
#include "writer/convert/event_budget.h"
#include "writer/convert/python_spans.h"
#include "writer/convert/thread_rows.h"

namespace tbprof {
namespace {

// The thread had no frames.
constexpr uint32_t kNoFunction = UINT32_MAX;

// The spans of one process: consecutive samples of a thread with the same innermost function.
std::vector<GilSpan> SpansOfFunctions(const Timeline& timeline, const std::vector<const GilHolder*>& holders) {
  std::vector<PythonRun> runs;
  for (const GilHolder* holder : holders) {
    PythonRun& run = runs.emplace_back();
    run.first_ps = run.last_ps = holder->at_ps;
    run.period_ps = holder->period_ps;
  }
  SetExtents(timeline.duration_ps, &runs);
  std::vector<GilSpan> spans;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].to_ps <= runs[i].from_ps) continue;
    PythonStack frame = {.function = kNoFunction};
    if (holders[i]->stack != 0) frame = timeline.python.stacks[holders[i]->stack];
    const bool goes_on = !spans.empty() && spans.back().thread == holders[i]->thread &&
                         spans.back().function == frame.function &&
                         spans.back().start_ps + spans.back().duration_ps == runs[i].from_ps;
    if (!goes_on) {
      spans.push_back({runs[i].from_ps, 0, holders[i]->thread, false, frame.function, frame.line, 0});
    }
    spans.back().duration_ps = runs[i].to_ps - spans.back().start_ps;
    ++spans.back().samples;
  }
  return spans;
}

// Adds the spans, each group of one thread without a gap behind the span of that thread.
void AddWithThreads(const std::vector<GilSpan>& spans, std::vector<GilSpan>* all) {
  for (size_t from = 0, to = 0; from < spans.size(); from = to) {
    GilSpan of_thread = spans[from];
    of_thread.is_of_thread = true;
    for (to = from + 1; to < spans.size() && spans[to].thread == of_thread.thread &&
                        spans[to].start_ps == of_thread.start_ps + of_thread.duration_ps;
         ++to) {
      of_thread.duration_ps += spans[to].duration_ps;
      of_thread.samples += spans[to].samples;
    }
    all->push_back(of_thread);
    for (size_t i = from; i < to; ++i) {
      if (spans[i].function != kNoFunction) all->push_back(spans[i]);
    }
  }
}

}  // namespace

void GilHolders::Take(const Frame& frame) {
  if (frame.type != FrameType::kGilHolders) return;
  static const PythonProcessFacts kNothingKnown;
  ThreadUsageFact fact = {};
  const PythonProcessFacts* const process =
      frame.Read(&fact) ? facts_.python.Of(frame.segment, fact.process_serial) : nullptr;
  ForEachThreadRow<GilHolderRow>(
      frame, &model_, &corrupt_,
      [&](uint32_t owner, const GilHolderRow& row) {
        TakeRow(process != nullptr ? *process : kNothingKnown, owner, row);
      },
      [](const Identity&, const GilHolderRow&) {});
}

void GilHolders::TakeRow(const PythonProcessFacts& process, uint32_t owner, const GilHolderRow& row) {
  const uint32_t frame = process.FrameOf(row.node);
  if (row.tid <= 0 || row.ticks == 0 || row.ticks >= kLatestTicks || (row.node != 0 && frame == 0)) {
    ++corrupt_;
    return;
  }
  std::vector<GilHolder>& holders = timeline_.python.holders;
  if (row.ticks < window_.open || row.ticks >= window_.close) return;
  const uint32_t thread = model_.LineOfThread(owner, row.tid, row.ticks);
  if (thread == kNoLine) return;
  if (holders.size() >= most_) {
    // Each second one stands for two from here on, so that all of the time is there.
    size_t kept = 0;
    for (size_t i = 0; i < holders.size(); i += 2) {
      holders[kept] = holders[i];
      holders[kept++].period_ps *= 2;
    }
    holders.resize(kept);
    every_ *= 2;
  }
  if (seen_++ % every_ != 0) return;
  constexpr int64_t kPsPerUs = 1'000'000;
  const int64_t period_ps = process.IntervalAt(row.ticks) * kPsPerUs * static_cast<int64_t>(every_);
  holders.push_back({PsInWindow(facts_, timeline_, row.ticks), period_ps, thread, stacks_.StackOf(process, frame)});
}

uint64_t GilHolders::Finish(uint64_t most_bytes) {
  std::ranges::stable_sort(timeline_.python.holders, {}, &GilHolder::at_ps);
  timeline_.corrupt_records += corrupt_;
  if (every_ > 1) {
    timeline_.notes.push_back(
        StrCat("GIL: one of ", every_, " samples of its holder is in the profile, since there are over ", most_));
  }
  AddSpans(most_bytes);
  return timeline_.python.gil_spans.size() * kPythonSpanBytes;
}

void GilHolders::AddSpans(uint64_t most_bytes) {
  PythonTimeline& python = timeline_.python;
  std::map<uint32_t, std::vector<const GilHolder*>> by_process;
  for (const GilHolder& holder : python.holders) {
    by_process[timeline_.threads[holder.thread].process].push_back(&holder);
  }
  std::vector<std::vector<GilSpan>> lines;
  LengthHistogram lengths;
  for (const auto& [process, holders] : by_process) {
    const uint32_t first = holders.front()->thread;
    if (std::ranges::all_of(holders, [first](const GilHolder* holder) { return holder->thread == first; })) continue;
    lines.push_back(SpansOfFunctions(timeline_, holders));
    for (const GilSpan& span : lines.back()) lengths.Add(static_cast<uint64_t>(span.duration_ps), 1);
  }
  // Each of them may be in a span of its thread alone.
  const LengthCut cut = lengths.CutTo(most_bytes / kPythonSpanBytes / 2, {});
  for (std::vector<GilSpan>& spans : lines) {
    python.spans_left_out += std::erase_if(spans, [&](const GilSpan& span) {
      return !cut.Keeps(static_cast<uint64_t>(span.duration_ps), static_cast<uint64_t>(span.start_ps));
    });
    AddWithThreads(spans, &python.gil_spans);
  }
}

}  // namespace tbprof
