// SPDX-License-Identifier: Apache-2.0
// Hooks on NCCL's calls, recorded with the bytes that they move: every NCCL row of hooks.def. Rules: RULES.md.
#include "preload/hooks.h"
#include "preload/record.h"
#include "preload/resolve.h"

namespace tbprof {
namespace {

constexpr int kNcclSystemError = 2, kNcclInvalidArgument = 4, kNcclInvalidUsage = 5, kNcclInProgress = 7;

// Bytes of one element; `type` is an ncclDataType_t.
uint64_t NcclSize(int type) {
  constexpr uint8_t kSizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return type >= 0 && type < static_cast<int>(sizeof(kSizes)) ? kSizes[type] : 0;
}

int ErrorOf(int result) {
  if (result == 0 || result == kNcclInProgress) return 0;
  return result == kNcclInvalidArgument || result == kNcclInvalidUsage ? EINVAL : EIO;
}

}  // namespace

#define TBPROF_TIMED(...)
#define TBPROF_CUSTOM(...)
#define TBPROF_NCCL(family, name, object, result_role, type, parameters, arguments, communicator, bytes)    \
  type Hook_##name parameters {                                                                             \
    auto* const real = reinterpret_cast<type(*) parameters>(                                                \
        FindForCaller(reinterpret_cast<void*>(&Hook_##name), reinterpret_cast<void**>(&g_real.name), #name, \
                      "libnccl.so.2\0", __builtin_return_address(0)));                                      \
    if (real == nullptr) return kNcclSystemError;                                                           \
    if (!Armed(kFamily##family)) return real arguments;                                                     \
    WaitScope wait;                                                                                         \
    BeginTimed(&wait, kOp_##name, reinterpret_cast<uint64_t>(static_cast<void*>(communicator)),             \
               __builtin_return_address(0));                                                                \
    const type result = real arguments;                                                                     \
    EndTimed(&wait, static_cast<int64_t>(bytes), ErrorOf(result));                                          \
    return result;                                                                                          \
  }                                                                                                         \
  TBPROF_EXPORT_HIDDEN(name)
#include "preload/hooks.def"

}  // namespace tbprof
