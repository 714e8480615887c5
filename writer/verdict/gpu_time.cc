// SPDX-License-Identifier: Apache-2.0
#include "writer/verdict/gpu_time.h"

#include <algorithm>

#include "writer/base/saturating.h"

namespace tbprof {
namespace {

constexpr uint8_t kPageable = 1;  // CUpti_ActivityMemoryKind

// Splits [start, end) into the parts inside `spans` and the rest.
template <typename In, typename Rest>
void Divide(const std::vector<TimeSpan>& spans, int64_t start, int64_t end, In&& in, Rest&& rest) {
  auto at = std::ranges::upper_bound(spans, start, {}, &TimeSpan::end_ps);
  for (; at != spans.end() && at->start_ps < end; ++at) {
    if (at->start_ps > start) rest(start, at->start_ps);
    const int64_t from = std::max(start, at->start_ps), to = std::min(end, at->end_ps);
    in(from, to);
    start = to;
  }
  if (start < end) rest(start, end);
}

}  // namespace

GpuTime::GpuTime(const Timeline& timeline, uint32_t process, const std::vector<TimeSpan>& spans) {
  for (const GpuStream& stream : timeline.gpu_streams) {
    if (stream.process != process) continue;
    size_t at = 0;
    for (const GpuEvent& event : stream.events) {
      const int64_t end = event.start_ps + event.duration_ps;
      int64_t common = 0;
      ForCommon(spans, &at, event.start_ps, end, [&](int64_t from, int64_t to) { common += to - from; });
      any_ = true;
      const TimeSpan span = {event.start_ps, end};
      busy_.push_back(span);
      if (event.kind == GpuEventKind::kKernel || event.kind == GpuEventKind::kGraph) {
        const bool collective = IsCollective(timeline.strings.Get(event.name));
        (collective ? collecting_ : computing_).push_back(span);
        if (common > 0 && !collective) {
          devices_.insert(stream.device);
          ++kernels_;
          AddSaturating(&kernel_ps_, common);
        }
        continue;
      }
      copying_.push_back(span);
      const bool pageable = event.source_kind == kPageable || event.destination_kind == kPageable;
      if (event.kind == GpuEventKind::kCopy && pageable && common > 0) {
        ++pageable_copies_;
        AddSaturating(&pageable_ps_, common);
        pageable_bytes_ += event.value;
      }
    }
  }
  computing_ = Merged(std::move(computing_));
  collecting_ = Merged(std::move(collecting_));
  copying_ = Merged(std::move(copying_));
  busy_ = Merged(std::move(busy_));
  std::vector<TimeSpan> in_spans;
  size_t at = 0;
  for (const TimeSpan& span : busy_) {
    ForCommon(spans, &at, span.start_ps, span.end_ps, [&](int64_t from, int64_t to) {
      in_spans.push_back({from, to});
    });
  }
  busy_ = std::move(in_spans);
  busy_ps_ = LengthOf(busy_);
  at = 0;
  for (const TimeSpan& span : computing_) {
    ForCommon(spans, &at, span.start_ps, span.end_ps, [&](int64_t from, int64_t to) { computing_ps_ += to - from; });
  }
  const TimeSpan& detail = timeline.full_detail;
  const bool in_detail = std::ranges::all_of(
      spans, [&](const TimeSpan& span) { return span.start_ps >= detail.start_ps && span.end_ps <= detail.end_ps; });
  is_cut_ = any_ && timeline.shortest_gpu_shown_ps > 0 && !in_detail;
  if (!is_cut_ || timeline.gpu_devices.size() != 1 || timeline.duration_ps <= 0) return;
  const GpuDevice& device = timeline.gpu_devices.front();
  const double share = static_cast<double>(LengthOf(spans)) / static_cast<double>(timeline.duration_ps);
  const auto part = [&](auto total) { return static_cast<double>(total) * share; };
  kernels_ = static_cast<uint64_t>(part(device.kernels));
  kernel_ps_ = static_cast<int64_t>(part(device.kernel_ps - device.collective_ps));
  busy_ps_ = static_cast<int64_t>(part(device.busy_ps));
}

void GpuTime::Add(int64_t start_ps, int64_t end_ps, std::array<int64_t, kStepParts>* parts) const {
  const auto add = [&](StepPart part) {
    return [parts, part](int64_t from, int64_t to) { (*parts)[static_cast<size_t>(part)] += to - from; };
  };
  Divide(computing_, start_ps, end_ps, add(StepPart::kKernels), [&](int64_t from, int64_t to) {
    Divide(collecting_, from, to, add(StepPart::kCollectives), [&](int64_t from_2, int64_t to_2) {
      Divide(copying_, from_2, to_2, add(StepPart::kCopies), add(StepPart::kLaunch));
    });
  });
}

}  // namespace tbprof
