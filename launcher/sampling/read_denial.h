// SPDX-License-Identifier: Apache-2.0
//
// Explains why the kernel denies reading another process's memory, and gives a remedy.
//
//   Denial denial = ExplainDenial(LookUpDenial(pid, EPERM));   // denial.cause, denial.remedy
//
// process_vm_readv needs the rights of a debugger: the same user in all three user ids, a process that allows it, and
// no denial by Yama, a system call filter or a security module.
//
// Process: launcher. Any thread.
#ifndef TBPROF_LAUNCHER_SAMPLING_READ_DENIAL_H_
#define TBPROF_LAUNCHER_SAMPLING_READ_DENIAL_H_

#include <sys/types.h>

#include <array>
#include <string>

namespace tbprof {

// Whether a later attempt would fail, too; `error`: of process_vm_readv, or of opening /proc/PID/maps.
bool IsReadDenied(int error);

struct DenialFacts {
  int error = 0;
  int yama_scope = -1;    // kernel.yama.ptrace_scope; -1: no Yama
  bool capable = false;   // tbprof has CAP_SYS_PTRACE
  bool filtered = false;  // tbprof has a system call filter
  uid_t own_user = 0;
  std::array<uid_t, 3> users = {};  // of the process: real, effective, saved
  bool dumpable = true;
};
// Collects the facts; `pid` may have ended.
DenialFacts LookUpDenial(pid_t pid, int error);

struct Denial {
  std::string cause, remedy;
};
Denial ExplainDenial(const DenialFacts& facts);

// Cause and remedy in one line, for the status of a process whose stacks are not sampled (`no_more`: not any more).
std::string DenialReason(pid_t pid, int error, bool no_more = false);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_READ_DENIAL_H_
