// SPDX-License-Identifier: Apache-2.0
//
// RLIMIT_AS without tbprof's share. A limit means the program's own memory; the kernel also counts the segment and this
// library. So the kernel gets a limit that is larger by both, and the program reads the one that it set or inherited.
//
// Process: target, any thread, any signal handler, fork and vfork children. Rules: RULES.md.
#ifndef TBPROF_PRELOAD_ADDRESS_LIMIT_H_
#define TBPROF_PRELOAD_ADDRESS_LIMIT_H_

#include "preload/state.h"

namespace tbprof {

// Whether the kernel has a larger limit than the program set.
extern __attribute__((visibility("hidden"))) bool g_raises_address_limit;
bool PassOnRaisedLimit(const char* file);
// Raises the limit that the process began with. Call this once, when the segment is mapped.
void RaiseInheritedAddressLimit();

// Call this before an exec: the next program inherits the limit that this one set. True: call KeepAddressLimit if the
// exec returns. `file`: the file that is executed, which does nothing if it is not there; null: it is not known.
inline bool PassOnAddressLimit(const char* file) {
  return __builtin_expect(__atomic_load_n(&g_raises_address_limit, __ATOMIC_ACQUIRE), 0) && PassOnRaisedLimit(file);
}
void KeepAddressLimit();

}  // namespace tbprof

#endif  // TBPROF_PRELOAD_ADDRESS_LIMIT_H_
