// SPDX-License-Identifier: Apache-2.0
//
// What a thread uses of the CPUs, by the kernel's own counts, as rows of the spool: a row when it is seen first, one
// at most every 50 ms while something changes, one from where nothing has changed until then, and one at the end.
//
//   UsageTrack track;
//   if (track.WantsFaults(reading, now, delay)) track.SetFaults(ReadFaults(pid, tid));
//   track.Take(reading, tid, ticks, now, &rows);      // as often as it is read
//   track.Finish(&rows);                              // what was read last
//
// Process: launcher, the thread of a sampler. Not thread-safe.
#ifndef TBPROF_LAUNCHER_SAMPLING_THREAD_USAGE_H_
#define TBPROF_LAUNCHER_SAMPLING_THREAD_USAGE_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "writer/spool/spool.h"

namespace tbprof {

// Of a file schedstat.
struct ScheduleReading {
  uint64_t run_ns = 0, delay_ns = 0, slices = 0;
  bool operator==(const ScheduleReading&) const = default;
};
// Nothing where the kernel does not count, or the thread has ended.
std::optional<ScheduleReading> ReadSchedule(int fd);
std::string SchedulePath(pid_t pid, int32_t tid);

struct FaultCounts {
  uint64_t major = 0, minor = 0;
  bool operator==(const FaultCounts&) const = default;
};
// Of /proc/PID/task/TID/stat; nothing where it cannot be read.
std::optional<FaultCounts> ReadFaults(pid_t pid, int32_t tid);
// Of the text of such a file.
std::optional<FaultCounts> ParseFaults(std::string_view text);

class UsageTrack {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // The first time, then after `delay` at the earliest, and only if the thread has run: who reads a page waits for it.
  bool WantsFaults(const ScheduleReading& reading, Time now, std::chrono::milliseconds delay);
  void SetFaults(std::optional<FaultCounts> faults);
  void Take(const ScheduleReading& reading, int32_t tid, uint64_t ticks, Time now, std::vector<ThreadUsageRow>* rows);
  // Starts anew behind it.
  void Finish(std::vector<ThreadUsageRow>* rows);

 private:
  ThreadUsageRow emitted_ = {}, latest_ = {};  // ticks 0: none
  uint32_t major_faults_ = 0, minor_faults_ = 0;
  uint64_t slices_at_faults_ = 0;
  Time next_row_{}, next_faults_{};
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_THREAD_USAGE_H_
