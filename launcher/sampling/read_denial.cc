// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/read_denial.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "launcher/base/scoped.h"

namespace tbprof {
namespace {

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
  facts.root = geteuid() == 0;
  const std::string own = ReadStart("/proc/self/status");
  const size_t mode = own.find("\nSeccomp:\t");
  facts.filtered = mode != std::string::npos && own.compare(mode + 10, 1, "0") != 0;
  facts.users.fill(facts.own_user);
  const std::string path = "/proc/" + std::to_string(pid) + "/status";
  const std::string status = ReadStart(path);
  if (const size_t users = status.find("\nUid:"); users != std::string::npos) {
    std::array<unsigned, 3> read{};
    if (sscanf(status.c_str() + users, "\nUid: %u %u %u", &read[0], &read[1], &read[2]) == 3) {
      std::copy(read.begin(), read.end(), facts.users.begin());
    }
  }
  // The kernel gives the files of a process that allows no debugger to root.
  struct stat owner = {};
  if (stat(path.c_str(), &owner) == 0) facts.dumpable = owner.st_uid == facts.users[1];
  return facts;
}

Denial ExplainDenial(const DenialFacts& facts) {
  if (facts.error == ENOSYS) {
    return {"the kernel or a system call filter has no process_vm_readv",
            "let the filter pass process_vm_readv (docker run --cap-add=SYS_PTRACE)"};
  }
  if (facts.yama_scope == 3) {
    return {"Yama forbids it until the next boot (kernel.yama.ptrace_scope=3)", "boot with another ptrace_scope"};
  }
  if (facts.yama_scope == 2 && !facts.root) {
    return {"Yama allows it to root alone (kernel.yama.ptrace_scope=2)", "as root: sysctl kernel.yama.ptrace_scope=1"};
  }
  const auto other =
      std::find_if(facts.users.begin(), facts.users.end(), [&](uid_t user) { return user != facts.own_user; });
  if (other != facts.users.end() && !facts.root) {
    return {"it runs as user " + std::to_string(*other) + ", tbprof as " + std::to_string(facts.own_user),
            "run tbprof as root or as that user"};
  }
  if (!facts.dumpable && !facts.root) {
    return {"it allows no debugger (PR_SET_DUMPABLE, or a change of its user)", "run tbprof as root"};
  }
  if (facts.filtered || facts.root) {
    return {"this container or a security module denies it", "docker run --cap-add=SYS_PTRACE"};
  }
  if (facts.yama_scope == 1) {
    return {"it is no descendant of tbprof (kernel.yama.ptrace_scope=1)", "as root: sysctl kernel.yama.ptrace_scope=0"};
  }
  return {"a security module denies it", "run tbprof as root"};
}

std::string DenialReason(pid_t pid, int error) {
  const Denial denial = ExplainDenial(LookUpDenial(pid, error));
  return "Python stacks: not sampled, " + denial.cause + "; " + denial.remedy;
}

}  // namespace tbprof
