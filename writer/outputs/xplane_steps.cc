// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "writer/outputs/xplane.h"
#include "writer/utf8.h"

namespace tbprof {
namespace {

struct Span {
  int64_t start, end;
};

// Events of these families are waits; the thread runs outside of them.
bool IsWait(EventFamily family) {
  return family == EventFamily::kLock || family == EventFamily::kSleep || family == EventFamily::kIo ||
         family == EventFamily::kProcess || family == EventFamily::kThread;
}

// Outermost waits of a thread that last at least `shortest`, in order, disjoint.
std::vector<Span> Waits(const Timeline& timeline, uint32_t thread, int64_t shortest) {
  std::vector<Span> waits;
  for (const Event& event : timeline.threads[thread].events) {
    if (event.duration_ps < shortest || !IsWait(timeline.types[event.type].family)) continue;
    if (!waits.empty() && event.start_ps < waits.back().end) continue;
    waits.push_back({event.start_ps, event.start_ps + event.duration_ps});
  }
  return waits;
}

}  // namespace

std::vector<StepEvent> StepEvents(const Timeline& timeline) {
  std::vector<const Step*> steps;
  for (const Step& step : timeline.steps) {
    if (step.thread < timeline.threads.size() && step.start_ps >= 0 && step.end_ps > step.start_ps) {
      steps.push_back(&step);
    }
  }
  std::stable_sort(steps.begin(), steps.end(), [](const Step* a, const Step* b) { return a->start_ps < b->start_ps; });

  // At most 100,000 waits over the capture: finer ones do not change a step's share.
  const int64_t shortest = std::max<int64_t>(100'000'000, timeline.duration_ps / 100'000);
  std::vector<StepEvent> out;
  std::vector<Span> waits;
  size_t next_wait = 0;
  uint32_t waits_of = 0;
  bool have_waits = false;
  std::set<std::pair<std::string, int64_t>> titles;
  int64_t free_from = 0;
  for (const Step* step : steps) {
    // Markers that overlap would swallow each other's contents.
    const int64_t start = std::max(step->start_ps, free_from);
    if (start >= step->end_ps) continue;
    free_from = step->end_ps;

    // The viewer shows title and number; two steps of one text would be merged into one.
    std::string title = step->name.empty() ? std::string(timeline.step_source) : ValidUtf8(step->name);
    if (title.empty()) title = "step";
    while (!titles.emplace(title, step->number).second) title += '+';
    out.push_back({start, step->end_ps, step, title});

    if (!have_waits || waits_of != step->thread) {
      waits = Waits(timeline, step->thread, shortest);
      waits_of = step->thread;
      have_waits = true;
      next_wait = 0;
    }
    const size_t first_running = out.size();
    int64_t at = start;
    while (next_wait < waits.size() && waits[next_wait].end <= start) ++next_wait;
    for (; next_wait < waits.size() && waits[next_wait].start < step->end_ps; ++next_wait) {
      if (waits[next_wait].start > at) out.push_back({at, waits[next_wait].start, nullptr, ""});
      at = waits[next_wait].end;
      if (at >= step->end_ps) break;
    }
    if (at < step->end_ps) out.push_back({at, step->end_ps, nullptr, ""});
    // A marker with nothing in it is no step to the reader.
    if (out.size() == first_running) out.push_back({start, std::min(start + 1000, step->end_ps), nullptr, ""});
  }
  return out;
}

}  // namespace tbprof
