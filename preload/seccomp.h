// SPDX-License-Identifier: Apache-2.0
//
// Seccomp that the program sets for itself. A filter may kill it for a system call that it never makes itself; strict
// mode also makes a read of the CPU's counter fault.
//
// Process: target, any thread. Rules: RULES.md.
#ifndef TBPROF_PRELOAD_SECCOMP_H_
#define TBPROF_PRELOAD_SECCOMP_H_

namespace tbprof {

// From then on the hooks make no system calls but getpid, getppid and gettid. Exceptions: recording of a GPU, and the
// first use of a PyTorch that was loaded later.
extern __attribute__((visibility("hidden"))) bool g_has_filter;

// Call this before the program's call that sets a filter or strict mode.
void PrepareForSeccomp(bool strict);

}  // namespace tbprof

#endif  // TBPROF_PRELOAD_SECCOMP_H_
