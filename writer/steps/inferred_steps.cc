// SPDX-License-Identifier: Apache-2.0
#include "writer/steps/inferred_steps.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "writer/base/saturating.h"
#include "writer/base/stable_hash.h"
#include "writer/base/summary_format.h"
#include "writer/base/text.h"
#include "writer/steps/device_launches.h"
#include "writer/steps/operation_steps.h"
#include "writer/steps/python_steps.h"
#include "writer/steps/step_activity.h"
#include "writer/steps/step_detector.h"
#include "writer/steps/step_evidence.h"
#include "writer/steps/waits_at_line.h"

namespace tbprof {
namespace {

// Waits repeat less exactly than launches, and an inner loop may wait, too.
constexpr double kMostFromCalls = 0.65;
// Lost records make the counts unreliable. The first factor keeps the confidence below kSureConfidence; the second, for
// many lost records, keeps it below kLeastShown, so that the steps are unknown.
constexpr double kAfterLossFactor = 0.7, kAfterMuchLossFactor = 0.5;
constexpr uint64_t kMuchLoss = 20;  // one record out of this many
// A shorter period of calls comes from an interpreter that loads its modules.
constexpr int64_t kShortestFromCallsPs = 2'000'000'000;
// For lines that are not imports. Waits of less than 100 us have no line.
constexpr int64_t kShortestFromLinesPs = 500'000'000;
constexpr double kLeastFromCalls = 0.5;
// Ratio of the time outside of the steps to the time in them. Above it, a single line that is called repeatedly for a
// short time may be any helper.
constexpr double kMostOutsideOfOneLine = 1;
// What is no step: the regular ones take less than this share of the time.
constexpr double kLeastOfTime = 0.03;
// Least share of the time for which a loop is proposed as the step.
constexpr double kLeastAdvised = 0.1;
// Factor for the remaining doubt if a training framework is loaded and the steps only compute.
constexpr double kDoubtOfATraining = 0.75;

// The calls and waits of the main thread, for programs that launch nothing.
std::vector<StepLaunch> Calls(const Timeline& timeline, uint32_t process, uint32_t* thread) {
  std::vector<StepLaunch> calls;
  for (uint32_t i = 0; i < timeline.threads.size(); ++i) {
    if (timeline.threads[i].process != process || !timeline.threads[i].is_main) continue;
    *thread = i;
    for (const Event& event : timeline.threads[i].events) {
      if (timeline.types[event.type].family == EventFamily::kAnnotation) continue;
      calls.push_back({event.start_ps, event.start_ps + event.duration_ps, StableHash(event.type, event.call_site), 0});
    }
    break;
  }
  return calls;
}

std::string_view TitleOf(const DetectedStep& step) {
  switch (step.kind) {
    case DetectedStep::Kind::kRegular:
      return "step";
    case DetectedStep::Kind::kWarmUp:
      return "warm-up";
    case DetectedStep::Kind::kIrregular:
      break;
  }
  switch (step.cause) {
    case DetectedStep::Cause::kPause:
      return "irregular: a pause";
    case DetectedStep::Cause::kCopies:
      return "irregular: copies";
    case DetectedStep::Cause::kMoreWork:
      return "irregular: other work";
    case DetectedStep::Cause::kLoss:
      return "irregular: records lost";
    case DetectedStep::Cause::kNone:
      break;
  }
  return "irregular";
}

// The detected steps and how they were found.
struct Source {
  StepDetection found;
  uint32_t thread = 0;
  std::string name;
  std::optional<StepLoop> around;
  std::string unknown = "nothing that was recorded repeats as steps do";
};

constexpr double kOfFewOperations = 0.8;

// Building a few layers or models repeats its operations as well.
bool MayBeSetUp(const StepDetection& found) {
  constexpr ptrdiff_t kFew = 8, kSome = 16;
  constexpr int64_t kShortPs = 50'000'000'000;
  const auto steps = std::ranges::count(found.steps, DetectedStep::Kind::kRegular, &DetectedStep::kind);
  return steps < kFew || (steps < kSome && found.steps.back().end_ps - found.steps.front().start_ps < kShortPs);
}

std::string TooUnsure(const StepDetection& found) {
  return absl::StrFormat("a period of %s has a confidence of %.2f only", HumanTime(found.period_ps), found.confidence);
}

Source FromLaunches(StepDetection found, uint32_t thread) {
  Source source;
  source.thread = thread;
  source.found = std::move(found);
  source.name = source.found.source;
  return source;
}

Source FromLines(const PythonSteps& steps) {
  Source source;
  source.found = steps.found;
  source.thread = steps.thread;
  source.name = steps.found.source;
  source.around = steps.around;
  return source;
}

// How the user can choose a loop that has this line: `train.py:42 fit`. Empty if a shell or a regular expression would
// interpret the place.
std::string AdviceFor(const std::string& line) {
  const std::string place = line.substr(0, line.rfind(' '));
  constexpr std::string_view kPlain = "_-./:";
  const bool is_plain = std::ranges::all_of(place, [&](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || kPlain.find(c) != std::string_view::npos;
  });
  return is_plain ? StrCat("; if it is the step: --step-marker=", place) : "";
}

// Returns whether steps that were found in calls can be those of a training. If not, writes the reason to `unknown`,
// unless it has one already.
bool IsOfATraining(const Timeline& timeline, uint32_t process, double most, Source* source, std::string* unknown) {
  StepDetection& found = source->found;
  if (found.steps.empty() || found.period_ps < kShortestFromCallsPs || found.confidence < kLeastConfidence)
    return false;
  const StepEvidence evidence = MeasureSteps(timeline, process, found);
  const StepDoubt doubt = DoubtOf(evidence);
  std::string why;
  if (doubt != StepDoubt::kNone) {
    why = TextOf(doubt);
  } else {
    if (evidence.library == NumericLibrary::kFramework) {
      found.confidence = std::min(1 - kDoubtOfATraining * (1 - found.confidence), most);
    }
    if (found.confidence >= kLeastShown) return true;
    why = TooUnsure(found);
  }
  if (unknown->empty()) *unknown = std::move(why);
  return false;
}

// The same for steps that were found by lines of the program's own code. A repeated line is better evidence than a
// repeated allocation, and samples show how much of the time before the loop was spent in imports.
bool IsOfATraining(const Timeline& timeline, uint32_t process, const PythonSteps& steps, Source* source,
                   std::string* unknown) {
  StepEvidence evidence = MeasureSteps(timeline, process, steps.found);
  const bool framework = evidence.library == NumericLibrary::kFramework;
  if (framework && !steps.called_by_library) evidence.alike = steps.alike;
  if (steps.outside >= 0) evidence.covered = std::max(evidence.covered, 1 / (1 + steps.outside));
  StepDoubt doubt = DoubtOf(evidence);
  if (doubt == StepDoubt::kNone && steps.one_line && steps.outside > kMostOutsideOfOneLine)
    doubt = StepDoubt::kSmallPart;
  *source = FromLines(steps);
  if (!framework || steps.called_by_library) {
    source->found.confidence = std::min(source->found.confidence, kMostFromCalls);
  }
  if (doubt == StepDoubt::kNone && source->found.confidence >= kLeastShown) return true;
  if (!unknown->empty()) return false;
  *unknown = doubt != StepDoubt::kNone ? std::string(TextOf(doubt)) : TooUnsure(source->found);
  // The choice of a loop does not make unsure turns right, and a loop of the set-up is not the step.
  // Nor is that of a thread that works for the main one.
  const bool is_main = timeline.threads[steps.thread].is_main;
  if (!steps.lines.empty() && steps.found.confidence >= kLeastShown && is_main && evidence.covered >= kLeastAdvised)
    *unknown += AdviceFor(steps.lines.front());
  return false;
}

// For programs that neither launch nor name anything. Tries lines of Python, then the main thread's calls, then bursts
// of calls of all threads, then the rhythm of all threads' calls.
Source FromCalls(const Timeline& timeline, uint32_t process) {
  std::string unknown;
  Source source;
  for (const PythonSteps& steps : DetectStepsInPython(timeline, process)) {
    if (steps.found.period_ps < kShortestFromLinesPs) continue;
    if (IsOfATraining(timeline, process, steps, &source, &unknown)) return source;
  }
  const std::vector<StepLaunch> calls = Calls(timeline, process, &source.thread);
  const uint32_t main_thread = source.thread;
  source = FromLaunches(DetectLongSteps(calls), main_thread);
  source.found.confidence = std::min(source.found.confidence, kMostFromCalls);
  source.name = "repeated calls";
  const bool sure = source.found.confidence >= kLeastFromCalls;
  if (sure && IsOfATraining(timeline, process, kMostFromCalls, &source, &unknown)) return source;
  source.found = DetectStepsInBursts(timeline, process);
  source.name = source.found.source;
  if (IsOfATraining(timeline, process, kMostFromBursts, &source, &unknown)) return source;
  source.found = DetectStepsOfThreads(timeline, process);
  source.name = source.found.source;
  if (IsOfATraining(timeline, process, kMostFromActivity, &source, &unknown)) return source;
  source.found.steps.clear();
  if (timeline.attached) source.unknown = "samples alone show no loop of long steps; `tbprof run` records short ones";
  if (!unknown.empty()) source.unknown = std::move(unknown);
  return source;
}

double FactorOfLoss(const Timeline& timeline, uint32_t process) {
  uint64_t lost = timeline.processes[process].gpu.dropped;
  for (const DropCount& drop : timeline.drops) lost += drop.records;
  if (lost == 0) return timeline.drops.empty() ? 1 : kAfterLossFactor;
  return lost > timeline.records / kMuchLoss ? kAfterMuchLossFactor : kAfterLossFactor;
}

// The part of the time from the first step to the last that regular steps take.
double RegularShare(const StepDetection& found) {
  int64_t regular_ps = 0;
  for (const DetectedStep& step : found.steps) {
    if (step.kind == DetectedStep::Kind::kRegular) AddSaturating(&regular_ps, step.end_ps - step.start_ps);
  }
  const double whole_ps =
      static_cast<double>(found.steps.back().end_ps) - static_cast<double>(found.steps.front().start_ps);
  return static_cast<double>(regular_ps) / std::max(whole_ps, 1.0);
}

InferredSteps Shown(const Timeline& timeline, uint32_t process, Source source) {
  InferredSteps inferred;
  StepDetection& found = source.found;
  inferred.unknown = source.unknown;
  if (found.steps.empty()) return inferred;
  found.confidence *= FactorOfLoss(timeline, process);
  if (found.confidence < kLeastShown) {
    inferred.unknown = TooUnsure(found);
    return inferred;
  }
  if (const double share = RegularShare(found); share < kLeastOfTime) {
    inferred.unknown = StrCat("what repeats takes ", HumanPercent(share), " of the time");
    return inferred;
  }
  inferred.confidence = found.confidence;
  inferred.unknown.clear();
  inferred.source = std::move(source.name);
  if (found.alternative > 0) {
    const auto regular = std::ranges::count(found.steps, DetectedStep::Kind::kRegular, &DetectedStep::kind);
    const double turns = std::round(static_cast<double>(regular) / found.alternative);
    inferred.loops.push_back({found.alternative > 1 ? "turns of an outer loop" : "turns of an inner loop",
                              static_cast<uint64_t>(std::max(turns, 1.0)), found.alternative,
                              inferred.confidence <= kSureConfidence});
  }
  if (source.around) inferred.loops.push_back(std::move(*source.around));
  int64_t number = 0;
  for (const DetectedStep& detected : found.steps) {
    Step step;
    step.start_ps = std::clamp<int64_t>(detected.start_ps, 0, timeline.duration_ps);
    step.end_ps = std::clamp<int64_t>(detected.end_ps, 0, timeline.duration_ps);
    step.number = number++;
    step.name = TitleOf(detected);
    step.thread = source.thread;
    step.is_regular = detected.kind == DetectedStep::Kind::kRegular;
    inferred.steps.push_back(std::move(step));
  }
  return inferred;
}

}  // namespace

InferredSteps InferSteps(const Timeline& timeline, uint32_t process) {
  if (process >= timeline.processes.size()) return {};
  const DeviceLaunches device = LaunchesOnDevices(timeline, process);
  if (!device.launches.empty()) {
    return Shown(timeline, process, FromLaunches(DetectStepsBetweenPauses(device.launches), device.thread));
  }
  OperationSteps operations = StepsOfOperations(timeline, process);
  Source source;
  source.found = std::move(operations.found);
  source.thread = operations.thread;
  source.name = "repeated operations";
  if (!Holds(source.found)) {
    source = FromCalls(timeline, process);
  } else if (MayBeSetUp(source.found)) {
    source.found.confidence *= kOfFewOperations;
  }
  return Shown(timeline, process, std::move(source));
}

InferredSteps StepsAtLine(const Timeline& timeline, uint32_t process, const StepNames& names) {
  if (process >= timeline.processes.size()) return {};
  for (const PythonSteps& steps : DetectStepsInPython(timeline, process)) {
    const bool wanted = std::ranges::any_of(steps.lines, [&](const std::string& line) { return names.Match(line); });
    if (!wanted || steps.found.period_ps < kShortestFromLinesPs) continue;
    // Samples show that the lines come again within what seems to be a step: it is several.
    if (!steps.exact && steps.order != LineOrder::kOnce) continue;
    return Shown(timeline, process, FromLines(steps));
  }
  return StepsBetweenWaits(timeline, process, names);
}

}  // namespace tbprof
