// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/xplane_python.h"

#include <algorithm>
#include <string>

#include "writer/base/text.h"
#include "writer/base/utf8.h"
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
  LineBuilder& line = plane_->AddLine((*line_id)++, StrCat(kPythonLine, thread_line, kSampledLine));
  line.ReserveEvents(samples.spans.size(), kExpectedSpanBytes);
  for (const PythonSpan& span : samples.spans) {
    line.Begin(EventIdOf(span.function), span.start_ps, span.duration_ps);
    line.Int64(Stat::kSamples, span.samples);
    if (span.line >= 0) line.Int64(Stat::kSourceLine, span.line);
    line.End();
  }
}

std::span<const GilSpan> GilSpansOf(const Timeline& timeline, uint32_t process) {
  const std::vector<GilSpan>& spans = timeline.python.gil_spans;
  const auto process_of = [&](const GilSpan& span) { return timeline.threads[span.thread].process; };
  return {std::ranges::lower_bound(spans, process, {}, process_of),
          std::ranges::upper_bound(spans, process, {}, process_of)};
}

void PythonLineWriter::WriteGil(uint32_t process, uint64_t* line_id) {
  const std::span<const GilSpan> spans = GilSpansOf(timeline_, process);
  if (spans.empty()) return;
  LineBuilder& line = plane_->AddLine((*line_id)++, kGilLine);
  line.ReserveEvents(spans.size(), kExpectedSpanBytes);
  for (const GilSpan& span : spans) {
    line.Begin(span.is_of_thread ? ThreadIdOf(span.thread) : EventIdOf(span.function), span.start_ps, span.duration_ps);
    line.Int64(Stat::kSamples, span.samples);
    if (!span.is_of_thread && span.line >= 0) line.Int64(Stat::kSourceLine, span.line);
    line.End();
  }
}

uint32_t PythonLineWriter::ThreadIdOf(uint32_t thread) {
  uint32_t& id = thread_ids_[thread];
  if (id != 0) return id;
  const Thread& of = timeline_.threads[thread];
  const std::string name = of.is_main ? "main thread" : ValidUtf8(of.name);
  // The reader takes events with other beginnings for steps.
  return id = plane_->EventId(StrCat("GIL: ", name, of.is_line ? "" : StrCat("/", of.tid)));
}

}  // namespace tbprof
