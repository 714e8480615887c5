// SPDX-License-Identifier: Apache-2.0
// Rules: preload/RULES.md, with the exceptions in observer.h.
#include "cupti/observed_streams.h"

#include "cupti/green_contexts.h"
#include "cupti/handle_table.h"

namespace tbprof::cupti {
Stream* StreamOf(uint64_t handle) {
  if (handle == kCudaLegacyStream || handle == kCudaThreadStream) return nullptr;
  bool is_new;
  Stream* const stream = PlaceOf(g_observer.streams, handle, &is_new);
  if (is_new) {
    __atomic_store_n(&stream->number, kFirstStream + __atomic_fetch_add(&g_observer.stream_count, 1, __ATOMIC_RELAXED),
                     __ATOMIC_RELEASE);
  }
  return stream;
}

uint32_t StreamNumber(uint64_t handle) {
  if (handle == kCudaLegacyStream || handle == kCudaThreadStream) return static_cast<uint32_t>(handle);
  const Stream* const stream = StreamOf(handle);
  return stream == nullptr ? 0 : __atomic_load_n(&stream->number, __ATOMIC_ACQUIRE);
}

uint64_t StreamKey(uint64_t stream) {
  void* handle = nullptr;
  if (stream > kCudaThreadStream || __atomic_load_n(&g_observer.green_end, __ATOMIC_ACQUIRE) == 0) return stream;
  if (g_observer.driver.cuCtxGetCurrent(&handle) != kDriverSuccess || handle == nullptr) return stream;
  return GreenBy(handle) == nullptr ? stream : reinterpret_cast<uint64_t>(handle);
}

}  // namespace tbprof::cupti
