// SPDX-License-Identifier: Apache-2.0
//
// From a spool to a timeline: decodes, checks, joins processes and threads, cuts to the window, keeps within the
// budget, names addresses. A spool is hostile input: invalid content is counted and left out.
//
//   auto timeline = BuildTimeline({.spool = path}, [](uint64_t done, uint64_t total) {});
//
// Memory: bounded by the event budget, not by the spool's size. Process: converter, one thread.
#ifndef TBPROF_WRITER_CONVERT_TIMELINE_BUILDER_H_
#define TBPROF_WRITER_CONVERT_TIMELINE_BUILDER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "writer/convert/diagnostics.h"
#include "writer/spool/spool.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

inline constexpr int kAnyRank = -1;

struct TimelineRequest {
  std::string spool;
  SpoolExtent extent;                         // how much of it to read
  uint32_t window = 0;                        // number of the window to show; 0: the run's own
  uint64_t max_profile_size = 64u << 20;      // bytes of the xplane file to aim at
  std::string host;                           // overrides the session's
  std::string step_marker;                    // a regular expression, likewise
  uint64_t part_from_ns = 0, part_to_ns = 0;  // part of the window, from its begin; 0: all of it
  uint64_t agreed_start_unix_ns = 0;          // start of several simultaneous captures; 0: none
  // The rank to show, if a spool has several: the processes that report it, and their descendants. kAnyRank: the lowest
  // rank, with the processes of no rank (torchrun itself); Timeline::further_ranks then has the other ranks.
  int rank = kAnyRank;
  std::vector<std::string> warnings;  // from the launcher, not in the spool
  bool recovered = false;             // the launcher is gone: adds a warning
  bool command_ended = false;         // the end of the command closed the window
  ExamineProgram examine = nullptr;   // reads facts from a program's file
};

using ProgressFunction = std::function<void(uint64_t done, uint64_t total)>;

// The facts of a spool about its session. Reads the main file of the spool.
struct SpoolSummary {
  std::string logdir, run, host;
  bool run_exclusive = true;
  std::vector<std::string> command;
  std::vector<std::string> also;
  uint64_t max_profile_size = 0;
  int launcher_pid = 0;
  uint64_t start_unix_ns = 0;
  struct SpoolWindow {
    uint32_t number;  // 0: the run's own; captures from 1; kStartWindow...
    bool published = false;
    bool replaced = false;
  };
  std::vector<SpoolWindow> windows;  // all that were opened
};
absl::StatusOr<SpoolSummary> ReadSpoolSummary(const std::string& path);

absl::StatusOr<Timeline> BuildTimeline(const TimelineRequest& request, const ProgressFunction& progress);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_TIMELINE_BUILDER_H_
