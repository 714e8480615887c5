// SPDX-License-Identifier: Apache-2.0
#include "writer/steps/python_steps.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "writer/base/median.h"
#include "writer/base/stable_hash.h"
#include "writer/base/text.h"
#include "writer/steps/clock_waits.h"
#include "writer/steps/python_loop.h"
#include "writer/steps/python_paths.h"
#include "writer/timeline/python_origin.h"
#include "writer/timeline/python_place.h"

namespace tbprof {
namespace {

// Number of threads that are examined: the main thread, then those with the most visits.
constexpr size_t kMostThreads = 4;
// In sampling intervals: samples do not resolve shorter turns.
constexpr double kFewestSamples = 4;
constexpr double kMostSteps = 0.9;
// Divides the time before the steps, which is mostly preparation: data, models, compiling.
constexpr int64_t kPreparationFactor = 2;
constexpr size_t kEnoughSamples = 8;
// Shares of the pairs of samples at two lines that are in the usual order. If each line occurs once in a step, nearly
// all pairs are in order; for the lines of an inner loop, half of them.
constexpr double kInOrder = 0.85, kInNoOrder = 0.8;
// Confidence factor if other lines of the loop occur several times between the visits of the single line.
constexpr double kOneLineOfSeveral = 0.8;
// Samples that fall on two lines by chance alternate between them, too. The 90th minus the 10th percentile of the
// lengths of such "steps" is 1.2 to 1.9 of their median.
constexpr double kMostSpreadOfSampled = 0.8, kByChance = 0.7;
// Share of steps in which a line occurs again, of the steps with at least three successive lines in the samples.
constexpr double kSomeReturn = 0.2;

// Visits with exact times: calls whose stack a hook has read.
std::vector<LineVisit> VisitsByCalls(const Timeline& timeline, const PythonPaths& paths, const Thread& thread) {
  std::vector<LineVisit> visits;
  for (const Event& event : thread.events) {
    const EventType& type = timeline.types[event.type];
    const uint32_t path = paths.Of(event.python);
    if (path == 0 || type.family == EventFamily::kAnnotation || paths.Imports(event.python)) continue;
    if (paths.Compiles(event.python)) continue;
    LineVisit visit;
    visit.start_ps = event.start_ps;
    visit.end_ps = event.start_ps + event.duration_ps;
    visit.path = path;
    visit.symbol = StableHash(path, event.type, event.call_site);
    visit.waits = type.family == EventFamily::kLock || type.family == EventFamily::kGpu;
    // A futex wait fails with EAGAIN if the word has changed meanwhile: another thread was quicker, there was no
    // timeout.
    const bool is_quick = type.family == EventFamily::kLock && event.error == EAGAIN;
    visit.for_clock = !is_quick && WaitsForAClock(type, event);
    visits.push_back(visit);
  }
  MergeWaits(&visits);
  std::erase_if(visits, [](const LineVisit& one) { return one.for_clock; });
  return visits;
}

std::vector<LineVisit> VisitsBySamples(const PythonPaths& paths, const PythonThread& thread) {
  std::vector<LineVisit> visits;
  for (const PythonRun& run : thread.runs) {
    const uint32_t path = paths.Of(run.stack);
    if (path == 0 || paths.Imports(run.stack)) continue;
    if (!visits.empty() && visits.back().path == path && run.from_ps - visits.back().end_ps < run.period_ps) {
      visits.back().end_ps = run.to_ps;
    } else {
      visits.push_back({run.from_ps, run.to_ps, path, StableHash(path)});
    }
  }
  return visits;
}

StepDetection Detect(const std::vector<LineVisit>& visits) {
  std::vector<StepLaunch> launches;
  launches.reserve(visits.size());
  for (const LineVisit& visit : visits) {
    const uint8_t flags = visit.waits ? StepLaunch::kBlocking : 0;
    launches.push_back({visit.start_ps, visit.end_ps, visit.symbol, flags});
  }
  return DetectLongSteps(launches);
}

// The lines that a step visits, as paths.
using Lines = std::vector<uint32_t>;

double InCommon(const Lines& one, const Lines& other) {
  Lines both;
  std::ranges::set_intersection(one, other, std::back_inserter(both));
  const size_t all = one.size() + other.size() - both.size();
  return all == 0 ? 1 : static_cast<double>(both.size()) / static_cast<double>(all);
}

std::vector<const DetectedStep*> RegularSteps(const StepDetection& found) {
  std::vector<const DetectedStep*> regular;
  for (const DetectedStep& step : found.steps) {
    if (step.kind == DetectedStep::Kind::kRegular) regular.push_back(&step);
  }
  return regular;
}

// Returns the loop's lines that occur in nearly each step.
Lines LinesInSteps(const PythonPaths& paths, const PythonLoop& loop, const std::vector<LineVisit>& visits,
                   const StepDetection& found, double* alike) {
  const std::vector<const DetectedStep*> regular = RegularSteps(found);
  std::map<uint32_t, size_t> steps_with;
  std::vector<double> shares;
  Lines before;
  size_t from = 0;
  for (const DetectedStep* step : regular) {
    while (from < visits.size() && visits[from].start_ps < step->start_ps) ++from;
    Lines lines;
    for (; from < visits.size() && visits[from].start_ps < step->end_ps; ++from) lines.push_back(visits[from].path);
    std::ranges::sort(lines);
    lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
    if (step != regular.front()) shares.push_back(InCommon(before, lines));
    before = lines;
    Lines in_loop;
    for (uint32_t path : lines) {
      if (const uint32_t line = PathInLoop(paths, loop, path); line != 0) in_loop.push_back(line);
    }
    std::ranges::sort(in_loop);
    in_loop.erase(std::unique(in_loop.begin(), in_loop.end()), in_loop.end());
    for (uint32_t line : in_loop) ++steps_with[line];
  }
  *alike = Median(std::move(shares));
  Lines in_most;
  for (const auto& [line, steps] : steps_with) {
    if (static_cast<double>(steps) >= kMostSteps * static_cast<double>(regular.size())) in_most.push_back(line);
  }
  return in_most;
}

// Checks the steps against the samples.
class Judge {
 public:
  Judge(const PythonPaths& paths, const PythonLoop& loop, const PythonThread* samples, const StepDetection& found)
      : paths_(paths), loop_(loop), samples_(samples), regular_(RegularSteps(found)) {}

  // `errors`: standard errors by which the order of two lines must miss the limit to count as missing.
  LineOrder Order(double errors) const {
    if (samples_ == nullptr || regular_.empty()) return LineOrder::kUnknown;
    std::map<uint32_t, std::vector<double>> phases;  // by line
    size_t can_return = 0, returns = 0;
    auto run = samples_->runs.begin();
    for (const DetectedStep* step : regular_) {
      while (run != samples_->runs.end() && run->last_ps < step->start_ps) ++run;
      Lines order;
      for (auto at = run; at != samples_->runs.end() && at->first_ps < step->end_ps; ++at) {
        const uint32_t line = PathInLoop(paths_, loop_, paths_.Of(at->stack));
        if (line == 0 || at->first_ps < step->start_ps || at->last_ps >= step->end_ps) continue;
        const double middle = static_cast<double>(at->first_ps + at->last_ps) / 2 - static_cast<double>(step->start_ps);
        phases[line].push_back(middle / static_cast<double>(step->end_ps - step->start_ps));
        if (order.empty() || order.back() != line) order.push_back(line);
      }
      can_return += order.size() >= 3;
      std::ranges::sort(order);
      returns += std::ranges::adjacent_find(order) != order.end();
    }
    if (can_return >= kEnoughSamples && static_cast<double>(returns) >= kSomeReturn * static_cast<double>(can_return)) {
      return LineOrder::kAgain;
    }
    return OrderOf(std::move(phases), errors);
  }

  // Ratio of the thread's time in Python outside of the regular steps to the time in them; -1: there are no samples.
  double Outside() const {
    if (samples_ == nullptr || regular_.empty()) return -1;
    int64_t inside_ps = 0, outside_ps = 0;
    for (const DetectedStep* step : regular_) inside_ps += step->end_ps - step->start_ps;
    const int64_t first = regular_.front()->start_ps;
    auto step = regular_.begin();
    for (const PythonRun& run : samples_->runs) {
      while (step != regular_.end() && (*step)->end_ps <= run.first_ps) ++step;
      const bool in_step = step != regular_.end() && (*step)->start_ps <= run.first_ps;
      if (in_step || run.stack == 0 || paths_.Imports(run.stack)) continue;
      if (run.first_ps < first && PathInLoop(paths_, loop_, paths_.Of(run.stack)) != 0) continue;
      outside_ps += (run.to_ps - run.from_ps) / (run.first_ps < first ? kPreparationFactor : 1);
    }
    return static_cast<double>(outside_ps) / static_cast<double>(std::max<int64_t>(inside_ps, 1));
  }

 private:
  static LineOrder OrderOf(std::map<uint32_t, std::vector<double>> phases, double errors) {
    std::erase_if(phases, [](const auto& line) { return line.second.size() < kEnoughSamples; });
    for (auto& [line, of] : phases) std::ranges::sort(of);
    bool any = false;
    for (auto one = phases.begin(); one != phases.end(); ++one) {
      for (auto other = std::next(one); other != phases.end(); ++other) {
        double before = 0;
        for (double at : one->second) {
          before += static_cast<double>(other->second.end() - std::ranges::upper_bound(other->second, at));
        }
        const auto n = static_cast<double>(one->second.size()), m = static_cast<double>(other->second.size());
        const double ordered = std::max(before, n * m - before) / (n * m);
        // Standard error of Mann and Whitney's U if there is no order.
        const double error = std::sqrt((n + m + 1) / (12 * n * m));
        if (ordered + errors * error < kInNoOrder) return LineOrder::kAgain;
        any |= ordered >= kInOrder;
      }
    }
    return any ? LineOrder::kOnce : LineOrder::kUnknown;
  }

  const PythonPaths& paths_;
  const PythonLoop& loop_;
  const PythonThread* samples_;
  const std::vector<const DetectedStep*> regular_;
};

// Returns whether a library, such as a test runner, called the outermost function of the program.
bool CalledByLibrary(const Timeline& timeline, const PythonPaths& paths, uint32_t path) {
  path = paths.At(path, 1);
  for (uint32_t at = timeline.python.stacks[paths[path].stack].parent; at != 0;
       at = timeline.python.stacks[at].parent) {
    const PythonFunction& function = timeline.python.functions[timeline.python.stacks[at].function];
    const PythonOrigin origin =
        PythonOriginOf(timeline.strings.Get(function.file), timeline.strings.Get(function.name));
    if (origin != PythonOrigin::kStarter) return true;
  }
  return false;
}

// Returns the text of the loop's line with the most visit time.
std::string LineText(const Timeline& timeline, const PythonPaths& paths, const PythonLoop& loop,
                     const std::vector<LineVisit>& visits, const std::vector<DetectedStep>& steps) {
  std::map<uint32_t, int64_t> times;
  for (const LineVisit& visit : visits) {
    if (visit.start_ps < steps.front().start_ps || visit.start_ps >= steps.back().end_ps) continue;
    if (const uint32_t line = PathInLoop(paths, loop, visit.path); line != 0) {
      times[line] += 1 + visit.end_ps - visit.start_ps;
    }
  }
  if (times.empty()) return "";
  const auto most = std::ranges::max_element(times, {}, [](const auto& line) { return line.second; });
  return PythonFrameText(timeline, timeline.python.stacks[paths[most->first].stack]);
}

// Returns the texts of `lines`, then those of their callers.
std::vector<std::string> TextsOf(const Timeline& timeline, const PythonPaths& paths, Lines lines) {
  for (uint32_t path = lines.empty() ? 0 : paths[lines.front()].parent; path != 0; path = paths[path].parent) {
    lines.push_back(path);
  }
  std::vector<std::string> texts;
  for (uint32_t path : lines) texts.push_back(PythonFrameText(timeline, timeline.python.stacks[paths[path].stack]));
  return texts;
}

// Whether one call at a line of the loop is made again and again in nearly each step: the line may be in a loop of its
// own, whose turns may be the steps (`for epoch: for batch: step(batch)`, where a GPU or JAX works behind the calls).
bool HasRepeatedCall(const PythonPaths& paths, const PythonLoop& loop, const std::vector<LineVisit>& visits,
                     const StepDetection& found) {
  constexpr size_t kFewestCalls = 6;
  constexpr double kLeastOfStep = 0.15;
  const std::vector<const DetectedStep*> regular = RegularSteps(found);
  std::map<uint64_t, size_t> steps_with;  // by symbol
  size_t at = 0;
  for (const DetectedStep* step : regular) {
    while (at < visits.size() && visits[at].start_ps < step->start_ps) ++at;
    struct Calls {
      size_t count = 0;
      int64_t first_ps = 0, last_ps = 0;
    };
    std::map<uint64_t, Calls> calls;
    for (; at < visits.size() && visits[at].start_ps < step->end_ps; ++at) {
      if (!visits[at].waits || PathInLoop(paths, loop, visits[at].path) == 0) continue;
      Calls& of_symbol = calls[visits[at].symbol];
      if (of_symbol.count++ == 0) of_symbol.first_ps = visits[at].start_ps;
      of_symbol.last_ps = visits[at].end_ps;
    }
    const double least_ps = kLeastOfStep * static_cast<double>(step->end_ps - step->start_ps);
    for (const auto& [symbol, of_symbol] : calls) {
      const auto length = static_cast<double>(of_symbol.last_ps - of_symbol.first_ps);
      if (of_symbol.count >= kFewestCalls && length >= least_ps) ++steps_with[symbol];
    }
  }
  return std::ranges::any_of(steps_with, [&](const auto& entry) {
    return static_cast<double>(entry.second) >= kMostSteps * static_cast<double>(regular.size());
  });
}

double SpreadOf(const StepDetection& found) {
  std::vector<int64_t> lengths;
  for (const DetectedStep* step : RegularSteps(found)) lengths.push_back(step->end_ps - step->start_ps);
  if (lengths.empty()) return 0;
  std::ranges::sort(lengths);
  const int64_t middle = lengths[lengths.size() / 2];
  const int64_t spread = lengths[lengths.size() * 9 / 10] - lengths[lengths.size() / 10];
  return static_cast<double>(spread) / static_cast<double>(std::max<int64_t>(middle, 1));
}

PythonSteps Examine(const Timeline& timeline, const PythonPaths& paths, const std::vector<LineVisit>& visits,
                    const PythonThread* samples, bool exact) {
  PythonSteps steps;
  steps.exact = exact;
  steps.found = Detect(visits);
  // Detects the steps by the distances between visits of one line, instead of the classes of DetectSteps.
  const auto take_one_line = [&] {
    StepDetection one = DetectStepsAtOneLine(visits);
    if (!Holds(one)) return false;
    steps.found = std::move(one);
    return true;
  };
  bool at_one_line = exact && !Holds(steps.found) && take_one_line();
  if (!Holds(steps.found)) {
    steps.found.steps.clear();
    return steps;
  }
  const PythonLoop loop = FindPythonLoop(paths, visits, steps.found.steps);
  if (loop.frame == 0) {
    steps.found.steps.clear();
    return steps;
  }
  if (!at_one_line) CutAtLoop(timeline, paths, loop, visits, &steps.found);
  Lines lines = LinesInSteps(paths, loop, visits, steps.found, &steps.alike);
  if (exact && !at_one_line && lines.size() < 2 && take_one_line()) {
    lines = LinesInSteps(paths, loop, visits, steps.found, &steps.alike);
  }
  const Judge judge(paths, loop, samples, steps.found);
  steps.one_line = lines.size() < 2;
  steps.around = FindLoopAround(visits, steps.found.steps);
  // A single line may be visited only every few turns: weaker evidence is enough to doubt it.
  steps.order = judge.Order(steps.one_line ? 0 : 2);
  steps.outside = judge.Outside();
  const auto in_loop =
      std::ranges::find_if(visits, [&](const LineVisit& visit) { return PathInLoop(paths, loop, visit.path) != 0; });
  steps.called_by_library = CalledByLibrary(timeline, paths, in_loop->path);
  double& confidence = steps.found.confidence;
  if (lines.size() < 2 || steps.order != LineOrder::kOnce) confidence = std::min(confidence, kMostFromOneLine);
  if (steps.one_line && steps.order == LineOrder::kAgain) confidence *= kOneLineOfSeveral;
  const bool repeats = exact && HasRepeatedCall(paths, loop, visits, steps.found);
  if (steps.order == LineOrder::kAgain || !exact || steps.found.alternative != 0 || repeats)
    confidence = std::min(confidence, kMostFromSamples);
  confidence = std::min(confidence, kMostFromLines);
  if (!exact && SpreadOf(steps.found) > kMostSpreadOfSampled) confidence *= kByChance;
  steps.lines = TextsOf(timeline, paths, std::move(lines));
  steps.found.source = StrCat(exact ? "Python line " : "sampled Python line ",
                              LineText(timeline, paths, loop, visits, steps.found.steps));
  return steps;
}

}  // namespace

std::vector<PythonSteps> DetectStepsInPython(const Timeline& timeline, uint32_t process) {
  std::vector<PythonSteps> all;
  if (timeline.python.stacks.size() < 2) return all;
  const PythonPaths paths(timeline);
  for (const bool exact : {true, false}) {
    std::vector<std::pair<uint32_t, std::vector<LineVisit>>> threads;
    for (uint32_t i = 0; i < timeline.threads.size(); ++i) {
      const Thread& thread = timeline.threads[i];
      if (thread.process != process || thread.is_line) continue;
      const PythonThread* samples = timeline.python.OfThread(i);
      std::vector<LineVisit> visits;
      if (exact) visits = VisitsByCalls(timeline, paths, thread);
      if (!exact && samples != nullptr) visits = VisitsBySamples(paths, *samples);
      if (visits.size() >= kFewestLaunches) threads.emplace_back(i, std::move(visits));
    }
    std::ranges::stable_sort(threads, [&](const auto& one, const auto& other) {
      const bool one_main = timeline.threads[one.first].is_main, other_main = timeline.threads[other.first].is_main;
      return one_main != other_main ? one_main : one.second.size() > other.second.size();
    });
    if (threads.size() > kMostThreads) threads.resize(kMostThreads);
    for (const auto& [thread, visits] : threads) {
      const PythonThread* samples = timeline.python.OfThread(thread);
      PythonSteps steps = Examine(timeline, paths, visits, samples, exact);
      steps.thread = thread;
      if (steps.found.steps.empty()) continue;
      if (!exact && samples != nullptr && !samples->runs.empty()) {
        std::vector<int64_t> periods;
        for (const PythonRun& run : samples->runs) periods.push_back(run.period_ps);
        const auto shortest = kFewestSamples * static_cast<double>(Median(std::move(periods)));
        if (static_cast<double>(steps.found.period_ps) < shortest) continue;
      }
      all.push_back(std::move(steps));
    }
  }
  return all;
}

}  // namespace tbprof
