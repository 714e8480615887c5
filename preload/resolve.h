// SPDX-License-Identifier: Apache-2.0
//
// The dynamic linker's look-up, past our own `dlsym`.
//
// Process: target. Takes the loader's lock. Rules: RULES.md.
#ifndef TBPROF_PRELOAD_RESOLVE_H_
#define TBPROF_PRELOAD_RESOLVE_H_

#include <link.h>

namespace tbprof {

// The one behind ours; null: the C library has none under a known version.
void* (*FindRealDlsym())(void* handle, const char* name);

// As of a caller in this library.
void* RealDlsym(void* handle, const char* name);

// Of a library that few programs have, and none twice: where RTLD_NEXT looks, else in the first of `libraries` that is
// mapped, also if it came late and only for itself. Names one after the other, an empty one last.
void* FindLateSymbol(const char* name, const char* libraries);

// False: it is nowhere. Cheap once it was found.
template <typename Function>
bool FindLate(Function* function, const char* name, const char* libraries) {
  if (__builtin_expect(__atomic_load_n(function, __ATOMIC_ACQUIRE) != nullptr, 1)) return true;
  auto* const found = reinterpret_cast<Function>(FindLateSymbol(name, libraries));
  if (found != nullptr) __atomic_store_n(function, found, __ATOMIC_RELEASE);
  return found != nullptr;
}

// The same of a library that a process may have more than one of, each for itself: which is meant depends on what the
// calling object's reference was bound to: the global scope's where that was there before it, else what it is linked
// with or has in itself. Else what was looked up by name (`looked_up`). `is_everyones`: it is the global scope's, and
// was there before any object that came late.
void* FindForCaller(void* hook, void* const* looked_up, const char* name, const char* libraries, const void* caller,
                    bool* is_everyones = nullptr);

// When an object has come that may lie where another was.
void ForgetCallers();

// What the calling object has of that name in itself or in what it is linked with; null: nothing, or it is the program.
void* FindOwn(const char* name, const void* caller);

// Whether `first` is before `second` in the loader's list, or the same.
bool CameBefore(const link_map* first, const link_map* second);

inline bool SameText(const char* a, const char* b) {
  while (*a != '\0' && *a == *b) ++a, ++b;
  return *a == *b;
}

}  // namespace tbprof

#endif  // TBPROF_PRELOAD_RESOLVE_H_
