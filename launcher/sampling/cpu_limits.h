// SPDX-License-Identifier: Apache-2.0
//
// How many CPUs a process may use, and how long it was held back: its affinity, and the quota of its cgroup.
//
//   CpuLimitsReader limits(pid);
//   if (limits.Read(&fact)) ...          // the first time, and where it differs from what was read before
//   if (limits.has_quota() && limits.ReadThrottled(&fact)) ...     // likewise, and cheaper
//
// Of cgroup v2 alone. The smallest quota of the cgroup and those above it counts; what lies above the container that
// tbprof itself is in cannot be seen.
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

  // Fills in all but times and the process. What cannot be read any more is as it was.
  bool Read(CpuLimitsFact* fact);
  // How long it was held back, alone.
  bool ReadThrottled(CpuLimitsFact* fact);
  bool has_quota() const { return fact_.quota_us > 0; }

  // By the text of /proc/PID/cgroup: what Read does.
  void FindCgroup(std::string_view membership);

 private:
  void FindQuota(const std::string& path);
  void CountThrottled();
  bool Report(CpuLimitsFact* fact);

  pid_t pid_;
  std::string cgroups_;
  std::string limiting_;  // the directory of the cgroup with the quota, else of its own; empty: not known
  CpuLimitsFact fact_ = {0, 0, 0, -2, 0, -1, 0};
  CpuLimitsFact reported_ = {};  // quota_us 0: not yet
};

// Of CPUs in an affinity mask; 0: not known.
int AllowedCpus(pid_t pid);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_CPU_LIMITS_H_
