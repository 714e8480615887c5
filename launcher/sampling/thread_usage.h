// SPDX-License-Identifier: Apache-2.0
//
// The CPU usage of a thread by the kernel's counters, as rows of the spool: one row at the first reading, at most one
// every 50 ms while a value changes, one for the end of a time without changes, and one at the end.
//
//   UsageTrack track;
//   if (track.WantsFaults(reading, now, delay)) track.SetFaults(ReadFaults(pid, tid));
//   track.Take(reading, tid, ticks, now, &rows);      // after each reading
//   track.Finish(&rows);                              // emits the last reading
//
// Process: launcher, the thread of a sampler. Not thread-safe.
#ifndef TBPROF_LAUNCHER_SAMPLING_THREAD_USAGE_H_
#define TBPROF_LAUNCHER_SAMPLING_THREAD_USAGE_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "writer/spool/spool.h"

namespace tbprof {

// The numbers of a file schedstat.
struct ScheduleReading {
  uint64_t run_ns = 0, delay_ns = 0, slices = 0;
  bool operator==(const ScheduleReading&) const = default;
};
// std::nullopt: the kernel does not count, or the thread has ended.
std::optional<ScheduleReading> ReadSchedule(int fd);
std::string SchedulePath(pid_t pid, int32_t tid);
// The same for a thread for which no descriptor is kept open.
std::optional<ScheduleReading> ReadScheduleOnce(pid_t pid, int32_t tid);

struct FaultCounts {
  uint64_t major = 0, minor = 0;
  bool operator==(const FaultCounts&) const = default;
};
// Reads /proc/PID/task/TID/stat; std::nullopt: it cannot be read.
std::optional<FaultCounts> ReadFaults(pid_t pid, int32_t tid);

// Intervals between two readings of a thread's page faults; one reading takes 8 us.
inline constexpr std::chrono::milliseconds kFaultsOfMain(500), kFaultsOfOthers(1000);

class UsageTrack {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // True at the first call, then after `delay` at the earliest, and only if `slices` has changed: a thread that reads
  // a page in waits for it, and then gets a new slice.
  bool WantsFaults(const ScheduleReading& reading, Time now, std::chrono::milliseconds delay);
  void SetFaults(std::optional<FaultCounts> faults);
  void Take(const ScheduleReading& reading, int32_t tid, uint64_t ticks, Time now, std::vector<ThreadUsageRow>* rows);
  // Emits the last reading, and resets the track.
  void Finish(std::vector<ThreadUsageRow>* rows);

 private:
  ThreadUsageRow emitted_ = {}, latest_ = {};  // ticks == 0: none
  uint32_t major_faults_ = 0, minor_faults_ = 0;
  uint64_t slices_at_faults_ = 0;
  Time next_row_{}, next_faults_{};
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_THREAD_USAGE_H_
