// SPDX-License-Identifier: Apache-2.0
//
// How the runtime comes to its driver, and the exported functions.
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include <mutex>

#include "tests/sim/modes.h"
#include "tests/sim/runtime.h"

// The parameter structures of both kinds, as the profiler's clients read them.
#include <cupti_runtime_cbid.h>
#include <generated_cuda_runtime_api_meta.h>

// Calls without parameters have no structure for them.
struct cudaDeviceReset_v3020_params {};
struct cudaDeviceSynchronize_v3020_params {};
struct cudaGetLastError_v3020_params {};
struct cudaPeekAtLastError_v3020_params {};
struct cudaCtxResetPersistingL2Cache_v11000_params {};
struct cudaProfilerStart_v4000_params {};
struct cudaProfilerStop_v4000_params {};

namespace tbprof::sim {
namespace {

using GetProcAddress = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);

std::once_flag load_once;
std::once_flag boot_once;
std::atomic<bool> loaded{false};
std::atomic<bool> booted{false};
std::atomic<bool> unloading{false};
cudaError_t load_result = cudaErrorInsufficientDriver;
cudaError_t boot_result = cudaErrorInitializationError;
const Table* table = nullptr;
DriverApi legacy_api;
DriverApi per_thread_api;

// In the place of what an older driver lacks.
CUresult Unavailable() { return CUDA_ERROR_NOT_SUPPORTED; }

bool Fill(GetProcAddress get) {
  bool complete = true;
  const auto look_up = [&](const char* base, int version, cuuint64_t flags) {
    void* function = nullptr;
    CUdriverProcAddressQueryResult status;
    get(base, &function, version, flags, &status);
    complete = complete && (function != nullptr || version > 12000);
    return function != nullptr ? function : reinterpret_cast<void*>(&Unavailable);
  };
#define SIM_DRIVER(symbol, base, version, parameters, arguments)                                    \
  {                                                                                                 \
    void* function = look_up(#base, version, 0);                                                    \
    legacy_api.symbol = per_thread_api.symbol = reinterpret_cast<CUresult(*) parameters>(function); \
  }
#define SIM_DRIVER_STREAM(symbol, base, version, suffix, suffix_version, parameters, arguments) \
  {                                                                                             \
    legacy_api.symbol = reinterpret_cast<CUresult(*) parameters>(look_up(#base, version, 0));   \
    per_thread_api.symbol = reinterpret_cast<CUresult(*) parameters>(                           \
        look_up(#base, suffix_version, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM));         \
  }
#include "tests/sim/driver.def"
  return complete;
}

// The order of lookups is that of cudart 13: a probe with an empty name, cuInit, then cuGetProcAddress itself at two
// versions. The rest goes through what that answered.
cudaError_t Load() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) return cudaErrorInsufficientDriver;
  auto get = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  if (get == nullptr) return cudaErrorInsufficientDriver;
  void* function = nullptr;
  CUdriverProcAddressQueryResult status;
  get("", &function, 0, 0, &status);
  get("cuInit", &function, 2000, 0, &status);
  get("cuGetProcAddress", &function, 11030, 0, &status);
  if (get("cuGetProcAddress", &function, 12000, 0, &status) != CUDA_SUCCESS || function == nullptr) {
    return cudaErrorInsufficientDriver;
  }
  if (!Fill(reinterpret_cast<GetProcAddress>(function))) return cudaErrorSymbolNotFound;
  const void* export_table = nullptr;
  if (legacy_api.cuGetExportTable(&export_table, &kTableId) != CUDA_SUCCESS) return cudaErrorInsufficientDriver;
  const Table* found = static_cast<const Table*>(export_table);
  if (found->version != kTableVersion) return cudaErrorSystemDriverMismatch;
  int version = 0;
  legacy_api.cuDriverGetVersion(&version);
  table = found;
  // Within a major version a newer runtime runs on an older driver.
  return version / 1000 < kLibraryVersion / 1000 ? cudaErrorInsufficientDriver : cudaSuccess;
}

void AtExit() { unloading.store(true); }

}  // namespace

RuntimeThread& runtime_thread() {
  static thread_local RuntimeThread thread;
  return thread;
}

cudaError_t LoadDriver() {
  if (!loaded.load(std::memory_order_acquire)) {
    std::call_once(load_once, [] {
      load_result = Load();
      loaded.store(true, std::memory_order_release);
    });
  }
  return load_result;
}

cudaError_t Boot() {
  if (unloading.load(std::memory_order_relaxed)) return cudaErrorCudartUnloading;
  if (!booted.load(std::memory_order_acquire)) {
    SIM_RUNTIME_TRY(LoadDriver());
    // An injected library may use the runtime while cuInit is still under way.
    static thread_local bool inside = false;
    if (inside) return cudaErrorInitializationError;
    inside = true;
    std::call_once(boot_once, [] {
      boot_result = ToRuntime(legacy_api.cuInit(0));
      if (boot_result == cudaSuccess) atexit(AtExit);
      booted.store(true, std::memory_order_release);
    });
    inside = false;
  }
  return boot_result;
}

bool Booted() { return booted.load(std::memory_order_acquire); }

cudaError_t Ready() {
  SIM_RUNTIME_TRY(Boot());
  if (table->current_context() != nullptr) {
    return table->state() == CUDA_SUCCESS ? cudaSuccess : ToRuntime(table->state());
  }
  CUcontext context = nullptr;
  const DriverApi& api = Api();
  SIM_RUNTIME_TRY(ToRuntime(api.cuDevicePrimaryCtxRetain(&context, runtime_thread().device)));
  return ToRuntime(api.cuCtxSetCurrent(context));
}

const DriverApi& Api() { return runtime_thread().per_thread_default ? per_thread_api : legacy_api; }
const Table* ToolsTable() { return table; }

namespace {

class DefaultStream {
 public:
  explicit DefaultStream(bool per_thread) : before_(runtime_thread().per_thread_default) {
    runtime_thread().per_thread_default = per_thread;
  }
  ~DefaultStream() { runtime_thread().per_thread_default = before_; }
  DefaultStream(const DefaultStream&) = delete;
  DefaultStream& operator=(const DefaultStream&) = delete;

 private:
  bool before_;
};

// Calls that answer without a driver.
bool NeedsNoDriver(uint32_t cbid) {
  switch (cbid) {
    case CUPTI_RUNTIME_TRACE_CBID_cudaRuntimeGetVersion_v3020:
    case CUPTI_RUNTIME_TRACE_CBID_cudaDriverGetVersion_v3020:
      return true;
    default:
      return false;
  }
}

void Remember(uint32_t cbid, cudaError_t result) {
  if (result == cudaSuccess || cbid == CUPTI_RUNTIME_TRACE_CBID_cudaGetLastError_v3020 ||
      cbid == CUPTI_RUNTIME_TRACE_CBID_cudaPeekAtLastError_v3020) {
    return;
  }
  runtime_thread().last_error = result;
}

template <typename Body>
cudaError_t Call(uint32_t cbid, const char* name, const void* parameters, const Body& body) {
  cudaError_t result = cudaSuccess;
  if (!NeedsNoDriver(cbid)) result = Boot();
  if (result != cudaSuccess) {
    Remember(cbid, result);
    return result;
  }
  const bool traced = table != nullptr && Booted() && !unloading.load(std::memory_order_relaxed) &&
                      (table->wants->load(std::memory_order_relaxed) & kWantsRuntimeCalls) != 0 &&
                      table->state() == CUDA_SUCCESS;
  if (__builtin_expect(!traced, 1)) {
    result = body();
  } else {
    ApiCall call;
    call.domain = Domain::kRuntime;
    call.cbid = cbid;
    call.name = name;
    call.parameters = parameters;
    call.result = &result;
    call.result_value = 0;
    table->enter(&call);
    result = body();
    call.result_value = static_cast<uint32_t>(result);
    table->exit(&call);
  }
  Remember(cbid, result);
  return result;
}

}  // namespace
}  // namespace tbprof::sim

#define SIM_EXPORT extern "C" SIM_RUNTIME_VISIBILITY
#define SIM_UNPACK(...) __VA_ARGS__
#define SIM_BODY(name, cbid, structure, called, arguments) \
  structure parameters_of_call = {SIM_UNPACK arguments};   \
  return tbprof::sim::Call(cbid, name, &parameters_of_call, [&] { return tbprof::sim::Runtime::called arguments; });

#define SIM_RUNTIME(name, version, parameters, arguments)                                                      \
  SIM_EXPORT cudaError_t name parameters {                                                                     \
    SIM_BODY(#name, CUPTI_RUNTIME_TRACE_CBID_##name##_v##version, name##_v##version##_params, name, arguments) \
  }
#define SIM_RUNTIME_STREAM(name, version, suffix, suffix_version, parameters, arguments)                       \
  SIM_EXPORT cudaError_t name parameters {                                                                     \
    tbprof::sim::DefaultStream stream_zero_is_legacy(false);                                                   \
    SIM_BODY(#name, CUPTI_RUNTIME_TRACE_CBID_##name##_v##version, name##_v##version##_params, name, arguments) \
  }                                                                                                            \
  SIM_EXPORT cudaError_t name##suffix parameters {                                                             \
    tbprof::sim::DefaultStream stream_zero_is_the_threads(true);                                               \
    SIM_BODY(#name #suffix, CUPTI_RUNTIME_TRACE_CBID_##name##suffix##_v##suffix_version,                       \
             name##suffix##_v##suffix_version##_params, name, arguments)                                       \
  }
#include "tests/sim/runtime.def"
