// SPDX-License-Identifier: Apache-2.0
//
// The kernel's line of numbers about a process or thread: /proc/PID/stat, /proc/PID/task/TID/stat.
//
//   const std::optional<ProcStat> stat = ReadProcStat(pid);
//   if (stat && stat->state == 'Z') ...
//
// Process: launcher. The readers do not allocate: samplers call them many times a second.
#ifndef TBPROF_LAUNCHER_BASE_PROC_STAT_H_
#define TBPROF_LAUNCHER_BASE_PROC_STAT_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace tbprof {

struct ProcStat {
  char state = '\0';  // `R`, `S`, `D`, `T` (stopped), `t` (stopped by a debugger), `Z`, `X`
  pid_t parent = 0;
  uint64_t minor_faults = 0, major_faults = 0;
  uint64_t start_ticks = 0;  // in the kernel's ticks since boot: a pid and its start are one process
  // Of a zombie its wait status; of a stopped process the signal (Linux 5.17, until its parent has waited for it).
  // 0 also if the kernel does not show it to this user.
  int last_field = 0;
};

// std::nullopt: `text` is no complete line of that file.
std::optional<ProcStat> ParseProcStat(std::string_view text);
// std::nullopt: there is no such process or thread, or it cannot be read.
std::optional<ProcStat> ReadProcStat(pid_t pid);
std::optional<ProcStat> ReadProcStat(pid_t pid, pid_t tid);
// The same for a path such as `/proc/12/stat`.
std::optional<ProcStat> ReadProcStat(const char* path);

// The state of a process; 0: none.
char SchedulerState(pid_t pid);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_BASE_PROC_STAT_H_
