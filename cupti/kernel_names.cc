// SPDX-License-Identifier: Apache-2.0
// Rules: preload/RULES.md, with the exceptions in observer.h.
#include "cupti/kernel_names.h"

#include "cupti/handle_table.h"

namespace tbprof::cupti {
namespace {

uint64_t HashText(const char* text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (; *text != '\0'; ++text) hash = (hash ^ static_cast<unsigned char>(*text)) * 0x100000001b3;
  return hash;
}

// For a handle that the program received before the observer started, or by a call that is not observed.
void QueryName(ChunkWriter* writer, uint64_t handle) {
  const char* text = nullptr;
  void* const function = reinterpret_cast<void*>(handle);
  const Driver& driver = g_observer.driver;
  if (driver.cuFuncGetName != nullptr && driver.cuFuncGetName(&text, function) == kDriverSuccess && text != nullptr) {
    return NameFunction(writer, handle, text, false);
  }
  const bool named =
      driver.cuKernelGetName != nullptr && driver.cuKernelGetName(&text, function) == kDriverSuccess && text != nullptr;
  NameFunction(writer, handle, named ? text : "(no name)", named);
}

// Call this after the first launch, which loads the function.
void QueryAttributes(Function* function, int device) {
  if (__atomic_load_n(&function->known, __ATOMIC_ACQUIRE) != 0) return;
  const Driver& driver = g_observer.driver;
  void* const handle = reinterpret_cast<void*>(function->handle);
  const auto get = [&](int attribute) {
    int value = 0;
    int result = -1;
    if (function->is_kernel != 0) {
      if (driver.cuKernelGetAttribute != nullptr) {
        result = driver.cuKernelGetAttribute(&value, attribute, handle, device);
      }
    } else if (driver.cuFuncGetAttribute != nullptr) {
      result = driver.cuFuncGetAttribute(&value, attribute, handle);
    }
    return result == kDriverSuccess && value > 0 ? value : 0;
  };
  function->registers = get(kFunctionRegisters);
  function->shared = get(kFunctionShared);
  function->local = get(kFunctionLocal);
  __atomic_store_n(&function->known, 1, __ATOMIC_RELEASE);
}

}  // namespace

Function* FunctionOf(uint64_t handle) {
  bool is_new;
  return PlaceOf(g_observer.functions, handle, &is_new);
}

void NameFunction(ChunkWriter* writer, uint64_t handle, const char* text, bool is_kernel) {
  Function* const function = handle == 0 || text == nullptr ? nullptr : FunctionOf(handle);
  if (function == nullptr) return;
  const uint64_t hash = HashText(text);
  if (__atomic_load_n(&function->name, __ATOMIC_ACQUIRE) != 0 && function->text == hash) return;
  const uint32_t name = kFirstName + __atomic_fetch_add(&g_observer.names, 1, __ATOMIC_RELAXED);
  if (!WriteName(writer, GpuNameKind::kKernel, name, text)) return;
  function->text = hash;
  function->is_kernel = is_kernel;
  __atomic_store_n(&function->known, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&function->name, name, __ATOMIC_RELEASE);
}

void ShareName(uint64_t from, uint64_t to) {
  const Function* const known = from == 0 ? nullptr : FunctionOf(from);
  Function* const function = to == 0 ? nullptr : FunctionOf(to);
  if (known == nullptr || function == nullptr) return;
  __atomic_store_n(&function->name, __atomic_load_n(&known->name, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
}

uint32_t LaunchedName(ChunkWriter* writer, uint64_t handle, const Context* context) {
  Function* const function = FunctionOf(handle);
  if (function == nullptr) return 0;
  if (__atomic_load_n(&function->name, __ATOMIC_ACQUIRE) == 0) QueryName(writer, handle);
  if (context != nullptr) QueryAttributes(function, context->device);
  return __atomic_load_n(&function->name, __ATOMIC_ACQUIRE);
}

}  // namespace tbprof::cupti
