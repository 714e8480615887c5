// SPDX-License-Identifier: Apache-2.0
//
// Replaces functions of glibc newer than 2.28 that the launcher, or the archives linked into it, call. Only the
// launcher of the packages is linked with them (scripts/link_portable.sh); the launcher of the build tree uses glibc's.
// docs/decisions/039-packages-for-old-glibc.md
#ifndef TBPROF_LAUNCHER_GLIBC_NEWER_SYMBOLS_H_
#define TBPROF_LAUNCHER_GLIBC_NEWER_SYMBOLS_H_

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <time.h>

// The unit test compiles the replacements beside glibc's functions.
#ifdef TBPROF_NEWER_SYMBOLS_TEST
#define TBPROF_NEWER(name) tbprof_newer_##name
#else
#define TBPROF_NEWER(name) name
#endif

extern "C" {
uint32_t TBPROF_NEWER(arc4random)() noexcept;                                       // 2.36
int TBPROF_NEWER(_dl_find_object)(void* address, dl_find_object* result) noexcept;  // 2.35
const char* TBPROF_NEWER(strerrorname_np)(int error) noexcept;                      // 2.32
const char* TBPROF_NEWER(strerrordesc_np)(int error) noexcept;                      // 2.32
const char* TBPROF_NEWER(sigabbrev_np)(int signal) noexcept;                        // 2.32
int TBPROF_NEWER(pthread_cond_clockwait)(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                                         const timespec* until);  // 2.30
}

#endif  // TBPROF_LAUNCHER_GLIBC_NEWER_SYMBOLS_H_
