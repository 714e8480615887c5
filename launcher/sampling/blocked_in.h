// SPDX-License-Identifier: Apache-2.0
//
// What a thread that does not run is blocked in, by the kernel's own word: the system call it is in, and of a call with
// a descriptor what that is. Rows of the spool for samples that follow one another in the same state.
//
//   BlockedTrack track;
//   track.Take(ReadBlocked(pid, fd_of_syscall_file), tid, ticks, &rows);   // at each sample
//   track.Finish(&rows);
//
// Process: launcher, the thread of a sampler. Not thread-safe. Nothing is written to the target.
#ifndef TBPROF_LAUNCHER_SAMPLING_BLOCKED_IN_H_
#define TBPROF_LAUNCHER_SAMPLING_BLOCKED_IN_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "writer/spool/usage_rows.h"

namespace tbprof {

struct Blocked {
  BlockedIn kind = BlockedIn::kOther;
  int32_t fd = -1;
  bool operator==(const Blocked&) const = default;
};

// Of /proc/PID/task/TID/syscall.
std::string SyscallPath(pid_t pid, int32_t tid);
// `syscall_fd`: such a file. Nothing where the thread runs, has ended, or may not be read.
std::optional<Blocked> ReadBlocked(pid_t pid, int syscall_fd);

// Of the text of such a file; a call's descriptor is not looked up: its kind is kOther.
std::optional<Blocked> ParseSyscall(std::string_view text);
// By what /proc/PID/fd/N points to.
BlockedIn KindOfDescriptor(std::string_view link);

class BlockedTrack {
 public:
  void Take(const std::optional<Blocked>& blocked, int32_t tid, uint64_t ticks, std::vector<ThreadBlockedRow>* rows);
  void Finish(std::vector<ThreadBlockedRow>* rows);

 private:
  ThreadBlockedRow row_ = {};  // samples 0: none
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_BLOCKED_IN_H_
