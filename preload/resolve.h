// SPDX-License-Identifier: Apache-2.0
//
// The dynamic linker's look-up, past our own `dlsym`.
//
// Process: target. Takes the loader's lock. Rules: RULES.md.
#ifndef TBPROF_PRELOAD_RESOLVE_H_
#define TBPROF_PRELOAD_RESOLVE_H_

namespace tbprof {

// The one behind ours; null: the C library has none under a known version.
void* (*FindRealDlsym())(void* handle, const char* name);

// As of a caller in this library.
void* RealDlsym(void* handle, const char* name);

}  // namespace tbprof

#endif  // TBPROF_PRELOAD_RESOLVE_H_
