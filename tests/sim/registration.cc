// SPDX-License-Identifier: Apache-2.0
//
// The symbols that code compiled by nvcc refers to beside the public ones: it registers its binaries, kernels and
// variables before main, and launches through them. nvcc 13 launches by __cudaGetKernel and __cudaLaunchKernel; the
// latter is cudaLaunchKernel under another name, in the real library too, and is traced as such.
#include <stdint.h>
#include <string.h>

#include <mutex>
#include <vector>

#include "tests/sim/runtime.h"

namespace tbprof::sim {
namespace {

struct Binary {
  const void* image;
  std::once_flag once;
  CUlibrary library;
  CUresult loaded;
};

struct Kernel {
  Binary* binary;
  const char* name;
  std::once_flag once;
  CUkernel kernel;
  CUresult found;
};

struct Variable {
  const void* symbol;
  void** managed;  // where the host keeps its address
  size_t bytes;
  std::mutex mutex;
  std::vector<CUdeviceptr> address;  // by device
};

// From the host's function, and from the driver's handle, to the kernel. Open addressing, read without a lock on
// every launch; entries are only added.
constexpr size_t kSlots = size_t{1} << 15;
// Plain pointers: programs register before any constructor of ours would have run.
struct Slot {
  const void* key;
  Kernel* kernel;
};
Slot slots[kSlots];
std::mutex slots_mutex;

size_t HashOf(const void* key) { return (reinterpret_cast<uintptr_t>(key) * 0x9e3779b97f4a7c15u) >> (64 - 15); }

Kernel* LookUp(const void* key) {
  for (size_t i = HashOf(key), tries = 0; tries < kSlots; i = (i + 1) % kSlots, ++tries) {
    const void* seen = __atomic_load_n(&slots[i].key, __ATOMIC_ACQUIRE);
    if (seen == key) return slots[i].kernel;
    if (seen == nullptr) return nullptr;
  }
  return nullptr;
}

void Insert(const void* key, Kernel* kernel) {
  const std::lock_guard<std::mutex> guard(slots_mutex);
  for (size_t i = HashOf(key), tries = 0; tries < kSlots; i = (i + 1) % kSlots, ++tries) {
    const void* seen = __atomic_load_n(&slots[i].key, __ATOMIC_RELAXED);
    if (seen != nullptr && seen != key) continue;
    slots[i].kernel = kernel;
    __atomic_store_n(&slots[i].key, key, __ATOMIC_RELEASE);
    return;
  }
}

std::vector<Variable*>& Variables() {
  static auto* variables = new std::vector<Variable*>;
  return *variables;
}

}  // namespace

cudaError_t FindKernel(const void* symbol, CUkernel* out) {
  Kernel* kernel = LookUp(symbol);
  if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
  SIM_RUNTIME_TRY(Boot());
  std::call_once(kernel->once, [kernel] {
    const DriverApi& api = Api();
    Binary* binary = kernel->binary;
    std::call_once(binary->once, [&api, binary] {
      binary->loaded = api.cuLibraryLoadData(&binary->library, binary->image, nullptr, nullptr, 0, nullptr, nullptr, 0);
    });
    kernel->found = binary->loaded;
    if (kernel->found != CUDA_SUCCESS) return;
    kernel->found = api.cuLibraryGetKernel(&kernel->kernel, binary->library, kernel->name);
    if (kernel->found == CUDA_SUCCESS) Insert(kernel->kernel, kernel);
  });
  *out = kernel->kernel;
  return ToRuntime(kernel->found);
}

cudaError_t FindVariable(const void* symbol, CUdeviceptr* address, size_t* bytes) {
  for (Variable* variable : Variables()) {
    const bool same = variable->symbol == symbol || (variable->managed != nullptr && *variable->managed == symbol);
    if (!same) continue;
    *bytes = variable->bytes;
    SIM_RUNTIME_TRY(Ready());
    if (variable->managed != nullptr) {
      *address = reinterpret_cast<CUdeviceptr>(*variable->managed);
      return cudaSuccess;
    }
    const std::lock_guard<std::mutex> guard(variable->mutex);
    const auto device = static_cast<size_t>(runtime_thread().device);
    if (variable->address.size() <= device) variable->address.resize(device + 1, 0);
    if (variable->address[device] == 0) {
      SIM_RUNTIME_TRY(ToRuntime(Api().cuMemAlloc_v2(&variable->address[device], variable->bytes)));
      SIM_RUNTIME_TRY(ToRuntime(Api().cuMemsetD8_v2(variable->address[device], 0, variable->bytes)));
    }
    *address = variable->address[device];
    return cudaSuccess;
  }
  return cudaErrorInvalidSymbol;
}

void ForgetDeviceState() {
  for (Variable* variable : Variables()) {
    const std::lock_guard<std::mutex> guard(variable->mutex);
    variable->address.clear();
  }
}

}  // namespace tbprof::sim

#define SIM_EXPORT extern "C" SIM_RUNTIME_VISIBILITY

using tbprof::sim::Binary;

SIM_EXPORT void** __cudaRegisterFatBinary(void* fatCubin) {
  auto* binary = new Binary{};
  binary->image = fatCubin;
  return reinterpret_cast<void**>(binary);
}

SIM_EXPORT void __cudaRegisterFatBinaryEnd(void**) {}

// Runs at exit, when the driver may be gone: what was loaded goes with the process.
SIM_EXPORT void __cudaUnregisterFatBinary(void**) {}

SIM_EXPORT void __cudaRegisterFunction(void** handle, const char* host_function, char*, const char* device_name, int,
                                       uint3*, uint3*, dim3*, dim3*, int*) {
  auto* kernel = new tbprof::sim::Kernel{};
  kernel->binary = reinterpret_cast<Binary*>(handle);
  kernel->name = device_name;
  tbprof::sim::Insert(host_function, kernel);
}

SIM_EXPORT void __cudaRegisterVar(void**, char* host_variable, char*, const char*, int, size_t bytes, int, int) {
  auto* variable = new tbprof::sim::Variable{};
  variable->symbol = host_variable;
  variable->bytes = bytes;
  tbprof::sim::Variables().push_back(variable);
}

SIM_EXPORT void __cudaRegisterHostVar(void**, const char*, char*, size_t) {}

SIM_EXPORT void __cudaRegisterManagedVar(void**, void** host_address, char*, const char*, int, size_t bytes, int, int) {
  auto* variable = new tbprof::sim::Variable{};
  variable->managed = host_address;
  variable->bytes = bytes;
  tbprof::sim::Variables().push_back(variable);
}

// Called at the first use of a managed variable.
SIM_EXPORT char __cudaInitModule(void**) {
  if (tbprof::sim::Ready() != cudaSuccess) return 0;
  for (tbprof::sim::Variable* variable : tbprof::sim::Variables()) {
    if (variable->managed == nullptr) continue;
    const std::lock_guard<std::mutex> guard(variable->mutex);
    if (!variable->address.empty()) continue;
    CUdeviceptr address = 0;
    if (tbprof::sim::Api().cuMemAllocManaged(&address, variable->bytes, CU_MEM_ATTACH_GLOBAL) != CUDA_SUCCESS) return 0;
    variable->address.push_back(address);
    *variable->managed = reinterpret_cast<void*>(address);
  }
  return 1;
}

SIM_EXPORT cudaError_t __cudaRegisterUnifiedTable(void*) { return cudaErrorNotSupported; }

SIM_EXPORT unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, CUstream_st* stream) {
  auto& thread = tbprof::sim::runtime_thread();
  if (thread.configurations == sizeof(thread.configuration) / sizeof(*thread.configuration)) return 1;
  auto& configuration = thread.configuration[thread.configurations++];
  configuration = {grid, block, shared, stream};
  return 0;
}

SIM_EXPORT cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  auto& thread = tbprof::sim::runtime_thread();
  if (thread.configurations == 0) return cudaErrorMissingConfiguration;
  const auto& configuration = thread.configuration[--thread.configurations];
  *grid = configuration.grid;
  *block = configuration.block;
  *shared = configuration.shared;
  *static_cast<cudaStream_t*>(stream) = configuration.stream;
  return cudaSuccess;
}

SIM_EXPORT cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* symbol) {
  CUkernel found = nullptr;
  const cudaError_t result = tbprof::sim::FindKernel(symbol, &found);
  // Null on failure: the compiler's code launches all the same, and the launch must return the error.
  *kernel = result == cudaSuccess ? reinterpret_cast<cudaKernel_t>(found)
                                  : reinterpret_cast<cudaKernel_t>(const_cast<void*>(symbol));
  return result;
}

extern "C" cudaError_t cudaLaunchKernel_ptsz(const void* func, dim3 gridDim, dim3 blockDim, void** args,
                                             size_t sharedMem, cudaStream_t stream);

SIM_EXPORT cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared,
                                          cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}

SIM_EXPORT cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                                               size_t shared, cudaStream_t stream) {
  return cudaLaunchKernel_ptsz(kernel, grid, block, arguments, shared, stream);
}
