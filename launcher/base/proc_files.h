// SPDX-License-Identifier: Apache-2.0
//
// Reads files of /proc and other small files, and takes values out of their text.
//
//   const std::string status = ReadText(StrCat("/proc/", pid, "/status"));
//   const std::string mode = StatusField(status, "Seccomp");   // "2"
//   for (const pid_t tid : TasksOf(pid)) ...
//
// Process: launcher, any thread. Untrusted: all texts. A process may end between two reads.
#ifndef TBPROF_LAUNCHER_BASE_PROC_FILES_H_
#define TBPROF_LAUNCHER_BASE_PROC_FILES_H_

#include <sys/types.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tbprof {

// The content of a regular file, at most 64 MiB; empty if it cannot be read. The path may be in a cloned repository:
// does not wait for a FIFO and does not read a device. Changes errno only if a system call fails.
std::string ReadText(const std::string& path);
// Like ReadText, of a file that the kernel makes, at most 16 MiB. `error`: errno of opening it, or 0.
std::string ReadProcFile(const std::string& path, int* error);

// The text of a symbolic link; empty if it cannot be read as a whole. For links of /proc the kernel answers without the
// file system, so that a dead mount cannot block the caller.
std::string LinkText(const std::string& path);

// The names in a directory that are positive numbers, in the kernel's order; empty: it cannot be read.
std::vector<int> NumbersIn(const std::string& directory);
// The processes that /proc shows.
std::vector<pid_t> Pids();
// The threads of a process, its main thread first; empty: it has ended, or /proc cannot be read.
std::vector<pid_t> TasksOf(pid_t pid);

// The functions below take the text of /proc/PID/status or of a file with such lines (`NAME:<tab>VALUE`).

// Without the blanks around it; empty: there is no such line.
std::string StatusField(std::string_view text, std::string_view name);
// `name`: `Uid` or `Gid`. The real, the effective and the saved id.
std::optional<std::array<unsigned, 3>> StatusIds(std::string_view text, std::string_view name);
// A bit of a hexadecimal field such as `SigCgt`, 0 being the lowest; std::nullopt: there is no such line.
std::optional<bool> StatusBit(std::string_view text, std::string_view name, int bit);
// Whether the process has this capability (linux/capability.h) now.
bool HasCapability(std::string_view text, int capability);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_BASE_PROC_FILES_H_
