// SPDX-License-Identifier: Apache-2.0
// Hooks on the rounds of XGBoost and LightGBM: every BY_NAME row of hooks.def. A look-up by name has stored the real
// function before its caller gets the hook (hooks_cupti.cc). Rules: RULES.md.
#include "preload/hooks.h"
#include "preload/record.h"

namespace tbprof {

#define TBPROF_TIMED(...)
#define TBPROF_CUSTOM(...)
#define TBPROF_BY_NAME(family, name, object, result_role, type, parameters, arguments)               \
  type Hook_##name parameters {                                                                      \
    auto* const real = __atomic_load_n(&g_real.name, __ATOMIC_ACQUIRE);                              \
    if (!Armed(kFamily##family)) return real arguments;                                              \
    WaitScope wait;                                                                                  \
    BeginTimed(&wait, kOp_##name, reinterpret_cast<uint64_t>(booster), __builtin_return_address(0)); \
    const type result = real arguments;                                                              \
    EndTimed(&wait, 0, 0);                                                                           \
    return result;                                                                                   \
  }
#include "preload/hooks.def"

}  // namespace tbprof
