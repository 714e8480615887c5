// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/thread_blocked.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "writer/base/text_match.h"
#include "writer/convert/thread_rows.h"

namespace tbprof {

namespace {

BlockedCallRow WithoutCall(const ThreadBlockedRow& row) {
  BlockedCallRow with = {};
  memcpy(&with, &row, sizeof(row));
  with.call = 0;
  return with;
}

}  // namespace

void BlockedLines::Take(const Frame& frame) {
  if (frame.type != FrameType::kThreadBlocked && frame.type != FrameType::kBlockedCalls) return;
  ThreadUsageFact fact = {};
  frame.Read(&fact);
  const Identity process{frame.segment, fact.process_serial};
  const auto others = [](const Identity&, const auto&) {};
  if (frame.type == FrameType::kThreadBlocked) {
    const auto take = [&](uint32_t owner, const ThreadBlockedRow& row) { TakeRow(process, owner, WithoutCall(row)); };
    return ForEachThreadRow<ThreadBlockedRow>(frame, &model_, &corrupt_, take, others);
  }
  const auto take = [&](uint32_t owner, const BlockedCallRow& row) { TakeRow(process, owner, row); };
  ForEachThreadRow<BlockedCallRow>(frame, &model_, &corrupt_, take, others);
}

void BlockedLines::TakeRow(const Identity& process, uint32_t owner, const BlockedCallRow& row) {
  if (row.tid <= 0 || row.first_ticks == 0 || row.last_ticks < row.first_ticks || row.last_ticks >= kLatestTicks ||
      row.samples == 0 || static_cast<size_t>(row.kind) >= kBlockedKinds) {
    ++corrupt_;
    return;
  }
  if (row.last_ticks < window_.open || row.first_ticks >= window_.close || count_ >= kMostBlockedRuns) return;
  // Of a process with tbprof's library, its own threads are seen as well, and those that have recorded nothing.
  if (!timeline_.attached && !model_.HasThread(owner, row.tid)) return;
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
  BlockedRun run;
  run.first_ps = PsInWindow(facts_, timeline_, first);
  run.last_ps = PsInWindow(facts_, timeline_, last);
  run.samples = samples;
  run.fd = row.fd;
  run.kind = row.kind;
  run.call = row.call;
  run.futex = row.futex;
  run.goes_on = row.goes_on != 0;
  if (row.site != 0) run.site = modules_.NameOfCall(process, row.site);
  if (row.function != 0) {
    run.function = timeline_.strings.Intern(modules_.SymbolOfCall(process, row.function).function);
  }
  // Behind the word of other futexes is something else.
  const bool is_mutex = ContainsAny(timeline_.strings.Get(run.function), {"mutex", "lll_lock"});
  if (row.holder > 0 && is_mutex) run.holder = model_.LineOfThread(owner, row.holder, row.first_ticks);
  runs_[thread].push_back(run);
}

void BlockedLines::Finish() {
  for (auto& [thread, runs] : runs_) {
    std::ranges::stable_sort(runs, {}, &BlockedRun::first_ps);
    timeline_.blocked.push_back({thread, std::move(runs)});
  }
  timeline_.corrupt_records += corrupt_;
}

}  // namespace tbprof
