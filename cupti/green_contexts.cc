// SPDX-License-Identifier: Apache-2.0
// Rules: preload/RULES.md, with the exceptions in observer.h.
#include "cupti/green_contexts.h"

namespace tbprof::cupti {
namespace {

template <typename Matches>
GreenContext* FindGreen(Matches matches) {
  const uint32_t end = __atomic_load_n(&g_observer.green_end, __ATOMIC_ACQUIRE);
  for (uint32_t i = 0; i < end && i < kGreens; ++i) {
    if (matches(g_observer.greens[i])) return &g_observer.greens[i];
  }
  return nullptr;
}

}  // namespace

GreenContext* GreenOf(uint64_t handle) {
  return FindGreen(
      [handle](const GreenContext& green) { return __atomic_load_n(&green.handle, __ATOMIC_ACQUIRE) == handle; });
}

GreenContext* GreenBy(const void* context) {
  return FindGreen(
      [context](const GreenContext& green) { return __atomic_load_n(&green.context, __ATOMIC_ACQUIRE) == context; });
}

void RegisterGreen(uint64_t handle, void* context, void* primary, uint32_t device) {
  GreenContext* green = handle == 0 ? nullptr : GreenOf(handle);
  for (uint32_t i = 0; green == nullptr && handle != 0 && i < kGreens; ++i) {
    uint64_t none = 0;
    GreenContext* const place = &g_observer.greens[i];
    if (!__atomic_compare_exchange_n(&place->handle, &none, handle, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
      continue;
    uint32_t end = __atomic_load_n(&g_observer.green_end, __ATOMIC_ACQUIRE);
    while (end <= i &&
           !__atomic_compare_exchange_n(&g_observer.green_end, &end, i + 1, true, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    }
    green = place;
    green->device = device;
  }
  if (green == nullptr) return;
  if (device != kAnyDevice) green->device = device;
  if (primary != nullptr) __atomic_store_n(&green->primary, primary, __ATOMIC_RELEASE);
  if (context != nullptr) __atomic_store_n(&green->context, context, __ATOMIC_RELEASE);
}

void UnregisterGreen(uint64_t handle) {
  GreenContext* const green = GreenOf(handle);
  if (green == nullptr) return;
  __atomic_store_n(&green->context, nullptr, __ATOMIC_RELEASE);
  __atomic_store_n(&green->primary, nullptr, __ATOMIC_RELEASE);
  __atomic_store_n(&green->handle, 0, __ATOMIC_RELEASE);
}

void* PrimaryOfGreen(void* context, void* stream) {
  const Driver& driver = g_observer.driver;
  GreenContext* const known = GreenBy(context);
  if (known != nullptr) {
    void* primary = __atomic_load_n(&known->primary, __ATOMIC_ACQUIRE);
    if (primary != nullptr) return primary;
    // The green context holds a reference to the primary context, so the release below does not drop the last one.
    const int device = static_cast<int>(known->device);
    if (known->device == kAnyDevice || driver.cuDevicePrimaryCtxRetain == nullptr ||
        driver.cuDevicePrimaryCtxRelease_v2 == nullptr ||
        driver.cuDevicePrimaryCtxRetain(&primary, device) != kDriverSuccess) {
      return nullptr;
    }
    driver.cuDevicePrimaryCtxRelease_v2(device);
    __atomic_store_n(&known->primary, primary, __ATOMIC_RELEASE);
    return primary;
  }
  void *primary = nullptr, *green = nullptr;
  if (driver.cuStreamGetCtx_v2 == nullptr || driver.cuStreamGetCtx_v2(stream, &primary, &green) != kDriverSuccess ||
      green == nullptr) {
    return nullptr;
  }
  RegisterGreen(reinterpret_cast<uint64_t>(green), context, primary, kAnyDevice);
  return primary;
}

}  // namespace tbprof::cupti
