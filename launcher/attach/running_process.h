// SPDX-License-Identifier: Apache-2.0
//
// What /proc has of a process that tbprof did not start: its program, its arguments, its children.
//
//   absl::StatusOr<RunningProcess> process = ReadRunningProcess(4711);
//   for (pid_t child : ChildrenOf(4711)) ...
//
// Process: launcher, any thread. Untrusted: all texts. A process may end between two reads.
#ifndef TBPROF_LAUNCHER_ATTACH_RUNNING_PROCESS_H_
#define TBPROF_LAUNCHER_ATTACH_RUNNING_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tbprof {

struct RunningProcess {
  pid_t pid = 0;          // in the launcher's pid namespace
  int32_t inner_pid = 0;  // in its own pid namespace
  pid_t parent = 0;
  uid_t user = 0;            // effective
  uint64_t start_ticks = 0;  // in the kernel's ticks since boot: a pid and its start are one process
  std::string executable;    // path; empty: not readable, or a thread of the kernel
  std::vector<std::string> arguments;
  std::vector<std::string> rank_variables;  // `RANK=3`: those of wire/ranks.h
};

// An error if there is no such process, or if it has ended and waits for its parent.
absl::StatusOr<RunningProcess> ReadRunningProcess(pid_t pid);
// Whether the process still is the one with this start and this program.
bool IsStill(const RunningProcess& process);
// Children that live, in order of their pids.
std::vector<pid_t> ChildrenOf(pid_t pid);
// The threads, in order of their ids; at most `most`.
std::vector<pid_t> ThreadsOf(pid_t pid, size_t most);
// Whether tbprof's library is in the process: it runs, or ran, under `tbprof run`.
bool HasTbprofLibrary(pid_t pid);
// OK if this process may read the memory of `pid`; else why not, and what to do.
absl::Status CheckMemoryAccess(const RunningProcess& process);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_ATTACH_RUNNING_PROCESS_H_
