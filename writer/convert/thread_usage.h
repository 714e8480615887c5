// SPDX-License-Identifier: Apache-2.0
//
// From the CPU time of threads in a spool to Timeline::usage, and from the limits of CPUs to Timeline::cpu_limits.
//
//   UsageLines usage(&window, &facts, &model, &timeline);
//   usage.Take(frame);        // each frame of the second pass
//   usage.Finish();           // once
//
// Process: converter, one thread. Untrusted: all of a frame. Memory: kMostUsagePoints; beyond it the points of all
// threads are thinned alike, by time.
#ifndef TBPROF_WRITER_CONVERT_THREAD_USAGE_H_
#define TBPROF_WRITER_CONVERT_THREAD_USAGE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "writer/convert/capture_window.h"
#include "writer/convert/process_model.h"
#include "writer/spool/spool_facts.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

inline constexpr size_t kMostUsagePoints = 1u << 20;

class UsageLines {
 public:
  // All must outlive this. `most_points`: kMostUsagePoints except in tests.
  UsageLines(const CaptureWindow* window, const SpoolFacts* facts, ProcessModel* model, Timeline* timeline,
             size_t most_points = kMostUsagePoints)
      : window_(*window), facts_(*facts), model_(*model), timeline_(*timeline), most_points_(most_points) {}

  // Ignores all frames except kThreadUsage.
  void Take(const Frame& frame);
  void Finish();

 private:
  struct Point {
    uint64_t ticks = 0, cpu_ns = 0, run_delay_ns = 0;
    uint32_t major_faults = 0, minor_faults = 0;
  };
  struct Line {
    std::vector<Point> points;  // within the window
    Point before, after;        // the nearest points outside of it; ticks 0: none
  };

  // An unknown thread has a line only if it has samples, which is known at the end.
  using Unknown = std::pair<uint32_t, int32_t>;  // index into Timeline::processes, tid

  // Rows of other ranks, and of processes that have no line.
  void TakeRowOfOthers(const Identity& process, const ThreadUsageRow& row);
  void AddOthers();
  void ListKnown();
  void TakeRow(uint32_t owner, const ThreadUsageRow& row);
  // Null: there are too many threads or lines.
  Line* FindLine(uint32_t owner, const ThreadUsageRow& row);
  void Add(const Point& point, std::vector<Point>* points);
  void Thin();
  // The points in order, cut to the window.
  std::vector<Point> TakePoints(Line* line) const;
  void FinishLine(uint32_t thread, Line* line);
  void AddLimits();

  const CaptureWindow& window_;
  const SpoolFacts& facts_;
  ProcessModel& model_;
  Timeline& timeline_;
  std::map<uint32_t, Line> lines_;  // by index into Timeline::threads
  std::map<Unknown, Line> unknown_;
  // By process and tid: the first and the last point in the window.
  std::map<std::pair<Identity, int32_t>, std::pair<Point, Point>> others_;
  absl::flat_hash_set<Unknown> known_;
  size_t most_points_, points_ = 0;
  uint64_t distance_ = 0;  // the least distance of a thread's points, in ticks
  uint64_t corrupt_ = 0;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_THREAD_USAGE_H_
