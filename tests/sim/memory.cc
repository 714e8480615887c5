// SPDX-License-Identifier: Apache-2.0
//
// Memory: what is the device's in the program's eyes is host memory here. Pages are reserved, not filled, so that a
// program may allocate a whole GPU on a small machine.
#include <sys/mman.h>

#include <algorithm>

#include "tests/sim/engine.h"

namespace tbprof::sim {
namespace {

constexpr size_t kGranule = 512;                 // cudaMalloc's alignment
constexpr size_t kLarge = size_t{1} << 20;       // a mapping of its own from here on
constexpr size_t kSlab = size_t{8} << 20;        // what small blocks are cut from
constexpr uint8_t kDevice = 3, kManaged = 5;     // CUpti_ActivityMemoryKind
constexpr size_t kReserved = size_t{600} << 20;  // the driver's own share of the device

// Small blocks by size class; under the engine's lock.
std::map<size_t, std::vector<void*>> free_blocks;
char* slab = nullptr;
size_t slab_left = 0;

void* Map(size_t bytes) {
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return address == MAP_FAILED ? nullptr : address;
}

size_t ClassOf(size_t bytes) {
  size_t size = kGranule;
  while (size < bytes) size *= 2;
  return size;
}

void* SmallBlock(size_t size) {
  auto& free_list = free_blocks[size];
  if (!free_list.empty()) {
    void* block = free_list.back();
    free_list.pop_back();
    return block;
  }
  if (slab_left < size) {
    slab = static_cast<char*>(Map(kSlab));
    slab_left = slab == nullptr ? 0 : kSlab;
    if (slab == nullptr) return nullptr;
  }
  void* block = slab;
  slab += size;
  slab_left -= size;
  return block;
}

bool OnDevice(uint8_t kind) { return kind == kDevice || kind == kManaged; }

}  // namespace

CUresult Allocate(CUcontext context, size_t bytes, uint8_t kind, unsigned flags, bool asynchronous, void** out) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  Engine& e = engine();
  context = Root(context);
  Device* device = context->device;
  if (bytes > (size_t{1} << 46)) return CUDA_ERROR_OUT_OF_MEMORY;
  const size_t mapped = bytes >= kLarge ? (bytes + 4095) & ~size_t{4095} : ClassOf(bytes);
  if (OnDevice(kind)) {
    const size_t limit =
        device->description.memory_bytes - std::min<size_t>(kReserved, device->description.memory_bytes);
    if (device->used.fetch_add(mapped) + mapped > limit && kind == kDevice) {
      device->used.fetch_sub(mapped);
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
  }
  Guard guard(e.lock);
  void* address = bytes >= kLarge ? Map(mapped) : SmallBlock(mapped);
  if (address == nullptr) {
    if (OnDevice(kind)) device->used.fetch_sub(mapped);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  e.memory[reinterpret_cast<uintptr_t>(address)] = {bytes,        mapped, kind,    false,
                                                    asynchronous, flags,  context, device->ordinal};
  if (asynchronous) {
    CUmemoryPool pool = device->pool;
    const size_t used = pool->used.fetch_add(mapped) + mapped;
    if (used > pool->high.load()) pool->high.store(used);
  }
  *out = address;
  return CUDA_SUCCESS;
}

CUresult Free(void* address, bool device_side) {
  Engine& e = engine();
  Guard guard(e.lock);
  const auto found = e.memory.find(reinterpret_cast<uintptr_t>(address));
  if (found == e.memory.end() || found->second.registered || found->second.context == nullptr ||
      OnDevice(found->second.kind) != device_side) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const Allocation allocation = found->second;
  e.memory.erase(found);
  Device* device = e.devices[static_cast<size_t>(allocation.device)];
  if (OnDevice(allocation.kind)) device->used.fetch_sub(allocation.mapped);
  if (allocation.asynchronous) device->pool->used.fetch_sub(allocation.mapped);
  if (allocation.mapped >= kLarge) {
    munmap(address, allocation.mapped);
  } else {
    free_blocks[allocation.mapped].push_back(address);
  }
  return CUDA_SUCCESS;
}

bool FindAllocation(const void* address, uintptr_t* base, Allocation* out) {
  Engine& e = engine();
  const auto at = reinterpret_cast<uintptr_t>(address);
  Guard guard(e.lock);
  auto found = e.memory.upper_bound(at);
  if (found == e.memory.begin()) return false;
  --found;
  if (at >= found->first + found->second.bytes) return false;
  if (base != nullptr) *base = found->first;
  if (out != nullptr) *out = found->second;
  return true;
}

void ForgetMemoryOf(CUcontext context) {
  std::vector<std::pair<void*, bool>> addresses;
  {
    Guard guard(engine().lock);
    auto& memory = engine().memory;
    for (auto it = memory.begin(); it != memory.end();) {
      const auto next = std::next(it);
      if (it->second.context == context) {
        if (it->second.registered) {
          memory.erase(it);
        } else {
          addresses.emplace_back(reinterpret_cast<void*>(it->first), OnDevice(it->second.kind));
        }
      }
      it = next;
    }
  }
  for (const auto& [address, device_side] : addresses) Free(address, device_side);
}

CUmemoryPool NewPool(Device* device) {
  auto* pool = new CUmemPoolHandle_st{};
  pool->magic = Magic::kPool;
  pool->device = device;
  return pool;
}

}  // namespace tbprof::sim
