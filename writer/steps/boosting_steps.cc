// SPDX-License-Identifier: Apache-2.0
#include "writer/steps/boosting_steps.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "writer/base/median.h"
#include "writer/base/text.h"
#include "writer/steps/step_markers.h"

namespace tbprof {
namespace {

constexpr size_t kFewest = 3;
constexpr double kConfidence = 0.95;
// After a pause of so many rounds, another training begins.
constexpr int64_t kPause = 4;

// The library of a round (preload/hooks_boosting.cc); empty: the event is none.
std::string_view LibraryOf(const EventType& type) {
  if (type.family != EventFamily::kOther) return "";
  if (type.name.starts_with("XGBooster")) return "XGBoost";
  return type.name.starts_with("LGBM_Booster") ? "LightGBM" : "";
}

struct Rounds {
  uint32_t thread = 0;
  std::string_view library;
  std::vector<const Event*> events;  // in order
};

// The library with most rounds on the thread.
Rounds RoundsOf(const Timeline& timeline, const std::vector<std::string_view>& libraries, uint32_t thread) {
  Rounds of[2] = {{thread, "XGBoost", {}}, {thread, "LightGBM", {}}};
  for (const Event& event : timeline.threads[thread].events) {
    const std::string_view library = libraries[event.type];
    if (library.empty()) continue;
    std::vector<const Event*>& events = of[library == of[0].library ? 0 : 1].events;
    // With an objective of the program's own, one of XGBoost's functions calls another one.
    const bool is_within = !events.empty() && event.start_ps < events.back()->start_ps + events.back()->duration_ps;
    if (!is_within) events.push_back(&event);
  }
  return std::move(of[0].events.size() >= of[1].events.size() ? of[0] : of[1]);
}

// Boosters that take turns (cross-validation) make a step together: it begins with the first of them.
void KeepOneOfTurns(std::vector<const Event*>* events) {
  size_t changes = 0;
  for (size_t i = 1; i < events->size(); ++i) changes += (*events)[i]->object != (*events)[i - 1]->object;
  if (changes * 2 <= events->size()) return;
  const uint64_t first = events->front()->object;
  std::erase_if(*events, [&](const Event* event) { return event->object != first; });
}

}  // namespace

InferredSteps FindBoostingSteps(const Timeline& timeline, uint32_t process) {
  std::vector<std::string_view> libraries;  // by type
  for (const EventType& type : timeline.types) libraries.push_back(LibraryOf(type));
  InferredSteps found;
  if (std::ranges::all_of(libraries, [](std::string_view library) { return library.empty(); })) return found;
  Rounds most;
  const auto rank = [&](const Rounds& of) {
    return std::tuple(timeline.threads[of.thread].process == process, of.events.size());
  };
  for (uint32_t i = 0; i < timeline.threads.size(); ++i) {
    Rounds rounds = RoundsOf(timeline, libraries, i);
    if (rounds.events.size() >= kFewest && (most.events.empty() || rank(rounds) > rank(most))) most = std::move(rounds);
  }
  KeepOneOfTurns(&most.events);
  if (most.events.size() < kFewest) return found;
  std::vector<int64_t> lengths;
  for (size_t i = 1; i < most.events.size(); ++i) {
    lengths.push_back(most.events[i]->start_ps - most.events[i - 1]->start_ps);
  }
  const int64_t pause = kPause * Median(std::move(lengths));
  for (size_t i = 0; i < most.events.size(); ++i) {
    const int64_t start = most.events[i]->start_ps, end = start + most.events[i]->duration_ps;
    const bool goes_on = i + 1 < most.events.size() && most.events[i + 1]->start_ps - end <= pause;
    Step step;
    step.start_ps = start;
    step.end_ps = goes_on ? most.events[i + 1]->start_ps : end;
    step.number = static_cast<int64_t>(i);
    step.name = "step";
    step.thread = most.thread;
    if (step.end_ps > step.start_ps) found.steps.push_back(std::move(step));
  }
  MarkOutliers(&found.steps);
  found.source = StrCat("rounds of ", most.library);
  found.confidence = kConfidence;
  return found;
}

}  // namespace tbprof
