// SPDX-License-Identifier: Apache-2.0
//
// Records in which system call a thread is blocked, as the kernel reports it; for a call with a file descriptor also
// the kind of the open file. Consecutive samples in the same state become one row of the spool.
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
  uint16_t call = 0;   // number of the system call + 1; 0: none
  uint64_t futex = 0;  // address; 0: none
  // Of the thread, as the kernel reports them; 0: not known.
  uint64_t stack_pointer = 0, program_counter = 0;
  uint64_t site = 0;      // return address of the call in the code that made it; 0: not known
  uint64_t function = 0;  // an address in the C library's function that was called; 0: not known
  int32_t holder = 0;     // thread that holds the mutex, by its id in its own pid namespace; 0: not known
  bool operator==(const Blocked&) const = default;
};

// The path /proc/PID/task/TID/syscall.
std::string SyscallPath(pid_t pid, int32_t tid);
// `syscall_fd`: a descriptor of that file. std::nullopt: the thread runs, has ended, or may not be read.
std::optional<Blocked> ReadBlocked(pid_t pid, int syscall_fd);

// Whether the thread is stopped by a signal or a debugger. ReadBlocked asks this only outside of calls: one that is
// stopped in a call seems to be in it for long.
bool IsStopped(int syscall_fd);
// A thread that is blocked is asked for its state once in so many samples.
inline constexpr uint32_t kSamplesPerState = 16;

// Parses the text of that file. Does not look up the descriptor of a call: the kind is then kOther.
std::optional<Blocked> ParseSyscall(std::string_view text);
// `link`: the target of the symbolic link /proc/PID/fd/N.
BlockedIn KindOfDescriptor(std::string_view link);

class BlockedTrack {
 public:
  // `is_new`: the thread ran since the last sample, so that the call is another one.
  void Take(const std::optional<Blocked>& blocked, int32_t tid, uint64_t ticks, std::vector<BlockedCallRow>* rows,
            bool is_new = false);
  void Finish(std::vector<BlockedCallRow>* rows);
  // Like Finish; the next row goes on with the same call.
  void Cut(std::vector<BlockedCallRow>* rows);

 private:
  BlockedCallRow row_ = {};  // samples == 0: no open row
  bool cut_ = false;         // the last row was cut
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_BLOCKED_IN_H_
