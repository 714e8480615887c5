// SPDX-License-Identifier: Apache-2.0
//
// The entry point: the CUDA driver loads this library inside the first cuInit, because CUDA_INJECTION64_PATH names it,
// and calls InitializeInjection. If the variable named another library before, that library is initialized first.
//
// Rules: preload/RULES.md, except that it takes the loader's lock.
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

#include "cupti/recorder.h"
#include "wire/gpu_bridge.h"
#include "wire/library_mark.h"

[[gnu::used]] static constexpr tbprof::LibraryMark kMark;

extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  const int saved = errno;
  static bool once;
  if (__atomic_exchange_n(&once, true, __ATOMIC_ACQ_REL)) return 1;
  int result = 1;
  if (const char* next = getenv(tbprof::kNextInjectionVariable); next != nullptr && next[0] != '\0') {
    if (void* library = dlopen(next, RTLD_NOW); library != nullptr) {
      auto* const initialize = reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection"));
      if (initialize != nullptr) result = initialize();
    }
  }
  const auto* const bridge = static_cast<const tbprof::GpuBridge*>(dlsym(RTLD_DEFAULT, tbprof::kGpuBridgeName));
  if (bridge != nullptr && bridge->abi == tbprof::kAbiVersion) tbprof::cupti::StartRecording(bridge);
  errno = saved;
  return result;
}
