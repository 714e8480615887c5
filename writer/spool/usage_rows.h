// SPDX-License-Identifier: Apache-2.0
//
// Payloads of the spool's frames kThreadUsage and kCpuLimits.
//
// Process: launcher writes, converter reads. Untrusted there.
#ifndef TBPROF_WRITER_SPOOL_USAGE_ROWS_H_
#define TBPROF_WRITER_SPOOL_USAGE_ROWS_H_

#include <cstdint>

namespace tbprof {

struct ThreadUsageFact {
  uint32_t process_serial;
  uint32_t count;
};
static_assert(sizeof(ThreadUsageFact) == 8);
// What a thread has used since it began.
struct ThreadUsageRow {
  uint64_t ticks;
  uint64_t cpu_ns;
  uint64_t run_delay_ns;  // it could have run and had no CPU
  int32_t tid;            // as ThreadFact::tid
  uint32_t major_faults;  // pages read from a disk, as of at most a second before
  uint32_t minor_faults;  // other pages that were mapped at a first touch, likewise
  uint32_t reserved;
};
static_assert(sizeof(ThreadUsageRow) == 40);
struct CpuLimitsFact {
  uint64_t ticks;
  uint32_t process_serial;
  int32_t cpus_allowed;        // by its affinity; 0: not known
  int64_t quota_us;            // of its cgroup or one above, in each period; -1: none; -2: not known
  int64_t period_us;           // 0 without a quota
  int64_t throttled_us;        // of that cgroup since it was made; -1: not known
  uint64_t throttled_periods;  // likewise
};
static_assert(sizeof(CpuLimitsFact) == 48);

}  // namespace tbprof

#endif  // TBPROF_WRITER_SPOOL_USAGE_ROWS_H_
