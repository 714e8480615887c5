// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/read_denial.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "launcher/base/proc_files.h"

namespace tbprof {
namespace {

constexpr int kCapSysPtrace = 19;  // linux/capability.h

}  // namespace

bool IsReadDenied(int error) { return error == EPERM || error == EACCES || error == ENOSYS; }

DenialFacts LookUpDenial(pid_t pid, int error) {
  DenialFacts facts;
  facts.error = error;
  const std::string scope = ReadText("/proc/sys/kernel/yama/ptrace_scope");
  if (!scope.empty() && scope[0] >= '0' && scope[0] <= '3') facts.yama_scope = scope[0] - '0';
  facts.own_user = getuid();
  const std::string own = ReadText("/proc/self/status");
  const std::string filter_mode = StatusField(own, "Seccomp");
  facts.filtered = !filter_mode.empty() && filter_mode != "0";
  facts.capable = HasCapability(own, kCapSysPtrace);
  facts.users.fill(facts.own_user);
  const std::string path = "/proc/" + std::to_string(pid) + "/status";
  if (const auto users = StatusIds(ReadText(path), "Uid")) facts.users = *users;
  // If a process allows no debugger, its files in /proc belong to root.
  struct stat owner = {};
  if (stat(path.c_str(), &owner) == 0) facts.dumpable = owner.st_uid == facts.users[1];
  return facts;
}

Denial ExplainDenial(const DenialFacts& facts) {
  const std::string container = "docker run --cap-add=SYS_PTRACE";
  const std::string root = facts.own_user == 0 ? container : "run tbprof as root";
  if (facts.error == ENOSYS) {
    return {"the kernel or a system call filter has no process_vm_readv", container};
  }
  if (facts.yama_scope == 3) {
    return {"Yama forbids it until the next boot (kernel.yama.ptrace_scope=3)", "boot with ptrace_scope 1"};
  }
  if (facts.capable) return {"a system call filter or a security module denies it", container};
  if (facts.yama_scope == 2) {
    return {"Yama allows it to root alone (kernel.yama.ptrace_scope=2)",
            facts.own_user == 0 ? container : "as root: sysctl kernel.yama.ptrace_scope=1"};
  }
  const auto other =
      std::find_if(facts.users.begin(), facts.users.end(), [&](uid_t user) { return user != facts.own_user; });
  if (other != facts.users.end()) {
    return {"it runs as user " + std::to_string(*other) + ", tbprof as " + std::to_string(facts.own_user), root};
  }
  if (!facts.dumpable) return {"it allows no debugger (PR_SET_DUMPABLE, or a change of its user)", root};
  if (facts.filtered) return {"the system call filter of this container denies it", container};
  if (facts.yama_scope == 1) {
    return {"it is no descendant of tbprof (kernel.yama.ptrace_scope=1)", "as root: sysctl kernel.yama.ptrace_scope=0"};
  }
  return {"it or a security module allows no debugger", root};
}

std::string DenialReason(pid_t pid, int error, bool no_more) {
  const Denial denial = ExplainDenial(LookUpDenial(pid, error));
  return std::string("Python stacks: not sampled") + (no_more ? " any more, " : ", ") + denial.cause + "; " +
         denial.remedy;
}

}  // namespace tbprof
