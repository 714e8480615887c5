// SPDX-License-Identifier: Apache-2.0
#ifndef TBPROF_WRITER_TIMELINE_TIMELINE_USAGE_H_
#define TBPROF_WRITER_TIMELINE_TIMELINE_USAGE_H_
#include <cstdint>
#include <vector>
namespace tbprof {
struct UsagePoint {
  int64_t at_ps = 0;
  int64_t cpu_ps = 0;
  int64_t run_delay_ps = 0;
  uint64_t major_faults = 0;
  uint64_t minor_faults = 0;
};
struct ThreadUsage {
  uint32_t thread = 0;
  std::vector<UsagePoint> points;
};
struct CpuLimits {
  int cpus_allowed = 0;
  double quota_cpus = -1;
  int64_t throttled_ps = -1;
};
}  // namespace tbprof
#endif
