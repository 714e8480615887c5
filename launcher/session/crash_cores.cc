// SPDX-License-Identifier: Apache-2.0
#include "launcher/session/crash_cores.h"

#include <sys/resource.h>
#include <unistd.h>
#include <ctime>

#include <csignal>
#include <utility>

#include "launcher/base/proc_files.h"
#include "writer/base/saturating.h"
#include "writer/base/text.h"

namespace tbprof {
namespace {

// Whether the default action of a signal writes a core file (signal(7)).
bool DumpsCore(int signal) {
  switch (signal) {
    case SIGQUIT:
    case SIGILL:
    case SIGTRAP:
    case SIGABRT:
    case SIGBUS:
    case SIGFPE:
    case SIGSEGV:
    case SIGXCPU:
    case SIGXFSZ:
    case SIGSYS:
      return true;
    default:
      return false;
  }
}

// Root can raise every limit, other users only up to the hard limit.
bool MayDump() {
  rlimit limit{};
  return getrlimit(RLIMIT_CORE, &limit) != 0 || limit.rlim_max != 0 || geteuid() == 0;
}

}  // namespace

CrashCores::CrashCores(ClockKind clock, double ticks_per_ns, CoreReader::Emit emit, std::vector<std::string>* notes)
    : clock_(clock),
      ticks_per_ns_(ticks_per_ns),
      notes_(*notes),
      reader_(ReadCorePattern(), std::move(emit)),
      own_directory_(DirectoryOf(getpid())),
      may_dump_(MayDump()) {}

std::string CrashCores::DirectoryOf(pid_t pid) {
  std::string directory = LinkText(StrCat("/proc/", pid, "/cwd"));
  return directory.starts_with('/') ? directory : "";
}

// The start in CLOCK_REALTIME nanoseconds, for comparison with file times.
int64_t CrashCores::StartOf(const Process& process) const {
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  const uint64_t ticks = ReadTicks(clock_);
  const int64_t now_ns = NanosecondsOf(now);
  // The target writes start_ticks and is not trusted: a start in the future counts as now.
  if (process.start_ticks == 0 || process.start_ticks > ticks) return now_ns;
  return now_ns - static_cast<int64_t>(static_cast<double>(ticks - process.start_ticks) / ticks_per_ns_);
}

// For ends where the kernel does not report whether a core was written: only the parent got the exit status, or a
// thread other than the first crashed. Without a status the file is searched only if the core pattern gives one exact
// path, which is cheap to check.
bool CrashCores::MayHaveCore(const Process& process, const std::optional<ExitStatus>& status) const {
  const CorePattern& pattern = reader_.pattern();
  if (!may_dump_ || pattern.kind() != CorePattern::kFile) return false;
  return status.has_value() ? DumpsCore(status->signal) : !HasWildcard(pattern.PathOf(process.inner_pid));
}

void CrashCores::ProcessEnded(const Process& process, const std::optional<ExitStatus>& status) {
  const bool is_certain = status.has_value() && status->core_dumped;
  if (!is_certain && !MayHaveCore(process, status)) return;
  if (is_certain && cores_ == kMaxCores) {
    notes_.push_back(StrCat("core files: those of the first ", kMaxCores, " processes are read, further ones are not"));
  }
  if (cores_ >= kMaxCores) {
    if (is_certain) ++cores_;
    return;
  }
  if (is_certain) ++cores_;
  CoreReader::Job job;
  job.process = {process.segment, process.serial, 0, -1};
  job.search.pid = process.inner_pid;
  job.search.user = process.user;
  job.search.begun_ns = StartOf(process);
  if (!process.directory.empty()) job.search.directories.push_back(process.directory);
  if (!own_directory_.empty() && own_directory_ != process.directory) job.search.directories.push_back(own_directory_);
  job.ticks = ReadTicks(clock_);
  job.signal = status.has_value() ? status->signal : 0;
  job.is_certain = is_certain;
  reader_.Add(std::move(job));
}

void CrashCores::Flush(std::chrono::milliseconds timeout) {
  if (hangs_ || reader_.Flush(timeout)) return;
  hangs_ = true;
  notes_.push_back("core files: not read, the disk was too slow");
}

}  // namespace tbprof
