// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/read_denial.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "writer/base/scoped.h"

namespace tbprof {
namespace {

constexpr int kCapSysPtrace = 19;  // linux/capability.h

std::string ReadStart(const std::string& path) {
  char text[4096];
  const ScopedFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const ssize_t got = fd.valid() ? read(fd.get(), text, sizeof(text)) : -1;
  return got <= 0 ? "" : std::string(text, static_cast<size_t>(got));
}

}  // namespace

bool IsReadDenied(int error) { return error == EPERM || error == EACCES || error == ENOSYS; }

DenialFacts LookUpDenial(pid_t pid, int error) {
  DenialFacts facts;
  facts.error = error;
  const std::string scope = ReadStart("/proc/sys/kernel/yama/ptrace_scope");
  if (!scope.empty() && scope[0] >= '0' && scope[0] <= '3') facts.yama_scope = scope[0] - '0';
  facts.own_user = getuid();
  const std::string own = ReadStart("/proc/self/status");
  const size_t mode = own.find("\nSeccomp:\t");
  facts.filtered = mode != std::string::npos && own.compare(mode + 10, 1, "0") != 0;
  if (const size_t capabilities = own.find("\nCapEff:"); capabilities != std::string::npos) {
    facts.capable = (strtoull(own.c_str() + capabilities + 8, nullptr, 16) >> kCapSysPtrace & 1) != 0;
  }
  facts.users.fill(facts.own_user);
  const std::string path = "/proc/" + std::to_string(pid) + "/status";
  const std::string status = ReadStart(path);
  if (const size_t users = status.find("\nUid:"); users != std::string::npos) {
    std::array<unsigned, 3> read{};
    if (sscanf(status.c_str() + users, "\nUid: %u %u %u", &read[0], &read[1], &read[2]) == 3) {
      std::copy(read.begin(), read.end(), facts.users.begin());
    }
  }
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
