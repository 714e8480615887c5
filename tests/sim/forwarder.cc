// SPDX-License-Identifier: Apache-2.0
//
// A libcuda.so.1 that forwards to another one, as WSL2's and those that share a GPU do (HAMi-core). It opens the real
// driver by its path and finds each function with dlsym.
//
//   CUDASIM_FORWARD_TO      the real libcuda.so.1; default: ../cuda13/libcuda.so.1 beside this one
//   CUDASIM_FORWARD_EARLY   1: all functions are found when the library is loaded, before the program can ask for one
//   CUDASIM_FORWARD_ANSWER  own: cuGetProcAddress gives this library's functions; real: the real driver's
//
// It also stands for a driver of CUDA 13.1: it has cuLaunchHostFunc in both versions. Only this library's own checks
// see what the second gets for its fourth argument.
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>
#include <mutex>
#include <string>

#undef cuGetProcAddress
#undef cuEventElapsedTime
#undef cuMemcpyBatchAsync
#undef cuMemcpy3DBatchAsync

namespace {

constexpr int kNewest = 13010;

struct Real {
#define SIM_DRIVER(symbol, base, version, parameters, arguments) CUresult(*symbol) parameters;
#define SIM_DRIVER_STREAM(symbol, base, version, suffix, suffix_version, parameters, arguments) \
  CUresult(*symbol) parameters;                                                                 \
  CUresult(*symbol##suffix) parameters;
#include "tests/sim/driver.def"
};
Real g_real;
std::once_flag g_found;
std::atomic<long long> g_forwarded;

bool Is(const char* variable, const char* value) {
  const char* const text = getenv(variable);
  return text != nullptr && strcmp(text, value) == 0;
}

std::string RealPath() {
  if (const char* const path = getenv("CUDASIM_FORWARD_TO"); path != nullptr) return path;
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&RealPath), &info) == 0) return "";
  const std::string own = info.dli_fname;
  return own.substr(0, own.rfind('/')) + "/../cuda13/libcuda.so.1";
}

void FindAll() {
  void* const library = dlopen(RealPath().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    fprintf(stderr, "forwarder: %s\n", dlerror());
    abort();
  }
#define SIM_FIND(symbol) g_real.symbol = reinterpret_cast<decltype(g_real.symbol)>(dlsym(library, #symbol));
#define SIM_DRIVER(symbol, base, version, parameters, arguments) SIM_FIND(symbol)
#define SIM_DRIVER_STREAM(symbol, base, version, suffix, suffix_version, parameters, arguments) \
  SIM_FIND(symbol) SIM_FIND(symbol##suffix)
#include "tests/sim/driver.def"
}

__attribute__((constructor)) void Load() {
  if (Is("CUDASIM_FORWARD_EARLY", "1")) std::call_once(g_found, FindAll);
}

// Counted are calls that a profiler makes none of itself.
const Real& Forward(const char* symbol) {
  std::call_once(g_found, FindAll);
  if (strncmp(symbol, "cuLaunchKernel", 14) == 0 || strncmp(symbol, "cuMem", 5) == 0) ++g_forwarded;
  return g_real;
}

}  // namespace

#define FORWARDER_EXPORT extern "C" __attribute__((visibility("default")))

// How many launches, copies and allocations went through this library: past it, the number would be another one.
FORWARDER_EXPORT long long cuForwarderCalls() { return g_forwarded.load(); }

extern "C" CUresult cuLaunchHostFunc_v2(CUstream stream, CUhostFn function, void* argument, unsigned int sync_mode);
extern "C" CUresult cuLaunchHostFunc_v2_ptsz(CUstream stream, CUhostFn function, void* argument,
                                             unsigned int sync_mode);

#define SIM_FORWARDED(symbol, parameters) FORWARDER_EXPORT CUresult Forward_##symbol parameters asm(#symbol);
#define SIM_DRIVER(symbol, base, version, parameters, arguments) SIM_FORWARDED(symbol, parameters)
#define SIM_DRIVER_STREAM(symbol, base, version, suffix, suffix_version, parameters, arguments) \
  SIM_FORWARDED(symbol, parameters) SIM_FORWARDED(symbol##suffix, parameters)
#include "tests/sim/driver.def"

namespace {

#define SIM_ADDRESS(symbol) reinterpret_cast<void*>(&Forward_##symbol)
#include "tests/sim/driver_entries.inc"
{"cuLaunchHostFunc", kNewest, false, reinterpret_cast<void*>(&cuLaunchHostFunc_v2)},
    {"cuLaunchHostFunc", kNewest, true, reinterpret_cast<void*>(&cuLaunchHostFunc_v2_ptsz)},
};

void* Own(const char* name, int version, cuuint64_t flags) {
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  const Entry* best = nullptr;
  for (const Entry& entry : kEntries) {
    if (strcmp(entry.base, name) != 0 || entry.version > version || (entry.per_thread && !per_thread)) continue;
    const bool is_better = best == nullptr || (entry.per_thread && !best->per_thread) ||
                           (entry.per_thread == best->per_thread && entry.version > best->version);
    if (is_better) best = &entry;
  }
  return best == nullptr ? nullptr : best->function;
}

// What the program gets in the place of the real driver's answer.
template <typename... Arguments>
CUresult Answer(CUresult result, Arguments...) {
  return result;
}
CUresult Answer(CUresult result, const char* name, void** function, int version, cuuint64_t flags) {
  const bool is_second = strcmp(name, "cuLaunchHostFunc") == 0 && version >= kNewest;
  if (result != CUDA_SUCCESS || *function == nullptr || (!is_second && Is("CUDASIM_FORWARD_ANSWER", "real"))) {
    return result;
  }
  if (void* const own = Own(name, version, flags); own != nullptr) *function = own;
  return result;
}
CUresult Answer(CUresult result, const char* name, void** function, int version, cuuint64_t flags,
                CUdriverProcAddressQueryResult*) {
  return Answer(result, name, function, version, flags);
}

}  // namespace

#define SIM_UNPACK(...) __VA_OPT__(, ) __VA_ARGS__
#define SIM_FORWARD(symbol, parameters, arguments) \
  CUresult Forward_##symbol parameters { return Answer(Forward(#symbol).symbol arguments SIM_UNPACK arguments); }
#define SIM_DRIVER(symbol, base, version, parameters, arguments) SIM_FORWARD(symbol, parameters, arguments)
#define SIM_DRIVER_STREAM(symbol, base, version, suffix, suffix_version, parameters, arguments) \
  SIM_FORWARD(symbol, parameters, arguments)                                                    \
  SIM_FORWARD(symbol##suffix, parameters, arguments)
#include "tests/sim/driver.def"

FORWARDER_EXPORT CUresult cuLaunchHostFunc_v2(CUstream stream, CUhostFn function, void* argument,
                                              unsigned int sync_mode) {
  return sync_mode > 1 ? CUDA_ERROR_INVALID_VALUE
                       : Forward("cuLaunchHostFunc").cuLaunchHostFunc(stream, function, argument);
}
FORWARDER_EXPORT CUresult cuLaunchHostFunc_v2_ptsz(CUstream stream, CUhostFn function, void* argument,
                                                   unsigned int sync_mode) {
  return sync_mode > 1 ? CUDA_ERROR_INVALID_VALUE
                       : Forward("cuLaunchHostFunc").cuLaunchHostFunc_ptsz(stream, function, argument);
}
