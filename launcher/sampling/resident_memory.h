// SPDX-License-Identifier: Apache-2.0
//
// Reads how much memory a process has: often while that changes, seldom while it does not.
//
//   ResidentReader reader(pid);
//   if (now >= reader.next()) reader.Take(now, ticks, &rows);
//
// Process: launcher, the sampler's thread. A reading takes about 20 us.
#ifndef TBPROF_LAUNCHER_SAMPLING_RESIDENT_MEMORY_H_
#define TBPROF_LAUNCHER_SAMPLING_RESIDENT_MEMORY_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "writer/spool/usage_rows.h"

namespace tbprof {

// From the text of /proc/PID/status; `ticks` is 0. Empty: it has not all of the counts (a zombie, or Linux < 4.5).
std::optional<ResidentRow> ParseResident(std::string_view status);

class ResidentReader {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit ResidentReader(pid_t pid);

  void Take(Time now, uint64_t ticks, std::vector<ResidentRow>* rows);
  // When the next reading is due.
  Time next() const { return next_; }

 private:
  const std::string path_;
  Time next_{};
  std::chrono::milliseconds delay_{10};
  uint64_t last_bytes_ = 0;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_RESIDENT_MEMORY_H_
