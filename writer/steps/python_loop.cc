// SPDX-License-Identifier: Apache-2.0
#include "writer/steps/python_loop.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "writer/base/median.h"
#include "writer/steps/step_loops.h"

namespace tbprof {
namespace {

constexpr double kNearlyAll = 0.9;
// Share of the regular steps that must have the same transition back.
constexpr double kMostTurns = 0.8;
constexpr size_t kWarmUpSteps = 3;
// A line that is visited in a smaller share of the steps is not part of a step.
constexpr double kUsualLine = 0.3;

// Calls `visit` with each regular step and the visits that begin in it.
template <typename Visit>
void ForEachStep(const std::vector<LineVisit>& visits, const std::vector<DetectedStep>& steps, Visit&& visit) {
  size_t from = 0;
  for (const DetectedStep& step : steps) {
    while (from < visits.size() && visits[from].start_ps < step.start_ps) ++from;
    size_t to = from;
    while (to < visits.size() && visits[to].start_ps < step.end_ps) ++to;
    visit(step, from, to);
    from = to;
  }
}

// A transition from a visit at one line to the next visit, at another line.
struct Turn {
  int32_t from = 0, to = 0;
  friend auto operator<=>(const Turn&, const Turn&) = default;
};

class Cutter {
 public:
  Cutter(const Timeline& timeline, const PythonPaths& paths, const PythonLoop& loop,
         const std::vector<LineVisit>& visits, StepDetection* found)
      : visits_(visits), found_(*found) {
    lines_.reserve(visits.size());
    for (const LineVisit& visit : visits) {
      const uint32_t path = PathInLoop(paths, loop, visit.path);
      lines_.push_back(path == 0 ? -1 : timeline.python.stacks[paths[path].stack].line);
    }
  }

  void Run() {
    const std::optional<Turn> turn = ChooseTurn();
    if (!turn) return;
    std::vector<int64_t> cuts = CutsAt(*turn);
    if (cuts.size() != found_.steps.size()) return;
    Move(cuts);
  }

 private:
  // Returns the transition that leads back the furthest, of those that most regular steps have.
  std::optional<Turn> ChooseTurn() const {
    std::map<Turn, size_t> steps_with;
    size_t regular = 0;
    ForEachStep(visits_, found_.steps, [&](const DetectedStep& step, size_t from, size_t to) {
      if (step.kind != DetectedStep::Kind::kRegular) return;
      ++regular;
      std::vector<Turn> here;
      for (size_t i = from; i < to; ++i) {
        if (const std::optional<Turn> turn = TurnTo(i)) here.push_back(*turn);
      }
      std::ranges::sort(here);
      here.erase(std::unique(here.begin(), here.end()), here.end());
      for (const Turn& turn : here) ++steps_with[turn];
    });
    std::optional<Turn> best;
    for (const auto& [turn, count] : steps_with) {
      if (turn.from < turn.to || static_cast<double>(count) < kMostTurns * static_cast<double>(regular)) continue;
      if (!best || turn.from - turn.to > best->from - best->to) best = turn;
    }
    return best;
  }

  std::optional<Turn> TurnTo(size_t i) const {
    if (i == 0 || lines_[i] < 0 || lines_[i - 1] < 0) return std::nullopt;
    return Turn{lines_[i - 1], lines_[i]};
  }

  // One cut for each step.
  std::vector<int64_t> CutsAt(const Turn& turn) const {
    size_t all = 0, behind_waits = 0;
    for (size_t i = 1; i < visits_.size(); ++i) {
      if (TurnTo(i) != turn) continue;
      ++all;
      behind_waits += visits_[i - 1].waits;
    }
    const bool behind_wait = static_cast<double>(behind_waits) >= kNearlyAll * static_cast<double>(all);
    std::vector<std::optional<int64_t>> cuts;
    std::vector<int64_t> offsets;
    ForEachStep(visits_, found_.steps, [&](const DetectedStep& step, size_t from, size_t to) {
      std::optional<int64_t>& cut = cuts.emplace_back();
      size_t best = 0;
      for (size_t i = from; i < to; ++i) {
        // Of several, takes the one with the longest gap before it: the others are within a line.
        if (TurnTo(i) == turn && (best == 0 || Gap(i) > Gap(best))) best = i;
      }
      if (best == 0) return;
      cut = behind_wait && visits_[best - 1].waits ? visits_[best - 1].end_ps : visits_[best].start_ps;
      offsets.push_back(*cut - step.start_ps);
    });
    const int64_t usual = Median(std::move(offsets));
    std::vector<int64_t> out;
    for (size_t i = 0; i < cuts.size() && i < found_.steps.size(); ++i) {
      out.push_back(cuts[i].value_or(found_.steps[i].start_ps + usual));
    }
    return out;
  }
  int64_t Gap(size_t i) const { return visits_[i].start_ps - visits_[i - 1].end_ps; }

  // A step that ended where the next one began still does so.
  void Move(const std::vector<int64_t>& cuts) {
    std::vector<DetectedStep>& steps = found_.steps;
    std::vector<int64_t> offsets;
    for (size_t i = 0; i < cuts.size(); ++i) offsets.push_back(cuts[i] - steps[i].start_ps);
    const int64_t usual = Median(offsets);
    std::vector<int64_t> ends;
    for (size_t i = 0; i < steps.size(); ++i) {
      const bool joined = i + 1 < steps.size() && steps[i + 1].start_ps == steps[i].end_ps;
      ends.push_back(joined ? cuts[i + 1] : EndBehind(steps[i].end_ps, usual));
    }
    for (size_t i = 0; i < steps.size(); ++i) {
      steps[i].start_ps = std::max(cuts[i], i > 0 ? ends[i - 1] : cuts[i]);
      steps[i].end_ps = std::max(ends[i], steps[i].start_ps);
    }
    std::erase_if(steps, [](const DetectedStep& step) { return step.start_ps >= step.end_ps; });
    Classify();
  }
  void Classify() {
    std::vector<double> lengths;
    std::vector<int64_t> regular;
    for (const DetectedStep& step : found_.steps) lengths.push_back(static_cast<double>(step.end_ps - step.start_ps));
    const UsualLengths usual = UsualLengthsOf(lengths);
    for (size_t i = 0; i < lengths.size(); ++i) {
      DetectedStep& step = found_.steps[i];
      const bool is_long = lengths[i] > usual.most;
      const bool is_warm_up = is_long && i < kWarmUpSteps;
      step.kind = !is_long && lengths[i] >= usual.least ? DetectedStep::Kind::kRegular
                  : is_warm_up                          ? DetectedStep::Kind::kWarmUp
                                                        : DetectedStep::Kind::kIrregular;
      if (step.kind != DetectedStep::Kind::kIrregular) step.cause = DetectedStep::Cause::kNone;
      if (step.kind == DetectedStep::Kind::kRegular) regular.push_back(step.end_ps - step.start_ps);
    }
    found_.period_ps = Median(std::move(regular));
  }
  // End of the last step of a row: the end of the last visit before the next cut would be expected.
  int64_t EndBehind(int64_t end_ps, int64_t usual) const {
    int64_t last = end_ps;
    const int64_t reach = end_ps + usual + found_.period_ps / 4;
    const auto next = std::ranges::lower_bound(visits_, end_ps, {}, &LineVisit::start_ps);
    for (auto at = next; at != visits_.end() && at->start_ps < reach; ++at) {
      if (lines_[static_cast<size_t>(at - visits_.begin())] >= 0) last = std::max(last, at->end_ps);
    }
    return last;
  }

  const std::vector<LineVisit>& visits_;
  StepDetection& found_;
  std::vector<int32_t> lines_;  // line in the loop's function, by visit; -1: not in it, or not known
};

}  // namespace

PythonLoop FindPythonLoop(const PythonPaths& paths, const std::vector<LineVisit>& visits,
                          const std::vector<DetectedStep>& steps) {
  absl::flat_hash_map<uint32_t, std::pair<uint32_t, size_t>> inside;  // by frame: depth, and visits in or below it
  size_t all = 0;
  ForEachStep(visits, steps, [&](const DetectedStep& step, size_t from, size_t to) {
    if (step.kind != DetectedStep::Kind::kRegular) return;
    for (size_t i = from; i < to; ++i) {
      ++all;
      for (uint32_t path = visits[i].path; path != 0; path = paths[path].parent) {
        auto& [depth, count] = inside[paths[path].frame];
        depth = paths[path].depth;
        ++count;
      }
    }
  });
  PythonLoop loop;
  for (const auto& [frame, known] : inside) {
    if (static_cast<double>(known.second) < kNearlyAll * static_cast<double>(all)) continue;
    if (known.first > loop.depth) loop = {frame, known.first};
  }
  return loop;
}

uint32_t PathInLoop(const PythonPaths& paths, const PythonLoop& loop, uint32_t path) {
  if (paths[path].depth < loop.depth) return 0;
  path = paths.At(path, loop.depth);
  return paths[path].frame == loop.frame ? path : 0;
}

void CutAtLoop(const Timeline& timeline, const PythonPaths& paths, const PythonLoop& loop,
               const std::vector<LineVisit>& visits, StepDetection* found) {
  if (loop.frame != 0 && !found->steps.empty()) Cutter(timeline, paths, loop, visits, found).Run();
}

std::optional<StepLoop> FindLoopAround(const std::vector<LineVisit>& visits, const std::vector<DetectedStep>& steps) {
  absl::flat_hash_map<uint32_t, std::pair<const DetectedStep*, size_t>> steps_with;  // by path: latest, and count
  ForEachStep(visits, steps, [&](const DetectedStep& step, size_t from, size_t to) {
    for (size_t i = from; i < to; ++i) {
      auto& [latest, count] = steps_with[visits[i].path];
      count += latest != &step;
      latest = &step;
    }
  });
  const auto is_usual = [&](uint32_t path) {
    const auto known = steps_with.find(path);
    return known != steps_with.end() &&
           static_cast<double>(known->second.second) >= kUsualLine * static_cast<double>(steps.size());
  };
  std::vector<LoopStep> all;
  size_t at = 0;
  for (const DetectedStep& step : steps) {
    LoopStep& one = all.emplace_back();
    one.length_ps = step.end_ps - step.start_ps;
    one.has_batch = true;  // lengths are no evidence: any work may be slow now and then
    for (; at < visits.size() && visits[at].start_ps < step.start_ps; ++at) {
      one.after_evaluation |= all.size() > 1 && !is_usual(visits[at].path);
    }
  }
  return FindOuterLoop(all);
}

}  // namespace tbprof
