// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/xplane_python.h"

#include <string>

#include "writer/base/text.h"
#include "writer/timeline/python_place.h"
#include "writer/timeline/schema.h"

namespace tbprof {
namespace {

constexpr size_t kExpectedSpanBytes = 36;

}  // namespace

uint32_t PythonLineWriter::EventIdOf(uint32_t function) {
  uint32_t& id = event_ids_[function];
  if (id != 0) return id;
  const std::string& label = timeline_.strings.Get(timeline_.python.functions[function].label);
  // The reader takes events with these names for steps.
  if (!label.starts_with("train") && !label.starts_with("test")) return id = plane_->EventId(label);
  id = plane_->EventId(StrCat("def ", label));
  plane_->ShowAs(id, label);
  return id;
}

// No stat name that a reader knows contains a colon followed by a blank.
void PythonTexts::Write(uint32_t stack, LineBuilder& line) {
  const auto [known, added] = ids_.try_emplace(stack);
  Ids& ids = known->second;
  if (added) {
    const PythonStack& frame = timeline_.python.stacks[stack];
    ids.line = plane_->TextId(PythonFrameText(timeline_, frame));
    if (frame.parent != 0 && ids_.size() <= kMostStacks) {
      ids.stack = plane_->TextId(PythonStackText(timeline_, stack, kCallers));
    }
  }
  line.Text(Stat::kPython, ids.line);
  if (ids.stack != 0) line.Text(Stat::kPythonStack, ids.stack);
}

void PythonLineWriter::Write(uint32_t thread, std::string_view thread_line, uint64_t* line_id) {
  if (PythonSpanCount(timeline_, thread) == 0) return;
  const PythonThread& samples = *timeline_.python.OfThread(thread);
  LineBuilder& line = plane_->AddLine((*line_id)++, StrCat(thread_line, " ", kPythonLine));
  line.ReserveEvents(samples.spans.size(), kExpectedSpanBytes);
  for (const PythonSpan& span : samples.spans) {
    line.Begin(EventIdOf(span.function), span.start_ps, span.duration_ps);
    line.Int64(Stat::kSamples, span.samples);
    if (span.line >= 0) line.Int64(Stat::kSourceLine, span.line);
    line.End();
  }
}

}  // namespace tbprof
