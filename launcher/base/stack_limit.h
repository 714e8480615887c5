// SPDX-License-Identifier: Apache-2.0
//
// A small stack (`ulimit -s 64`) is the command's affair: tbprof itself needs more, and takes it where it may.
//
//   RaiseStackLimit();        // first of all, in main()
//   RestoreStackLimit();      // in the child, before exec
//
// Process: launcher and its workers. RestoreStackLimit is async-signal-safe.
#ifndef TBPROF_LAUNCHER_BASE_STACK_LIMIT_H_
#define TBPROF_LAUNCHER_BASE_STACK_LIMIT_H_

#include "absl/status/status.h"

namespace tbprof {

void RaiseStackLimit();
void RestoreStackLimit();
// Not OK: the hard limit is too small for tbprof.
absl::Status CheckStackLimit();

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_BASE_STACK_LIMIT_H_
