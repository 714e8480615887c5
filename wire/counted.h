// SPDX-License-Identifier: Apache-2.0
//
// Counts a GPU record in the slot of the thread that makes it, whether or not there is room for it.
//
// Process: target. No allocation, no system call.
#ifndef TBPROF_WIRE_COUNTED_H_
#define TBPROF_WIRE_COUNTED_H_

#include "wire/clock.h"
#include "wire/layout.h"
#include "wire/records.h"

namespace tbprof {

template <typename Record>
inline constexpr uint32_t kCountedOf = kCountedKinds;  // not counted by its kind
template <>
inline constexpr uint32_t kCountedOf<GpuKernelRecord> = kCountedGpuKernel;
template <>
inline constexpr uint32_t kCountedOf<GpuCopyRecord> = kCountedGpuCopy;
template <>
inline constexpr uint32_t kCountedOf<GpuApiRecord> = kCountedGpuCall;

template <typename Record>
inline void CountRecord(ThreadSlot* slot, bool has_room) {
  constexpr uint32_t kCounted = kCountedOf<Record>;
  if constexpr (kCounted < kCountedKinds) {
    AddThisThread(&slot->made[kCounted], uint64_t{1});
    if (!has_room) AddThisThread(&slot->no_room[kCounted], uint64_t{1});
  }
}

}  // namespace tbprof

#endif  // TBPROF_WIRE_COUNTED_H_
