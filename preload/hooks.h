// SPDX-License-Identifier: Apache-2.0
//
// Expands the hook table: operation numbers, pointers to the real functions, declarations of the wrappers.
//
//   g_real.read(fd, data, size)      the function that the program would call without tbprof
//   kOp_read                         its operation number in the segment
//   Hook_read                        the wrapper, exported as `read` by its assembler label
//
// The label keeps the wrappers apart from libc's declarations, whose exception specifications and attributes differ.
//
// Process: target. Rules: RULES.md.
#ifndef TBPROF_PRELOAD_HOOKS_H_
#define TBPROF_PRELOAD_HOOKS_H_

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include "wire/layout.h"

#define TBPROF_EXPORT extern "C" __attribute__((visibility("default")))

// Use this in the file that defines `tbprof_name`: exports it as `name` with a hidden version. glibc binds references
// without a version to a hidden version of the first node, but look-ups by name never find it (check_match in glibc's
// dl-lookup.c). See late_names.h.
#define TBPROF_EXPORT_AS(name, alias, version)  \
  __asm__(".globl " alias #name                 \
          "\n"                                  \
          ".type " alias #name                  \
          ", STT_FUNC\n"                        \
          ".set " alias #name ", tbprof_" #name \
          "\n"                                  \
          ".symver " alias #name ", " #name "@" version ", remove");
#define TBPROF_EXPORT_HIDDEN(name) TBPROF_EXPORT_AS(name, "tbprof_export_", "GLIBC_2.2.5")
#define TBPROF_HIDDEN extern "C" __attribute__((visibility("hidden")))

namespace tbprof {

enum OperationNumber : uint16_t {
#define TBPROF_TIMED(family, name, ...) kOp_##name,
#define TBPROF_CUSTOM(family, name, ...) kOp_##name,
#define TBPROF_UNRECORDED(...)
#include "preload/hooks.def"
  kOperationCount,
};
static_assert(kOperationCount <= kMaxOperations);

// The CountedKind of each operation's calls. Only for operations that are known at compile time, and for rare calls: a
// fork child would have to fetch the table's page.
inline constexpr uint8_t kCountedAs[] = {
#define TBPROF_TIMED(family, name, ...) CountedKindOf(kFamily##family),
#define TBPROF_CUSTOM(family, name, ...) CountedKindOf(kFamily##family),
#define TBPROF_UNRECORDED(...)
#include "preload/hooks.def"
};

// The newer versions of functions that libc has twice. Programs that were linked earlier still bind to the older code:
// there a condition variable is a pointer to one, and posix_spawn passes a file that is not a program to the shell.
#define TBPROF_VERSION_pthread_cond_wait "GLIBC_2.3.2"
#define TBPROF_VERSION_pthread_cond_timedwait "GLIBC_2.3.2"
#define TBPROF_VERSION_posix_spawn "GLIBC_2.15"
#define TBPROF_VERSION_posix_spawnp "GLIBC_2.15"
#define TBPROF_VERSION_OLD "GLIBC_2.2.5"

struct RealFunctions {
#define TBPROF_TIMED(family, name, object, result, type, parameters, arguments, expression) type(*name) parameters;
#define TBPROF_CUSTOM(family, name, object, result, type, parameters, arguments) type(*name) parameters;
#if defined(__x86_64__)
#define TBPROF_VERSIONED(family, name, object, result, type, parameters, arguments) \
  type(*name) parameters;                                                           \
  type(*name##_old) parameters;
#endif
#include "preload/hooks.def"
  size_t (*malloc_usable_size)(void*);
};

// The allocator's pointers are never null: until the real functions are known, they point to stubs that use the
// bootstrap arena (bootstrap.h).
extern __attribute__((visibility("hidden"))) RealFunctions g_real;

// Finds all real functions at once. A later look-up of each function would take the loader's lock inside a hook.
void ResolveRealFunctions();

enum class AllocatorWay : uint32_t {
  kCareful,     // sizes are queried
  kQuick,       // g_blocks_to_compare is 0
  kExact,       // --malloc=exact, sizes are queried
  kExactQuick,  // the same, and g_blocks_to_compare is 0
};
extern __attribute__((visibility("hidden"))) AllocatorWay g_allocator_way;
// 0: the size of a block is read from the word in front of it. kAlwaysAsk: malloc_usable_size returns it. Else the
// number of glibc's blocks that are still to be compared.
extern __attribute__((visibility("hidden"))) uint32_t g_blocks_to_compare;
inline constexpr uint32_t kAlwaysAsk = UINT32_MAX;
// Called once, in the constructor: starts the comparison of block sizes if the allocator is glibc's.
void CompareBlockSizes();

// Whether the real allocator returns the size of a block. If not, all sizes count as 0.
bool KnowsBlockSizes();

// For all hooks except the allocator's, which have stubs: one load and a branch that is never taken after the
// constructor.
#define TBPROF_RESOLVED(name)                                                                    \
  do {                                                                                           \
    if (__builtin_expect(::tbprof::g_real.name == nullptr, 0)) ::tbprof::ResolveRealFunctions(); \
  } while (0)

#define TBPROF_TIMED(family, name, object, result, type, parameters, arguments, expression) \
  TBPROF_EXPORT type Hook_##name parameters __asm__(#name);
#define TBPROF_CUSTOM(family, name, object, result, type, parameters, arguments) \
  TBPROF_EXPORT type Hook_##name parameters __asm__(#name);
#define TBPROF_PUBLIC(family, name, object, result, type, parameters, arguments) \
  TBPROF_EXPORT type Hook_##name parameters __asm__(#name);
#define TBPROF_LATE(family, name, object, result, type, parameters, arguments) \
  TBPROF_HIDDEN type Hook_##name parameters __asm__("tbprof_" #name);
#if defined(__x86_64__)
#define TBPROF_VERSIONED(family, name, object, result, type, parameters, arguments) \
  TBPROF_EXPORT type Hook_##name parameters __asm__("tbprof_" #name);
#endif
#include "preload/hooks.def"

}  // namespace tbprof

#endif  // TBPROF_PRELOAD_HOOKS_H_
