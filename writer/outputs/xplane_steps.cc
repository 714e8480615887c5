// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "writer/input_pipeline.h"
#include "writer/outputs/xplane.h"
#include "writer/schema.h"
#include "writer/text.h"
#include "writer/utf8.h"

namespace tbprof {
namespace {

constexpr size_t kMarkersBeforeTrimming = 6;
constexpr int64_t kShortestPs = 1000;

struct Span {
  int64_t start, end;
  bool is_input = false;
};

// Events of these families are waits; the thread runs outside of them.
bool IsWait(EventFamily family) {
  return family == EventFamily::kLock || family == EventFamily::kSleep || family == EventFamily::kIo ||
         family == EventFamily::kProcess || family == EventFamily::kThread;
}

// Outermost waits of a thread that last at least `shortest`, in order, disjoint. All that it takes to get the next
// batch is one.
std::vector<Span> Waits(const Timeline& timeline, uint32_t thread, int64_t shortest, int64_t shortest_input) {
  std::vector<Span> waits;
  const std::vector<InputEvent> inputs = InputWaits(timeline, thread);
  auto input = inputs.begin();
  const auto add_inputs = [&](int64_t until) {
    for (; input != inputs.end() && input->start_ps <= until; ++input) {
      // One that begins within a wait is a part of it.
      if (!waits.empty() && input->start_ps < waits.back().end) continue;
      if (input->end_ps - input->start_ps >= shortest_input) waits.push_back({input->start_ps, input->end_ps, true});
    }
  };
  for (const Event& event : timeline.threads[thread].events) {
    if (event.duration_ps < shortest || !IsWait(timeline.types[event.type].family)) continue;
    add_inputs(event.start_ps);
    if (!waits.empty() && event.start_ps < waits.back().end) continue;
    waits.push_back({event.start_ps, event.start_ps + event.duration_ps});
  }
  add_inputs(INT64_MAX);
  return waits;
}

// From six markers on, the reader leaves the first and the last out of its statistics, as steps that the capture cut.
// The time before and after the steps stands in for them, where there is any.
void AddOuterMarkers(int64_t duration_ps, std::vector<Step>& steps) {
  if (steps.size() < kMarkersBeforeTrimming) return;
  const Step first = steps.front(), last = steps.back();
  if (first.start_ps > 0) {
    steps.insert(steps.begin(), {0, first.start_ps, first.number - 1, "before the first step:", first.thread});
  }
  if (last.end_ps < duration_ps) {
    steps.push_back({last.end_ps, duration_ps, last.number + 1, "after the last step:", last.thread});
  }
}

bool IsUsable(const Timeline& timeline, const Step& step) {
  return step.thread < timeline.threads.size() && step.start_ps >= 0 && step.end_ps > step.start_ps;
}

// In order, without overlaps: a marker inside another one would be swallowed.
std::vector<Step> UsableSteps(const Timeline& timeline) {
  std::vector<Step> steps;
  for (const Step& step : timeline.steps) {
    if (step.is_regular && IsUsable(timeline, step)) {
      steps.push_back(step);
    }
  }
  std::stable_sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) { return a.start_ps < b.start_ps; });
  int64_t free_from = 0;
  for (Step& step : steps) {
    step.start_ps = std::max(step.start_ps, free_from);
    free_from = std::max(free_from, step.end_ps);
  }
  std::erase_if(steps, [](const Step& step) { return step.start_ps >= step.end_ps; });
  return steps;
}

}  // namespace

std::vector<StepEvent> StepEvents(const Timeline& timeline) {
  std::vector<Step> steps = UsableSteps(timeline);
  AddOuterMarkers(timeline.duration_ps, steps);

  // At most 100,000 waits over the capture: finer ones do not change a step's share.
  const int64_t shortest_input = timeline.duration_ps / 100'000;
  const int64_t shortest = std::max<int64_t>(100'000'000, shortest_input);
  std::vector<StepEvent> out;
  std::vector<Span> waits;
  size_t next_wait = 0;
  std::optional<uint32_t> waits_of;
  std::map<std::pair<std::string, int64_t>, size_t> titles;
  bool has_running = false;
  auto add = [&](int64_t start, int64_t end) -> StepEvent& {
    StepEvent& event = out.emplace_back();
    event.start_ps = start;
    event.end_ps = end;
    return event;
  };
  auto add_running = [&](int64_t start, int64_t end) {
    add(start, end);
    has_running = true;
  };
  for (const Step& step : steps) {
    // The viewer shows title and number; two steps of one text would be merged into one.
    std::string title = ValidUtf8(step.name.empty() ? timeline.step_source : step.name);
    if (title.empty()) title = kStepEvent;
    if (const size_t before = titles[{title, step.number}]++; before > 0) StrAppend(&title, " (", before + 1, ")");
    StepEvent& marker = add(step.start_ps, step.end_ps);
    marker.is_marker = true;
    marker.number = step.number;
    marker.title = title;

    if (waits_of != step.thread) {
      waits = Waits(timeline, step.thread, shortest, shortest_input);
      waits_of = step.thread;
      next_wait = 0;
    }
    has_running = false;
    int64_t at = step.start_ps;
    while (next_wait < waits.size() && waits[next_wait].end <= at) ++next_wait;
    for (; next_wait < waits.size() && waits[next_wait].start < step.end_ps; ++next_wait) {
      const Span& wait = waits[next_wait];
      if (wait.start > at) add_running(at, wait.start);
      if (wait.is_input) {
        add(std::max(wait.start, at), std::min(wait.end, step.end_ps)).is_input = true;
      }
      at = wait.end;
      if (at >= step.end_ps) break;
    }
    if (at < step.end_ps) add_running(at, step.end_ps);
    // A marker in which nothing is computed is no step to the reader.
    if (has_running) continue;
    int64_t from = step.start_ps;
    if (out.back().is_input) {
      StepEvent& input = out.back();
      from = input.end_ps = std::max(std::min(input.end_ps, step.end_ps - kShortestPs), input.start_ps);
      if (input.start_ps == input.end_ps) out.pop_back();
    }
    add_running(from, std::min(from + kShortestPs, step.end_ps));
  }
  return out;
}

std::vector<PhaseEvent> PhaseEvents(const Timeline& timeline) {
  std::vector<PhaseEvent> phases;
  for (const Step& step : timeline.steps) {
    if (!step.is_regular && IsUsable(timeline, step)) {
      phases.push_back({step.start_ps, step.end_ps, StrCat(ValidUtf8(step.name), " ", step.number)});
    }
  }
  std::stable_sort(phases.begin(), phases.end(),
                   [](const PhaseEvent& a, const PhaseEvent& b) { return a.start_ps < b.start_ps; });
  int64_t free_from = 0;
  for (PhaseEvent& phase : phases) {
    phase.start_ps = std::max(phase.start_ps, free_from);
    free_from = std::max(free_from, phase.end_ps);
  }
  std::erase_if(phases, [](const PhaseEvent& phase) { return phase.start_ps >= phase.end_ps; });
  return phases;
}

}  // namespace tbprof
