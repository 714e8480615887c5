// SPDX-License-Identifier: Apache-2.0
//
// Why the kernel denies reading another process's memory, and what to do about it.
//
//   Denial denial = ExplainDenial(LookUpDenial(pid, EPERM));   // denial.cause, denial.remedy
//
// process_vm_readv needs the rights of a debugger: the same user in all three user ids, a process that allows it, and
// no objection by Yama, a system call filter or a security module.
//
// Process: launcher. Any thread.
#ifndef TBPROF_LAUNCHER_SAMPLING_READ_DENIAL_H_
#define TBPROF_LAUNCHER_SAMPLING_READ_DENIAL_H_

#include <sys/types.h>

#include <array>
#include <string>

namespace tbprof {

// Errors of process_vm_readv, and of opening /proc/PID/maps, that no later attempt changes.
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
// What is known now; `pid` may have ended.
DenialFacts LookUpDenial(pid_t pid, int error);

struct Denial {
  std::string cause, remedy;
};
Denial ExplainDenial(const DenialFacts& facts);

// Both in one line, for the status of a process whose stacks are not sampled, or `no_more`.
std::string DenialReason(pid_t pid, int error, bool no_more = false);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_READ_DENIAL_H_
