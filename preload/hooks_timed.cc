// SPDX-License-Identifier: Apache-2.0
// The generated wrappers: every TIMED row of hooks.def. Rules: RULES.md.
#include "preload/hooks.h"
#include "preload/record.h"

namespace tbprof {
namespace {

inline uint64_t ObjectOf(const volatile void* pointer) { return reinterpret_cast<uint64_t>(pointer); }
inline uint64_t ObjectOf(pthread_t thread) { return thread; }
inline uint64_t ObjectOf(int value) { return static_cast<uint64_t>(static_cast<int64_t>(value)); }
inline uint64_t ObjectOf(id_t id) { return id; }

inline int ErrorOf(ResultRole role, int64_t result) {
  if (role == ResultRole::kStatus) return static_cast<int>(result);
  if (role == ResultRole::kNone) return 0;
  return result < 0 ? errno : 0;
}

}  // namespace

#define TBPROF_TIMED(family, name, object_role, result_role, type, parameters, arguments, expression)              \
  type Hook_##name parameters {                                                                                    \
    if (__builtin_expect(g_real.name == nullptr, 0)) {                                                             \
      ResolveRealFunctions();                                                                                      \
      if (g_real.name == nullptr) {                                                                                \
        errno = ENOSYS;                                                                                            \
        return static_cast<type>(-1);                                                                              \
      }                                                                                                            \
    }                                                                                                              \
    if (!Armed(kFamily##family)) return g_real.name arguments;                                                     \
    WaitScope wait;                                                                                                \
    BeginTimed(&wait, kOp_##name, ObjectOf(expression), __builtin_return_address(0));                              \
    const type result = g_real.name arguments;                                                                     \
    EndTimed(&wait, static_cast<int64_t>(result), ErrorOf(ResultRole::result_role, static_cast<int64_t>(result))); \
    return result;                                                                                                 \
  }
#define TBPROF_CUSTOM(...)
#include "preload/hooks.def"

}  // namespace tbprof
