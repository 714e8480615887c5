// SPDX-License-Identifier: Apache-2.0
//
// Reads how many CPUs a process may use (affinity, cgroup quota), and how long the kernel throttled it.
//
//   CpuLimitsReader limits(pid);
//   if (limits.Read(&fact)) ...          // true at the first call, and when a value has changed
//   if (limits.has_quota() && limits.ReadThrottled(&fact)) ...     // likewise, but cheaper
//
// Supports cgroup v2 only. The smallest quota of the cgroup and its ancestors counts. Ancestors above tbprof's own
// container are not visible.
//
// Process: launcher, the thread of a sampler. Not thread-safe.
#ifndef TBPROF_LAUNCHER_SAMPLING_CPU_LIMITS_H_
#define TBPROF_LAUNCHER_SAMPLING_CPU_LIMITS_H_

#include <sys/types.h>

#include <string>
#include <string_view>

#include "writer/spool/spool.h"

namespace tbprof {

class CpuLimitsReader {
 public:
  explicit CpuLimitsReader(pid_t pid, std::string cgroups = "/sys/fs/cgroup")
      : pid_(pid), cgroups_(std::move(cgroups)) {}

  // Sets all members except `ticks` and `process_serial`. A value that cannot be read any more keeps its last value.
  bool Read(CpuLimitsFact* fact);
  // Reads only the throttled time and periods.
  bool ReadThrottled(CpuLimitsFact* fact);
  bool has_quota() const { return fact_.quota_us > 0; }

  // The part of Read that needs `membership`, the text of /proc/PID/cgroup.
  void FindCgroup(std::string_view membership);

 private:
  void FindQuota(const std::string& path);
  void CountThrottled();
  bool Report(CpuLimitsFact* fact);

  pid_t pid_;
  std::string cgroups_;
  std::string limiting_;  // directory of the cgroup with the quota, else of the process's cgroup; empty: not known
  CpuLimitsFact fact_ = {0, 0, 0, -2, 0, -1, 0};
  CpuLimitsFact reported_ = {};  // quota_us == 0: nothing reported yet
};

// The number of CPUs in the affinity mask of a thread, or of the main thread of a process; 0: not known.
int AllowedCpus(pid_t pid);
// The number of CPUs that any thread of the process may use; 0: not known.
int AllowedCpusOfThreads(pid_t pid);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_CPU_LIMITS_H_
