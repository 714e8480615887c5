// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/xplane_native.h"

#include "writer/base/text.h"
#include "writer/timeline/schema.h"

namespace tbprof {
namespace {

constexpr size_t kExpectedNativeSpanBytes = 32;

}  // namespace

std::string NativeLabel(const Timeline& timeline, const NativeStack& stack) {
  const std::string& function = timeline.strings.Get(stack.function);
  const std::string& module = timeline.strings.Get(stack.module);
  return module.empty() || function.starts_with("[") ? function : StrCat(function, " [", module, "]");
}

uint32_t NativeLineWriter::EventIdOf(const NativeStack& stack) {
  uint32_t& id = event_ids_[{stack.function, stack.module}];
  if (id != 0) return id;
  const std::string label = NativeLabel(timeline_, stack);
  // The reader takes events with these names for steps.
  if (!label.starts_with("train") && !label.starts_with("test")) return id = plane_->EventId(label);
  id = plane_->EventId(StrCat("function ", label));
  plane_->ShowAs(id, label);
  return id;
}

void NativeLineWriter::Write(uint32_t thread, std::string_view thread_line, uint64_t* line_id) {
  if (NativeSpanCount(timeline_, thread) == 0) return;
  const NativeThread& samples = *timeline_.native.OfThread(thread);
  LineBuilder& line = plane_->AddLine((*line_id)++, StrCat(kNativeLine, thread_line, kSampledLine));
  line.ReserveEvents(samples.spans.size(), kExpectedNativeSpanBytes);
  for (const NativeSpan& span : samples.spans) {
    line.Begin(EventIdOf(timeline_.native.stacks[span.stack]), span.start_ps, span.duration_ps);
    line.Int64(Stat::kSamples, span.samples);
    line.End();
  }
}

}  // namespace tbprof
