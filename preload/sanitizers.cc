// SPDX-License-Identifier: Apache-2.0
// Rules: RULES.md.
#include "preload/sanitizers.h"

#include "preload/hooks.h"
#include "preload/modules.h"

namespace tbprof {
namespace {

bool StartsWith(const char* text, const char* prefix) {
  while (*prefix != '\0' && *text == *prefix) {
    ++text;
    ++prefix;
  }
  return *prefix == '\0';
}

// Decides by the library's file name. A failed look-up of __tsan_init would leave a text on the program's heap, which
// breaks LeakSanitizer's start.
SanitizerRuntime RuntimeOf(const void* function) {
  struct Library {
    const char* prefix;
    SanitizerRuntime runtime;
  };
  static constexpr Library kLibraries[] = {
      {"libtsan.so", SanitizerRuntime::kEveryCall},   {"libclang_rt.tsan", SanitizerRuntime::kEveryCall},
      {"libasan.so", SanitizerRuntime::kAllocator},   {"liblsan.so", SanitizerRuntime::kAllocator},
      {"libhwasan.so", SanitizerRuntime::kAllocator}, {"libclang_rt.", SanitizerRuntime::kAllocator},
  };
  const link_map* const object = function == nullptr ? nullptr : ObjectAt(function);
  if (object == nullptr || object->l_name == nullptr) return SanitizerRuntime::kNone;
  const char* name = object->l_name;
  for (const char* at = name; *at != '\0'; ++at) {
    if (*at == '/') name = at + 1;
  }
  for (const Library& library : kLibraries) {
    if (StartsWith(name, library.prefix)) return library.runtime;
  }
  return SanitizerRuntime::kNone;
}

}  // namespace

SanitizerRuntime FindSanitizerRuntime() {
  const SanitizerRuntime allocator = RuntimeOf(reinterpret_cast<const void*>(g_real.malloc));
  if (allocator != SanitizerRuntime::kNone) return allocator;
  return RuntimeOf(reinterpret_cast<const void*>(g_real.pthread_create));
}

}  // namespace tbprof
