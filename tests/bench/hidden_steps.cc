// SPDX-License-Identifier: Apache-2.0
//
// How well the steps of a real run are found by what is left when that which names them is hidden.
//
//   hidden_steps SPOOL BEGINS [--hide=annotations|operations]... [--only=python|calls|activity]
//
// BEGINS: the program's own clock, nanoseconds since 1970, one for each step's begin and one for the last one's end.
// Annotations are PyTorch's and the program's own records of steps (ranges, optimizers, loaders); operations PyTorch's
// and TensorFlow's of their work. Prints one line of JSON; scores are those of docs/steps.md. --only=python prints what
// was considered to standard error.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/unit/writer/step_maker.h"
#include "wire/records.h"
#include "writer/convert/timeline_builder.h"
#include "writer/steps/inferred_steps.h"
#include "writer/steps/python_steps.h"
#include "writer/steps/step_activity.h"

namespace tbprof {
namespace {

void Hide(Timeline* timeline, bool annotations, bool operations) {
  const auto hidden = [&](const Event& event) {
    const EventType& type = timeline->types[event.type];
    if (type.family != EventFamily::kAnnotation || type.name == kTorchPause) return false;
    const bool names = type.origin == RangeOrigin::kProgram || type.origin == RangeOrigin::kTorchUser;
    return names ? annotations : operations;
  };
  for (Thread& thread : timeline->threads) std::erase_if(thread.events, hidden);
}

StepDetection PythonOf(const Timeline& timeline, uint32_t process) {
  const std::vector<PythonSteps> all = DetectStepsInPython(timeline, process);
  for (const PythonSteps& one : all) {
    std::fprintf(
        stderr, "  %s thread %u steps %zu period %.3f ms confidence %.2f order %d alike %.2f outside %.2f library %d\n",
        one.found.source.c_str(), one.thread, one.found.steps.size(), static_cast<double>(one.found.period_ps) / 1e9,
        one.found.confidence, static_cast<int>(one.order), one.alike, one.outside, one.called_by_library ? 1 : 0);
  }
  return all.empty() ? StepDetection() : all[0].found;
}

int Main(int count, char** arguments) {
  bool annotations = false, operations = false, calls = false, activity = false, python = false;
  std::vector<std::string> paths;
  for (int i = 1; i < count; ++i) {
    const std::string_view argument = arguments[i];
    annotations |= argument == "--hide=annotations";
    operations |= argument == "--hide=operations";
    calls |= argument == "--only=calls";
    python |= argument == "--only=python";
    activity |= argument == "--only=activity";
    if (!argument.starts_with("--")) paths.emplace_back(argument);
  }
  if (paths.size() != 2) return 2;
  TimelineRequest request;
  request.spool = paths[0];
  request.max_profile_size = uint64_t{4} << 30;  // all of it: what is cut repeats nothing
  auto timeline = BuildTimeline(request, [](uint64_t, uint64_t) {});
  if (!timeline.ok()) {
    const std::string why{timeline.status().message()};
    std::fprintf(stderr, "%s\n", why.c_str());
    return 1;
  }
  const auto shown = timeline->steps.empty() ? 0 : timeline->steps[0].thread;
  const uint32_t process = timeline->threads[shown].process;
  const std::string source = timeline->step_source_text;
  const size_t shown_steps = timeline->steps.size();
  Hide(&*timeline, annotations, operations);

  MadeSteps made;
  std::ifstream file(paths[1]);
  for (int64_t begin = 0; file >> begin;) {
    made.truth.push_back((begin - static_cast<int64_t>(timeline->origin_unix_ns)) * 1000);
  }
  made.periodic = made.truth.size() > 2;
  std::vector<int64_t> lengths, found;
  for (size_t i = 1; i < made.truth.size(); ++i) lengths.push_back(made.truth[i] - made.truth[i - 1]);
  std::sort(lengths.begin(), lengths.end());
  if (!lengths.empty()) made.median_ps = lengths[lengths.size() / 2];

  double confidence = 0;
  std::string how;
  size_t steps = 0;
  if (activity || calls || python) {
    const StepDetection detection = python  ? PythonOf(*timeline, process)
                                    : calls ? DetectStepsInBursts(*timeline, process)
                                            : DetectStepsOfThreads(*timeline, process);
    for (const DetectedStep& step : detection.steps) {
      found.push_back(step.start_ps);
      found.push_back(step.end_ps);
    }
    steps = detection.steps.size();
    confidence = detection.confidence;
    how = detection.source;
  } else {
    const InferredSteps inferred = InferSteps(*timeline, process);
    for (const Step& step : inferred.steps) {
      found.push_back(step.start_ps);
      found.push_back(step.end_ps);
    }
    steps = inferred.steps.size();
    confidence = inferred.confidence;
    how = inferred.source;
  }
  std::vector<int64_t> periods;
  for (size_t i = 0; i + 1 < found.size(); i += 2) periods.push_back(found[i + 1] - found[i]);
  std::sort(periods.begin(), periods.end());
  const StepScore score = ScoreBoundaries(made, found);
  // Where in the loop a step is cut is often a matter of taste: the same, all of them shifted alike.
  double shifted = score.f1, shift = 0;
  for (int i = 1; i < 50 && made.median_ps > 0; ++i) {
    std::vector<int64_t> moved = found;
    for (int64_t& boundary : moved) boundary += made.median_ps * i / 50;
    const double f1 = ScoreBoundaries(made, std::move(moved)).f1;
    if (f1 > shifted) {
      shifted = f1;
      shift = i / 50.0;
    }
  }
  std::printf(
      "{\"true_steps\": %zu, \"true_median_ms\": %.3f, \"steps\": %zu, \"median_ms\": %.3f, \"precision\": %.3f, "
      "\"recall\": %.3f, \"f1\": %.3f, \"shifted_f1\": %.3f, \"shift\": %.2f, \"confidence\": %.2f, \"source\": "
      "\"%s\", \"shown_source\": \"%s\", "
      "\"shown_steps\": %zu}\n",
      lengths.size(), static_cast<double>(made.median_ps) / 1e9, steps,
      periods.empty() ? 0.0 : static_cast<double>(periods[periods.size() / 2]) / 1e9, score.precision, score.recall,
      score.f1, shifted, shift, confidence, how.c_str(), source.c_str(), shown_steps);
  return 0;
}

}  // namespace
}  // namespace tbprof

int main(int count, char** arguments) { return tbprof::Main(count, arguments); }
