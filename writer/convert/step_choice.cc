// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/step_choice.h"

#include <utility>

#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/steps/inferred_steps.h"
#include "writer/steps/step_markers.h"
#include "writer/steps/torch_steps.h"

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
  timeline->step_confidence = 0;
}

}  // namespace

void ChooseSteps(const StepRequest& request, Timeline* timeline) {
  if (timeline->threads.empty()) return;
  MarkedSteps marked = FindMarkedSteps(*timeline, request.process, request.marker);
  if (!marked.steps.empty()) return Show(std::move(marked), StepSource::kMarked, timeline);
  if (!request.marker.empty()) {
    InferredSteps at_line;
    if (!request.events_cut) at_line = StepsAtLine(*timeline, request.process, StepNames(request.marker));
    if (!at_line.steps.empty()) return Show(std::move(at_line), StepSource::kInferred, timeline);
    timeline->warnings.push_back(
        at_line.unknown.empty()
            ? StrCat("no steps: no annotation, no kernel and no line that repeats matches --step-marker=",
                     ValidUtf8(request.marker))
            : StrCat("no steps by --step-marker=", ValidUtf8(request.marker), ": ", at_line.unknown));
  }
  marked = FindTorchSteps(*timeline, request.process);
  if (!marked.steps.empty()) return Show(std::move(marked), StepSource::kFramework, timeline);
  if (request.events_cut) {
    return ShowWholeCapture(request.process, "events were left out to keep within --max-profile-size", timeline);
  }
  InferredSteps inferred = InferSteps(*timeline, request.process);
  if (!inferred.steps.empty()) return Show(std::move(inferred), StepSource::kInferred, timeline);
  ShowWholeCapture(request.process, std::move(inferred.unknown), timeline);
}

}  // namespace tbprof
