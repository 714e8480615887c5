// SPDX-License-Identifier: Apache-2.0
//
// The CPU usage of threads, and the CPUs that were available to them. Times and indexes as in timeline.h.
//
// Process: the converter.
#ifndef TBPROF_WRITER_TIMELINE_TIMELINE_USAGE_H_
#define TBPROF_WRITER_TIMELINE_TIMELINE_USAGE_H_

#include <cstdint>
#include <vector>

#include "writer/spool/usage_rows.h"

namespace tbprof {

// The kernel's counts since the thread's start. Between two points they are assumed to grow evenly; an interval without
// changes has a point at both ends.
struct UsagePoint {
  int64_t at_ps = 0;
  int64_t cpu_ps = 0;
  int64_t run_delay_ps = 0;   // runnable without a CPU; a wait counts when it ends
  uint64_t major_faults = 0;  // pages that were read from a disk; the count is at most 1 s old
  uint64_t minor_faults = 0;  // other pages that were mapped at a first touch, likewise
};

struct ThreadUsage {
  uint32_t thread = 0;             // index into Timeline::threads
  std::vector<UsagePoint> points;  // in order of time, within the window; no count decreases
};

// Consecutive samples of a thread that was blocked in a system call or by a page fault.
struct BlockedRun {
  int64_t first_ps = 0, last_ps = 0;
  uint32_t samples = 0;
  int32_t fd = -1;  // descriptor of the call, if it has one
  BlockedIn kind = BlockedIn::kOther;
  uint16_t call = 0;     // number of the system call + 1; 0: not known
  uint64_t futex = 0;    // its address; 0: none
  bool goes_on = false;  // with the call of the run before
  // The C library's function that waits, and the code that called it, as Event::call_site; empty: not known.
  StringId function = 0, site = 0;
  uint32_t holder = UINT32_MAX;  // the thread that holds the mutex: index into Timeline::threads; UINT32_MAX: not known
};

struct ThreadBlocked {
  uint32_t thread = 0;           // index into Timeline::threads
  std::vector<BlockedRun> runs;  // in order of time, within the window
};

// Of recorded processes that are not in this timeline (mostly other ranks of the job), sums over their threads in the
// window.
struct CpuOfOthers {
  int64_t cpu_ps = 0;
  int64_t run_delay_ps = 0;  // runnable without a CPU
};

// The CPU limits of the command.
struct CpuLimits {
  int cpus_allowed = 0;       // by its affinity, for most of the window; 0: not known
  int cpus_before = 0;        // before, if they were other ones; 0: they were not
  double quota_cpus = -1;     // of its cgroup (v2) or one above; <0: none, or not known
  int64_t throttled_ps = -1;  // in the window, by that cgroup, sum over all its threads; -1: not known
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_TIMELINE_TIMELINE_USAGE_H_
