// SPDX-License-Identifier: Apache-2.0
// Rules: preload/RULES.md, with the exceptions in observer.h.
#include "cupti/driver_api.h"

extern "C" {
void* dlopen(const char* name, int mode);
void* dlsym(void* handle, const char* name);
}

namespace tbprof::cupti {

bool FindDriver(Driver* driver) {
  constexpr int kNow = 2, kOnlyIfLoaded = 4;
  void* const library = dlopen("libcuda.so.1", kNow | kOnlyIfLoaded);
  if (library == nullptr) return false;
#define TBPROF_FIND(name, needed, parameters)                                     \
  driver->name = reinterpret_cast<decltype(driver->name)>(dlsym(library, #name)); \
  if (needed && driver->name == nullptr) return false;
  TBPROF_DRIVER_FUNCTIONS(TBPROF_FIND)
#undef TBPROF_FIND
  return true;
}

}  // namespace tbprof::cupti
