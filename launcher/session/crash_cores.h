// SPDX-License-Identifier: Apache-2.0
//
// Which ended processes of a session have left a core file, and where it may be; reading it is CoreReader's.
//
//   CrashCores cores(clock, ticks_per_ns, emit, &notes);
//   cores.ProcessEnded(process, status);
//   cores.Flush(2s);
//
// Process: launcher, main thread. Waits in Flush alone.
#ifndef TBPROF_LAUNCHER_SESSION_CRASH_CORES_H_
#define TBPROF_LAUNCHER_SESSION_CRASH_CORES_H_

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/base/exit_status.h"
#include "launcher/sampling/core_reader.h"
#include "wire/clock.h"

namespace tbprof {

class CrashCores {
 public:
  static constexpr size_t kMaxCores = 16;  // of a session

  struct Process {
    uint32_t segment = 0, serial = 0;
    int32_t inner_pid = 0;  // as it saw itself
    uint32_t user = 0;
    uint64_t start_ticks = 0;
    std::string directory;  // empty: not known
  };

  // `notes`: lines for the terminal; must outlive this.
  CrashCores(ClockKind clock, double ticks_per_ns, CoreReader::Emit emit, std::vector<std::string>* notes);

  // Whether core files lie in the working directories of processes.
  bool needs_directories() const { return reader_.pattern().is_relative() && may_dump_; }
  // Of a process that lives; empty: not known.
  static std::string DirectoryOf(pid_t pid);

  void ProcessEnded(const Process& process, const std::optional<ExitStatus>& status);
  // All that were found are in the spool. What is not there in time is not read.
  void Flush(std::chrono::milliseconds timeout);

 private:
  int64_t StartOf(const Process& process) const;
  bool MayHaveCore(const Process& process, const std::optional<ExitStatus>& status) const;

  const ClockKind clock_;
  const double ticks_per_ns_;
  std::vector<std::string>& notes_;
  CoreReader reader_;
  const std::string own_directory_;
  const bool may_dump_;  // the limit of core files can be more than 0
  size_t cores_ = 0;
  bool hangs_ = false;  // a disk
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SESSION_CRASH_CORES_H_
