// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/step_choice.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "writer/base/saturating.h"
#include "writer/base/summary_format.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/convert/detail_view.h"
#include "writer/convert/representative_steps.h"
#include "writer/steps/boosting_steps.h"
#include "writer/steps/inferred_steps.h"
#include "writer/steps/step_markers.h"
#include "writer/steps/torch_steps.h"
#include "writer/timeline/torch_names.h"

namespace tbprof {
namespace {

template <typename Found>
void Show(Found found, StepSource source, Timeline* timeline) {
  timeline->steps = std::move(found.steps);
  timeline->step_source = source;
  timeline->step_source_text = std::move(found.source);
  timeline->step_confidence = found.confidence;
  timeline->step_loops = std::move(found.loops);
}

// Where most operations of PyTorch were left out, what repeats may be among these.
std::string LeftOutText(const Timeline& timeline) {
  constexpr uint64_t kMost = 2;  // times those that were recorded
  uint64_t recorded = 0, skipped = 0;
  for (const Process& process : timeline.processes) {
    recorded += process.torch.recorded;
    skipped += process.torch.skipped;
  }
  return skipped > kMost * recorded ? "; most of PyTorch's operations were left out: --torch=all records them" : "";
}

void ShowWholeCapture(uint32_t process, std::string why_unknown, Timeline* timeline) {
  Step step;
  step.end_ps = timeline->duration_ps;
  step.name = "steps unknown, whole capture shown as step";
  for (uint32_t i = 0; i < timeline->threads.size(); ++i) {
    if (timeline->threads[i].is_main && timeline->threads[i].process == process) {
      step.thread = i;
      break;
    }
  }
  timeline->steps.push_back(std::move(step));
  timeline->step_source = StepSource::kWholeCapture;
  timeline->step_source_text = kWholeCaptureText;
  timeline->steps_unknown = std::move(why_unknown);
  if (!timeline->steps_unknown.empty()) timeline->steps_unknown += LeftOutText(*timeline);
  timeline->step_confidence = 0;
}

// If events were cut, infers steps only in the part of the window with full detail.
template <typename Infer>
InferredSteps InDetail(const StepRequest& request, Timeline* timeline, Infer&& infer) {
  if (!request.events_cut) return infer();
  const TimeSpan& detail = timeline->full_detail;
  const DetailView view(timeline);
  InferredSteps inferred = infer();
  // What runs on a GPU after this part may be missing.
  std::erase_if(inferred.steps, [&](const Step& step) { return step.end_ps > detail.end_ps; });
  timeline->steps_in_detail = !inferred.steps.empty();
  if (inferred.steps.empty() && !inferred.unknown.empty()) {
    StrAppend(&inferred.unknown, "; searched in ", HumanTime(detail.end_ps - detail.start_ps), " of ",
              HumanTime(timeline->duration_ps), " only (--max-profile-size)");
  }
  return inferred;
}

// Whether the marker names work of PyTorch of which most is not recorded: many steps are then missing, and one seems to
// last until the next that was recorded.
bool IsSampled(const Timeline& timeline, uint32_t process, const std::string& marker) {
  if (marker.empty() || timeline.processes[process].torch.skipped == 0) return false;
  const StepNames names(marker);
  return std::ranges::any_of(timeline.types,
                             [&](const EventType& type) { return IsTorchWork(type) && names.Match(type.name); });
}

// Calls of PyTorch's optimizers in the window.
size_t OptimizerSteps(const Timeline& timeline, uint32_t process) {
  std::vector<bool> is_step;  // by type
  for (const EventType& type : timeline.types) is_step.push_back(IsOptimizerStep(type.origin, type.name));
  size_t calls = 0;
  for (const Thread& thread : timeline.threads) {
    if (thread.process != process) continue;
    calls += static_cast<size_t>(
        std::ranges::count_if(thread.events, [&](const Event& event) { return is_step[event.type]; }));
  }
  return calls;
}

int64_t LengthOf(const std::vector<Step>& steps) {
  int64_t length = 0;
  for (const Step& step : steps) AddSaturating(&length, step.end_ps - step.start_ps);
  return length;
}

// Whether rounds of boosting are what the program does, and not a small model beside its own steps.
bool AreOfTheProgram(const Timeline& timeline, uint32_t process, const std::vector<Step>& rounds) {
  constexpr int64_t kLeastPart = 5;
  return !rounds.empty() && timeline.threads[rounds.front().thread].process == process &&
         LengthOf(rounds) >= timeline.duration_ps / kLeastPart;
}

// Steps of other sources than the marker.
void ShowOthers(const StepRequest& request, Timeline* timeline) {
  MarkedSteps marked = FindTorchSteps(*timeline, request.process);
  if (!marked.steps.empty()) return Show(std::move(marked), StepSource::kFramework, timeline);
  InferredSteps rounds = InDetail(request, timeline, [&] { return FindBoostingSteps(*timeline, request.process); });
  const bool are_all = !timeline->steps_in_detail || AreRepresentative(*timeline, rounds.steps);
  if (!are_all) rounds.steps.clear();
  if (AreOfTheProgram(*timeline, request.process, rounds.steps)) {
    return Show(std::move(rounds), StepSource::kFramework, timeline);
  }
  const bool rounds_in_detail = timeline->steps_in_detail;
  InferredSteps inferred = InDetail(request, timeline, [&] { return InferSteps(*timeline, request.process); });
  if (!rounds.steps.empty() && LengthOf(inferred.steps) <= 2 * LengthOf(rounds.steps)) {
    timeline->steps_in_detail = rounds_in_detail;
    return Show(std::move(rounds), StepSource::kFramework, timeline);
  }
  if (timeline->steps_in_detail && !AreRepresentative(*timeline, inferred.steps)) {
    timeline->steps_in_detail = false;
    inferred.steps.clear();
    inferred.unknown =
        "what repeats where all events were kept is not what takes most of the time; raise --max-profile-size";
  }
  if (!inferred.steps.empty()) return Show(std::move(inferred), StepSource::kInferred, timeline);
  // One or two steps of a training do not show how long its steps are.
  constexpr int64_t kShortPs = 10'000'000'000'000;
  const bool runs_on = timeline->exit_code < 0 && timeline->exit_signal == 0;
  const size_t calls = OptimizerSteps(*timeline, request.process);
  if (!request.events_cut && (calls == 1 || calls == 2)) {
    inferred.unknown = StrCat("PyTorch's optimizer ran only ", calls == 1 ? "once" : "twice", " in the recorded time",
                              runs_on ? ": capture longer" : "");
  } else if (runs_on && timeline->duration_ps < kShortPs && !inferred.unknown.empty()) {
    inferred.unknown += "; a longer capture may show steps";
  }
  ShowWholeCapture(request.process, std::move(inferred.unknown), timeline);
}

}  // namespace

void ChooseSteps(const StepRequest& request, Timeline* timeline) {
  if (timeline->threads.empty()) return;
  MarkedSteps marked = FindMarkedSteps(*timeline, request.process, request.marker);
  if (!marked.steps.empty() && IsSampled(*timeline, request.process, request.marker)) {
    constexpr double kOfSampled = 0.5;
    marked.confidence = kOfSampled;
    timeline->warnings.push_back(StrCat("--step-marker=", ValidUtf8(request.marker),
                                        " names operations of PyTorch, which are sampled: steps are missing; "
                                        "record all with --torch=all"));
  }
  if (!marked.steps.empty()) return Show(std::move(marked), StepSource::kMarked, timeline);
  if (request.marker.empty()) return ShowOthers(request, timeline);
  InferredSteps at_line =
      InDetail(request, timeline, [&] { return StepsAtLine(*timeline, request.process, StepNames(request.marker)); });
  if (!at_line.steps.empty()) return Show(std::move(at_line), StepSource::kInferred, timeline);
  const std::string option = StrCat("--step-marker=", ValidUtf8(request.marker));
  const std::string failed =
      at_line.unknown.empty()
          ? StrCat("no annotation, no kernel and no line that waits or allocates in each turn matches ", option)
          : StrCat(option, " gives none: ", at_line.unknown);
  timeline->warnings.push_back(StrCat("no steps: ", failed));
  ShowOthers(request, timeline);
  // The steps that are shown are not those that were asked for.
  if (timeline->step_source == StepSource::kWholeCapture) {
    timeline->steps_unknown = failed;
  } else {
    StrAppend(&timeline->step_source_text, ", not by ", option);
  }
}

}  // namespace tbprof
