// SPDX-License-Identifier: Apache-2.0
//
// Reads how much memory a process has: often while that changes, once a second while it does not.
//
//   ResidentReader reader(pid);
//   if (now >= reader.next()) reader.Take(now, ticks, /*whole=*/false, &rows);
//
// Process: launcher, the sampler's thread. A look at the size takes about 5 us, a reading 25 us.
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

  // Adds a row if the memory has changed since the last one; with `whole` in any case.
  void Take(Time now, uint64_t ticks, bool whole, std::vector<ResidentRow>* rows);
  // When the next look is due.
  Time next() const { return next_; }

 private:
  const std::string statm_, status_;
  Time next_{};
  std::chrono::milliseconds delay_{10};
  uint64_t last_pages_ = 0;  // resident, at the last row
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_RESIDENT_MEMORY_H_
