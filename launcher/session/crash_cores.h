// SPDX-License-Identifier: Apache-2.0
//
// Decides which ended processes of a session may have left a core file, and in which directories. CoreReader finds and
// reads the file.
//
//   CrashCores cores(clock, ticks_per_ns, emit, &notes);
//   cores.ProcessEnded(process, status);
//   cores.Flush(2s);
//
// Process: launcher, main thread. Only Flush waits.
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
  static constexpr size_t kMaxCores = 16;  // per session

  struct Process {
    uint32_t segment = 0, serial = 0;
    int32_t inner_pid = 0;  // in the process's own pid namespace
    uint32_t user = 0;
    uint64_t start_ticks = 0;
    std::string directory;  // working directory; empty: unknown
  };

  // `notes`: receives lines for the terminal; must outlive this object.
  CrashCores(ClockKind clock, double ticks_per_ns, CoreReader::Emit emit, std::vector<std::string>* notes);

  // Whether the kernel writes core files into the working directory of the process.
  bool needs_directories() const { return reader_.pattern().is_relative() && may_dump_; }
  // The working directory of a live process; empty: unknown.
  static std::string DirectoryOf(pid_t pid);

  void ProcessEnded(const Process& process, const std::optional<ExitStatus>& status);
  // Returns when all core files that were found are in the spool. A core file that is not read within `timeout` is
  // skipped.
  void Flush(std::chrono::milliseconds timeout);

 private:
  int64_t StartOf(const Process& process) const;
  bool MayHaveCore(const Process& process, const std::optional<ExitStatus>& status) const;

  const ClockKind clock_;
  const double ticks_per_ns_;
  std::vector<std::string>& notes_;
  CoreReader reader_;
  const std::string own_directory_;
  const bool may_dump_;  // RLIMIT_CORE is not 0 or can be raised
  size_t cores_ = 0;
  bool hangs_ = false;  // a Flush timed out: later ones return at once
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SESSION_CRASH_CORES_H_
