// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/thread_blocked.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

namespace tbprof {
namespace {

constexpr uint64_t kLatestTicks = uint64_t{1} << 62;

}  // namespace

void BlockedLines::Take(const Frame& frame) {
  if (frame.type != FrameType::kThreadBlocked) return;
  ThreadUsageFact fact;
  if (!frame.Read(&fact) || frame.segment == 0 || fact.process_serial == 0) {
    ++corrupt_;
    return;
  }
  const uint32_t owner = model_.IndexOfProcess({frame.segment, fact.process_serial});
  if (owner == kNoProcess) return;
  const std::string_view rows = frame.payload.substr(sizeof(fact));
  const size_t count = std::min<size_t>(fact.count, rows.size() / sizeof(ThreadBlockedRow));
  if (count != fact.count) ++corrupt_;
  for (size_t i = 0; i < count; ++i) {
    ThreadBlockedRow row;
    memcpy(&row, rows.data() + i * sizeof(row), sizeof(row));
    TakeRow(owner, row);
  }
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
  // Those outside of the window are a share of the whole.
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
