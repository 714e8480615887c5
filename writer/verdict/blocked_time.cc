// SPDX-License-Identifier: Apache-2.0
#include "writer/verdict/blocked_time.h"

#include <algorithm>

#include "writer/verdict/step_span.h"

namespace tbprof {

void ForEachBlockedRun(const Timeline& timeline, uint32_t thread,
                       const std::function<void(const BlockedRun& run, uint32_t stack)>& visit) {
  const ThreadBlocked* const blocked = timeline.BlockedOfThread(thread);
  if (blocked == nullptr) return;
  const PythonThread* const python = timeline.python.OfThread(thread);
  int64_t behind = INT64_MIN;
  for (const BlockedRun& run : blocked->runs) {
    if (run.first_ps <= behind) continue;
    behind = run.last_ps;
    const int64_t middle = run.first_ps + (run.last_ps - run.first_ps) / 2;
    visit(run, python == nullptr ? 0 : python->StackAt(middle));
  }
}

BlockedSamples BlockedSamplesIn(const Timeline& timeline, uint32_t thread, const std::vector<TimeSpan>& spans) {
  BlockedSamples samples;
  size_t at = 0;
  ForEachBlockedRun(timeline, thread, [&](const BlockedRun& run, uint32_t stack) {
    int64_t common = 0;
    const int64_t end = run.last_ps + 1;
    ForCommon(spans, &at, run.first_ps, end, [&](int64_t from, int64_t to) { common += to - from; });
    if (common == 0) return;
    samples[{stack, run.kind}] += run.samples * static_cast<double>(common) / static_cast<double>(end - run.first_ps);
  });
  return samples;
}

std::vector<TimeSpan> StoppedSpans(const Timeline& timeline, uint32_t thread) {
  constexpr int64_t kShortestPs = 100'000'000'000;
  std::vector<TimeSpan> spans;
  ForEachBlockedRun(timeline, thread, [&](const BlockedRun& run, uint32_t) {
    if (run.kind == BlockedIn::kStopped && run.last_ps - run.first_ps >= kShortestPs) {
      spans.push_back({run.first_ps, run.last_ps});
    }
  });
  return Merged(std::move(spans));
}

DescriptorKinds::DescriptorKinds(const Timeline& timeline, uint32_t thread) {
  const ThreadBlocked* const blocked = timeline.BlockedOfThread(thread);
  if (blocked == nullptr) return;
  for (const BlockedRun& run : blocked->runs) {
    if (run.fd >= 0) samples_[static_cast<uint64_t>(run.fd)][static_cast<size_t>(run.kind)] += run.samples;
  }
}

BlockedIn DescriptorKinds::Of(uint64_t fd) const {
  const auto found = samples_.find(fd);
  if (found == samples_.end()) return BlockedIn::kOther;
  const auto most = std::ranges::max_element(found->second);
  return static_cast<BlockedIn>(most - found->second.begin());
}

}  // namespace tbprof
