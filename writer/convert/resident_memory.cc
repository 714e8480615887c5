// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/resident_memory.h"

#include <algorithm>
#include <utility>

#include "writer/convert/memory_growth.h"
#include "writer/convert/thread_rows.h"
#include "writer/spool/exec_images.h"

namespace tbprof {
namespace {

// More than any machine has. Sums of a few such counts are in the range of int64_t.
constexpr uint64_t kMostBytes = uint64_t{1} << 56;

}  // namespace

void ResidentLines::Take(const Frame& frame) {
  if (frame.type != FrameType::kResidentMemory) return;
  ThreadUsageFact fact = {};
  // After an exec these are the counts of another program, which has a segment of its own or is not recorded.
  const uint64_t exec = frame.Read(&fact) ? ExecOf({frame.segment, fact.process_serial}) : UINT64_MAX;
  ForEachThreadRow<ResidentRow>(
      frame, &model_, &corrupt_,
      [&](uint32_t owner, const ResidentRow& row) {
        if (row.ticks < exec) TakeRow(owner, row);
      },
      [](const Identity&, const ResidentRow&) {});
}

uint64_t ResidentLines::ExecOf(const Identity& process) {
  if (!std::exchange(has_execs_, true)) {
    const ExecReturns returns(facts_);
    for (const ExecFacts& exec : facts_.execs) {
      if (!exec.spawned && !returns.Has(exec)) execs_[exec.process] = exec.ticks;
    }
  }
  const auto found = execs_.find(process);
  return found == execs_.end() ? UINT64_MAX : found->second;
}

void ResidentLines::TakeRow(uint32_t owner, const ResidentRow& row) {
  for (const uint64_t bytes :
       {row.anonymous_bytes, row.file_bytes, row.shared_bytes, row.swapped_bytes, row.peak_bytes}) {
    if (bytes > kMostBytes || row.ticks == 0 || row.ticks >= kLatestTicks) {
      ++corrupt_;
      return;
    }
  }
  if (row.ticks < window_.open || row.ticks >= window_.close) return;
  Readings& readings = readings_[owner];
  const ResidentPoint point = {PsInWindow(facts_, timeline_, row.ticks), static_cast<int64_t>(row.anonymous_bytes),
                               static_cast<int64_t>(row.file_bytes), static_cast<int64_t>(row.shared_bytes),
                               static_cast<int64_t>(row.swapped_bytes)};
  const int64_t resident = point.anonymous_bytes + point.file_bytes + point.shared_bytes;
  // The kernel's peak may be from before the capture.
  const bool is_whole = timeline_.processes[owner].start_ps > 0;
  readings.peak_bytes =
      std::max(readings.peak_bytes, is_whole ? std::max(resident, static_cast<int64_t>(row.peak_bytes)) : resident);
  if (point.own_bytes() > readings.highest.own_bytes()) readings.highest = point;
  if (readings.points.size() >= most_) {
    size_t kept = 0;
    for (size_t i = 0; i < readings.points.size(); i += 2) readings.points[kept++] = readings.points[i];
    readings.points.resize(kept);
    readings.every *= 2;
  }
  if (readings.seen++ % readings.every == 0) readings.points.push_back(point);
}

void ResidentLines::FinishProcess(uint32_t index, Readings* readings) {
  std::vector<ResidentPoint>& points = readings->points;
  std::ranges::stable_sort(points, {}, &ResidentPoint::at_ps);
  ResidentMemory& resident = timeline_.processes[index].resident;
  resident.peak_bytes = readings->peak_bytes;
  resident.highest = readings->highest;
  CounterTrack track;
  track.name = kResidentTrack;
  track.series = "bytes";
  track.process = index;
  std::vector<MemoryLevel> levels;
  for (const ResidentPoint& point : points) {
    levels.push_back({point.at_ps, point.own_bytes()});
    track.samples.push_back(
        {point.at_ps, static_cast<double>(point.anonymous_bytes + point.file_bytes + point.shared_bytes)});
  }
  timeline_.counters.push_back(std::move(track));
  const GrowthAnswer growth = FindGrowth(timeline_, index, levels, resident.highest.own_bytes());
  resident.grows = growth.grows;
  resident.growth = GrowthOf(levels, growth.span);
  resident.points = std::move(points);
}

void ResidentLines::Finish() {
  for (auto& [index, readings] : readings_) {
    if (!readings.points.empty()) FinishProcess(index, &readings);
  }
  timeline_.corrupt_records += corrupt_;
}

}  // namespace tbprof
