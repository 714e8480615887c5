// SPDX-License-Identifier: Apache-2.0
#include "launcher/base/exit_status.h"

#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <string>

#include "launcher/base/proc_files.h"
#include "launcher/base/proc_stat.h"
#include "writer/base/text.h"

namespace tbprof {
namespace {

// struct pidfd_info of <linux/pidfd.h>; Debian 12 has it without exit_code.
struct PidfdInfo {
  uint64_t mask;
  uint64_t cgroup;
  uint32_t pid, tgid, ppid;
  uint32_t ids[8];
  int32_t exit_code;
};
static_assert(sizeof(PidfdInfo) == 64);
constexpr uint64_t kPidfdInfoExit = 1u << 3;
constexpr unsigned long kPidfdGetInfo = _IOWR(0xFF, 11, PidfdInfo);

ExitStatus FromWaitStatus(int status) {
  if (WIFSIGNALED(status)) return {-1, WTERMSIG(status), WCOREDUMP(status)};
  return {WEXITSTATUS(status), 0, false};
}

bool IsStillThere(int pidfd) { return syscall(SYS_pidfd_send_signal, pidfd, 0, nullptr, 0) == 0; }

// The kernel shows exit code 0 to a user whose ids differ from those of the process.
bool MayReadExitCode(pid_t pid) {
  const std::string status = ReadText(StrCat("/proc/", pid, "/status"));
  const auto same = [&](const char* name, unsigned own) {
    return StatusIds(status, name) == std::array<unsigned, 3>{own, own, own};
  };
  return same("Uid", geteuid()) && same("Gid", getegid());
}

std::optional<ExitStatus> OfZombie(int pidfd, pid_t pid) {
  const std::optional<ProcStat> stat = ReadProcStat(pid);
  if (!stat || stat->state != 'Z') return {};
  if (stat->last_field == 0 && !MayReadExitCode(pid)) return {};
  // If the process is gone, its pid may belong to another process by now.
  if (!IsStillThere(pidfd)) return {};
  return FromWaitStatus(stat->last_field);
}

}  // namespace

std::optional<ExitStatus> ExitStatusOf(int pidfd, pid_t pid) {
  if (pid > 0) {
    if (const std::optional<ExitStatus> status = OfZombie(pidfd, pid)) return status;
  }
  PidfdInfo info{};
  info.mask = kPidfdInfoExit;
  if (ioctl(pidfd, kPidfdGetInfo, &info) != 0 || (info.mask & kPidfdInfoExit) == 0) return {};
  return FromWaitStatus(info.exit_code);
}

}  // namespace tbprof
