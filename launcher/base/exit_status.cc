// SPDX-License-Identifier: Apache-2.0
#include "launcher/base/exit_status.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "launcher/base/text.h"
#include "writer/base/scoped.h"

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

std::string ReadProcFile(pid_t pid, const char* name) {
  const ScopedFd file(open(StrCat("/proc/", pid, "/", name).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return "";
  char text[4096];
  const ssize_t got = read(file.get(), text, sizeof(text));
  return got > 0 ? std::string(text, static_cast<size_t>(got)) : "";
}

bool IsStillThere(int pidfd) { return syscall(SYS_pidfd_send_signal, pidfd, 0, nullptr, 0) == 0; }

// The kernel shows exit code 0 to a user whose ids differ from those of the process.
bool MayReadExitCode(pid_t pid) {
  const std::string status = ReadProcFile(pid, "status");
  const auto same = [&](const char* key, unsigned own) {
    const size_t at = status.find(key);
    unsigned real, effective, saved;
    return at != std::string::npos &&
           sscanf(status.c_str() + at + strlen(key), "%u %u %u", &real, &effective, &saved) == 3 && real == own &&
           effective == own && saved == own;
  };
  return same("\nUid:", geteuid()) && same("\nGid:", getegid());
}

std::optional<ExitStatus> OfZombie(int pidfd, pid_t pid) {
  const std::string stat = ReadProcFile(pid, "stat");
  const size_t name_end = stat.rfind(')');
  char state = 0;
  if (name_end == std::string::npos || sscanf(stat.c_str() + name_end, ") %c", &state) != 1 || state != 'Z') return {};
  const size_t last_blank = stat.rfind(' ');
  int status = 0;
  if (sscanf(stat.c_str() + last_blank, " %d", &status) != 1) return {};
  if (status == 0 && !MayReadExitCode(pid)) return {};
  // If the process is gone, its pid may belong to another process by now.
  if (!IsStillThere(pidfd)) return {};
  return FromWaitStatus(status);
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
