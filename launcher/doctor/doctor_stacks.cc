// SPDX-License-Identifier: Apache-2.0
//
// Checks whether stacks can be read from outside: forks a child and reads a value that the child has written into its
// memory.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "launcher/base/text.h"
#include "launcher/doctor/doctor_rows.h"
#include "launcher/sampling/read_denial.h"
#include "launcher/sampling/target_memory.h"
#include "writer/base/scoped.h"

namespace tbprof {
namespace {

volatile uint64_t written = 0;  // the child writes its own copy

// The child: reports on `there` that it runs, and waits until the parent closes `go`.
[[noreturn]] void RunChild(int there, int go) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  written = 42;
  char byte = 0;
  if (write(there, &byte, 1) == 1) {
    while (read(go, &byte, 1) < 0 && errno == EINTR) continue;
  }
  _exit(0);
}

}  // namespace

std::optional<Finding> CheckStacks(const DoctorContext& context) {
  const DoctorVerdict verdict = context.options.sample_rate > 0 ? DoctorVerdict::kWarn : DoctorVerdict::kNote;
  int there[2], go[2];
  if (pipe(there) != 0) return Finding{verdict, StrCat("not checked: pipe: ", strerror(errno)), ""};
  ScopedFd there_read(there[0]), there_write(there[1]);
  if (pipe(go) != 0) return Finding{verdict, StrCat("not checked: pipe: ", strerror(errno)), ""};
  ScopedFd go_read(go[0]), go_write(go[1]);
  const pid_t child = fork();
  if (child < 0) return Finding{verdict, StrCat("not checked: fork: ", strerror(errno)), ""};
  if (child == 0) {
    go_write.Reset();
    RunChild(there_write.get(), go_read.get());
  }
  there_write.Reset();
  char byte;
  while (read(there_read.get(), &byte, 1) < 0 && errno == EINTR) continue;
  uint64_t value = 0;
  const iovec range = MemoryRange(reinterpret_cast<uint64_t>(&written), sizeof(value));
  const int64_t got = ProcessMemory(child)(&value, {&range, 1});
  const Denial denial = got < 0 ? ExplainDenial(LookUpDenial(child, static_cast<int>(-got))) : Denial{};
  go_write.Reset();
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) continue;
  if (got == sizeof(value) && value == 42) return Finding{DoctorVerdict::kPass, "memory of a child can be read", ""};
  if (got >= 0) return Finding{verdict, "memory of a child reads as something else: no Python stacks", ""};
  return Finding{verdict, StrCat("no Python stacks (--sample-rate): ", denial.cause), denial.remedy};
}

}  // namespace tbprof
