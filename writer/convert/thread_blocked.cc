// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/thread_blocked.h"

#include <algorithm>
#include <utility>

#include "writer/convert/thread_rows.h"

namespace tbprof {

void BlockedLines::Take(const Frame& frame) {
  if (frame.type != FrameType::kThreadBlocked) return;
  ForEachThreadRow<ThreadBlockedRow>(
      frame, &model_, &corrupt_, [this](uint32_t owner, const ThreadBlockedRow& row) { TakeRow(owner, row); },
      [](const Identity&, const ThreadBlockedRow&) {});
}

void BlockedLines::TakeRow(uint32_t owner, const ThreadBlockedRow& row) {
  if (row.tid <= 0 || row.first_ticks == 0 || row.last_ticks < row.first_ticks || row.last_ticks >= kLatestTicks ||
      row.samples == 0 || static_cast<size_t>(row.kind) >= kBlockedKinds) {
    ++corrupt_;
    return;
  }
  if (row.last_ticks < window_.open || row.first_ticks >= window_.close || count_ >= kMostBlockedRuns) return;
  const uint32_t thread = model_.LineOfThread(owner, row.tid, row.first_ticks);
  if (thread == kNoLine) return;
  ++count_;
  // The samples outside of the window are removed in proportion to their time.
  const uint64_t first = std::max(row.first_ticks, window_.open);
  const uint64_t last = std::min(row.last_ticks, window_.close - 1);
  const double share = row.last_ticks == row.first_ticks
                           ? 1
                           : static_cast<double>(last - first) / static_cast<double>(row.last_ticks - row.first_ticks);
  const auto samples = static_cast<uint32_t>(std::max(1.0, static_cast<double>(row.samples) * share));
  runs_[thread].push_back(
      {PsInWindow(facts_, timeline_, first), PsInWindow(facts_, timeline_, last), samples, row.fd, row.kind});
}

void BlockedLines::Finish() {
  for (auto& [thread, runs] : runs_) {
    std::ranges::stable_sort(runs, {}, &BlockedRun::first_ps);
    timeline_.blocked.push_back({thread, std::move(runs)});
  }
  timeline_.corrupt_records += corrupt_;
}

}  // namespace tbprof
