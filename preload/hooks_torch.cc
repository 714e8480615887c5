// SPDX-License-Identifier: Apache-2.0
// Records the reports that PyTorch's allocators of device memory send to its profiler, whether or not that profiler is
// on: each allocation and release of a tensor, with the bytes in use and the bytes taken from the driver. The hook
// forwards each report to libc10; otherwise the program's own torch.profiler would see no memory. Rules: RULES.md.
#include <link.h>
#include <stddef.h>

#include "preload/hooks.h"
#include "preload/modules.h"
#include "preload/record.h"
#include "preload/torch_build.h"
#include "preload/torch_observer.h"

namespace tbprof {
namespace {

// c10::Device, which is passed in a register.
struct Device {
  int8_t type, index;
};
constexpr int8_t kCpu = 0;

using Report = void (*)(void* block, int64_t bytes, uint64_t allocated, uint64_t reserved, Device device);

// Objects enter the loader's list together with their dependencies, so libc10 is near its caller. The search does not
// take the loader's lock: the lock's holder may wait for a lock that the hook's caller holds.
const link_map* C10Near(const link_map* object) {
  constexpr int kMostObjects = 512;
  const link_map *before = object, *behind = object;
  for (int i = 0; i < kMostObjects && (before != nullptr || behind != nullptr); ++i) {
    if (IsNamed(before, "libc10.so")) return before;
    if (IsNamed(behind, "libc10.so")) return behind;
    if (before != nullptr) before = before->l_prev;
    if (behind != nullptr) behind = behind->l_next;
  }
  return nullptr;
}

void Forward(Report* known, const char* name, const void* caller, void* block, int64_t bytes, uint64_t allocated,
             uint64_t reserved, Device device) {
  Report report = __atomic_load_n(known, __ATOMIC_ACQUIRE);
  if (__builtin_expect(report == nullptr, 0)) {
    const link_map* const object = ObjectAt(caller);
    const link_map* const c10 = object == nullptr ? nullptr : C10Near(object);
    if (c10 != nullptr) report = reinterpret_cast<Report>(SymbolOf(c10, name));
    if (report == nullptr) return;
    __atomic_store_n(known, report, __ATOMIC_RELEASE);
  }
  report(block, bytes, allocated, reserved, device);
}

void Record(const void* block, int64_t bytes, uint64_t allocated, uint64_t reserved, Device device) {
  // Host memory is reported only while a profiler is on, and the allocator hooks record its blocks.
  if (device.type == kCpu || (g_control->gpu_options & kTorch) == 0) return;
  if (!Armed(kFamilyGpu | kFamilyAnnotation)) return;
  ThreadState* const thread = CurrentThread();
  if (thread == nullptr) return CountMissedWait();
  Reservation reservation;
  CountMade(thread, kCountedTensor);
  if (!BeginRecord(g_attachment.segment, &thread->writer, 2, &reservation)) return CountNoRoom(thread, kCountedTensor);
  auto* record = reinterpret_cast<TensorMemoryRecord*>(reservation.slots);
  record->ticks = Ticks();
  record->address = reinterpret_cast<uint64_t>(block);
  record->bytes = bytes;
  record->allocated = allocated;
  record->reserved = reserved;
  record->device_type = static_cast<uint8_t>(device.type);
  record->reserved1 = 0;
  record->reserved2 = 0;
  CommitRecord(g_attachment.segment, &thread->writer, reservation, RecordKind::kTensorMemory, 0,
               static_cast<uint16_t>(static_cast<uint8_t>(device.index)));
}

}  // namespace

// In older releases the totals are signed.
#define TBPROF_TORCH_REPORT(number, name)                                                                      \
  TBPROF_EXPORT void Hook_report##number(void*, int64_t, uint64_t, uint64_t, Device) asm(name);                \
  void Hook_report##number(void* block, int64_t bytes, uint64_t allocated, uint64_t reserved, Device device) { \
    static Report real;                                                                                        \
    Record(block, bytes, allocated, reserved, device);                                                         \
    Forward(&real, name, __builtin_return_address(0), block, bytes, allocated, reserved, device);              \
  }
TBPROF_TORCH_REPORT(1, "_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE")
TBPROF_TORCH_REPORT(2, "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE")

}  // namespace tbprof
