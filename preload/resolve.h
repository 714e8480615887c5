// SPDX-License-Identifier: Apache-2.0
//
// Look-ups by the dynamic linker, bypassing this library's own `dlsym`.
//
// Process: target. Takes the loader's lock. Rules: RULES.md.
#ifndef TBPROF_PRELOAD_RESOLVE_H_
#define TBPROF_PRELOAD_RESOLVE_H_

#include <link.h>

namespace tbprof {

// Finds libc's dlsym; null: the C library has none under a known version.
void* (*FindRealDlsym())(void* handle, const char* name);

// Calls libc's dlsym; the caller is this library.
void* RealDlsym(void* handle, const char* name);

// Finds a symbol of a library that few programs have, and none twice: in the scope of RTLD_NEXT, else in the first of
// `libraries` that has it, even if that one was loaded late and with RTLD_LOCAL. `libraries`: NUL-terminated names one
// after the other, an empty one last.
void* FindLateSymbol(const char* name, const char* libraries);

// False: not found. Cheap after the symbol was found.
template <typename Function>
bool FindLate(Function* function, const char* name, const char* libraries) {
  if (__builtin_expect(__atomic_load_n(function, __ATOMIC_ACQUIRE) != nullptr, 1)) return true;
  auto* const found = reinterpret_cast<Function>(FindLateSymbol(name, libraries));
  if (found != nullptr) __atomic_store_n(function, found, __ATOMIC_RELEASE);
  return found != nullptr;
}

// Like FindLateSymbol, for a library of which a process may have several copies. Returns the target of the calling
// object's reference: the symbol of the global scope if it was there before the object; else the symbol in the object
// or its dependencies; else the function that was looked up by name (`looked_up`). `is_everyones`: the target is in the
// global scope and was there before any object that was loaded late.
void* FindForCaller(void* hook, void* const* looked_up, const char* name, const char* libraries, const void* caller,
                    bool* is_everyones = nullptr);

// Empties the cache. Called when an object was loaded, which may lie where an unloaded one was.
void ForgetCallers();

// The address of `name` in the calling object or its dependencies; null: none, or the caller is the program itself.
void* FindOwn(const char* name, const void* caller);

// Whether `first` is before `second` in the loader's list, or the same.
bool CameBefore(const link_map* first, const link_map* second);

inline bool SameText(const char* a, const char* b) {
  while (*a != '\0' && *a == *b) ++a, ++b;
  return *a == *b;
}

}  // namespace tbprof

#endif  // TBPROF_PRELOAD_RESOLVE_H_
