// SPDX-License-Identifier: Apache-2.0
//
// Driver calls on physical memory by handles and on the addresses it is mapped at. Physical memory is a file without a
// name, so that it has the same bytes at all its addresses; what is reserved and not mapped, or mapped and not made
// accessible, has no access here either.
//
// That CUPTI records cuMemCreate as an allocation, by the handle in place of an address, and as released with the
// handle's last reference, is a guess.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "tests/sim/driver.h"

namespace tbprof::sim {
namespace {

constexpr size_t kGranularity = size_t{2} << 20;
constexpr uint8_t kDevice = 3;  // CUpti_ActivityMemoryKind

struct Physical {
  Magic magic;
  int file;
  size_t bytes;
  CUmemAllocationProp properties;
  Device* device;
  uint32_t references;  // of the program; these two under the engine's lock
  uint32_t mappings;
};

struct Mapping {
  size_t bytes;
  Physical* physical;
};

// Under the engine's lock.
std::map<CUdeviceptr, size_t> reserved;
std::map<CUdeviceptr, Mapping> mapped;

void* Pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }
Physical* Of(CUmemGenericAllocationHandle handle) {
  auto* physical = reinterpret_cast<Physical*>(handle);
  return Valid(physical, Magic::kPhysical) ? physical : nullptr;
}

void Report(bool allocation, const Physical* physical) {
  if (!Wants(kWantsMemory) || TheHooks() == nullptr) return;
  MemoryEvent event{};
  event.allocation = allocation;
  event.kind = kDevice;
  event.address = reinterpret_cast<uint64_t>(physical);
  event.bytes = physical->bytes;
  event.time = Now();
  event.device = static_cast<uint32_t>(physical->device->ordinal);
  event.context = physical->device->primary == nullptr ? 0 : physical->device->primary->id;
  event.stream = 0xffffffffu;
  event.correlation = Correlation();
  TheHooks()->memory(event);
}

// Under the engine's lock.
void DropIfUnused(Physical* physical) {
  if (physical->references != 0 || physical->mappings != 0) return;
  close(physical->file);
  physical->magic = Magic::kDead;
  physical->device->used.fetch_sub(physical->bytes);
}

CUresult Check(const CUmemAllocationProp* prop, Device** device) {
  SIM_TRY(Usable());
  if (prop == nullptr || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  const int ordinal = prop->location.id;
  if (ordinal < 0 || static_cast<size_t>(ordinal) >= engine().devices.size()) return CUDA_ERROR_INVALID_DEVICE;
  *device = engine().devices[static_cast<size_t>(ordinal)];
  return CUDA_SUCCESS;
}

bool IsReserved(CUdeviceptr address, size_t bytes) {
  auto found = reserved.upper_bound(address);
  if (found == reserved.begin()) return false;
  --found;
  return address + bytes <= found->first + found->second;
}

}  // namespace

CUresult Driver::cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* prop,
                                               CUmemAllocationGranularity_flags option) {
  Device* device = nullptr;
  SIM_TRY(Check(prop, &device));
  *granularity = kGranularity;
  return CUDA_SUCCESS;
}

CUresult Driver::cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size, const CUmemAllocationProp* prop,
                             unsigned long long flags) {
  Device* device = nullptr;
  SIM_TRY(Check(prop, &device));
  if (handle == nullptr || size == 0 || size % kGranularity != 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (device->used.fetch_add(size) + size > device->description.memory_bytes) {
    device->used.fetch_sub(size);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const int file = memfd_create("simulated", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(size)) != 0) {
    if (file >= 0) close(file);
    device->used.fetch_sub(size);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const auto* physical = new Physical{Magic::kPhysical, file, size, *prop, device, 1, 0};
  *handle = reinterpret_cast<CUmemGenericAllocationHandle>(physical);
  Report(true, physical);
  return CUDA_SUCCESS;
}

CUresult Driver::cuMemRelease(CUmemGenericAllocationHandle handle) {
  SIM_TRY(Usable());
  Guard guard(engine().lock);
  Physical* physical = Of(handle);
  if (physical == nullptr || physical->references == 0) return CUDA_ERROR_INVALID_VALUE;
  if (--physical->references == 0) Report(false, physical);
  DropIfUnused(physical);
  return CUDA_SUCCESS;
}

CUresult Driver::cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* addr) {
  SIM_TRY(Usable());
  Guard guard(engine().lock);
  auto found = mapped.upper_bound(reinterpret_cast<CUdeviceptr>(addr));
  if (handle == nullptr || found == mapped.begin()) return CUDA_ERROR_INVALID_VALUE;
  --found;
  if (reinterpret_cast<CUdeviceptr>(addr) >= found->first + found->second.bytes) return CUDA_ERROR_INVALID_VALUE;
  ++found->second.physical->references;
  *handle = reinterpret_cast<CUmemGenericAllocationHandle>(found->second.physical);
  return CUDA_SUCCESS;
}

CUresult Driver::cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* prop,
                                                        CUmemGenericAllocationHandle handle) {
  SIM_TRY(Usable());
  const Physical* physical = Of(handle);
  if (prop == nullptr || physical == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *prop = physical->properties;
  return CUDA_SUCCESS;
}

CUresult Driver::cuMemAddressReserve(CUdeviceptr* ptr, size_t size, size_t alignment, CUdeviceptr addr,
                                     unsigned long long flags) {
  SIM_TRY(Usable());
  if (ptr == nullptr || size == 0 || size % kGranularity != 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  void* place = mmap(Pointer(addr), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *ptr = reinterpret_cast<CUdeviceptr>(place);
  Guard guard(engine().lock);
  reserved[*ptr] = size;
  return CUDA_SUCCESS;
}

CUresult Driver::cuMemAddressFree(CUdeviceptr ptr, size_t size) {
  SIM_TRY(Usable());
  Guard guard(engine().lock);
  const auto found = reserved.find(ptr);
  if (found == reserved.end() || found->second != size) return CUDA_ERROR_INVALID_VALUE;
  const auto inside = mapped.lower_bound(ptr);
  if (inside != mapped.end() && inside->first < ptr + size) return CUDA_ERROR_INVALID_VALUE;
  reserved.erase(found);
  munmap(Pointer(ptr), size);
  return CUDA_SUCCESS;
}

CUresult Driver::cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                          unsigned long long flags) {
  SIM_TRY(Usable());
  Guard guard(engine().lock);
  Physical* physical = Of(handle);
  if (physical == nullptr || physical->references == 0 || offset != 0 || size != physical->bytes || flags != 0 ||
      !IsReserved(ptr, size)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto after = mapped.lower_bound(ptr);
  if (after != mapped.end() && after->first < ptr + size) return CUDA_ERROR_INVALID_VALUE;
  if (mmap(Pointer(ptr), size, PROT_NONE, MAP_SHARED | MAP_FIXED, physical->file, 0) == MAP_FAILED) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  ++physical->mappings;
  mapped[ptr] = {size, physical};
  Allocation allocation{};
  allocation.bytes = allocation.mapped = size;
  allocation.kind = kDevice;
  allocation.device = physical->device->ordinal;
  engine().memory[ptr] = allocation;
  return CUDA_SUCCESS;
}

CUresult Driver::cuMemUnmap(CUdeviceptr ptr, size_t size) {
  SIM_TRY(Usable());
  Guard guard(engine().lock);
  const auto first = mapped.find(ptr);
  auto end = first;
  CUdeviceptr at = ptr;
  for (; end != mapped.end() && end->first == at && at < ptr + size; ++end) at += end->second.bytes;
  if (first == mapped.end() || at != ptr + size) return CUDA_ERROR_INVALID_VALUE;
  mmap(Pointer(ptr), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  for (auto it = first; it != end; it = mapped.erase(it)) {
    engine().memory.erase(it->first);
    --it->second.physical->mappings;
    DropIfUnused(it->second.physical);
  }
  return CUDA_SUCCESS;
}

CUresult Driver::cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc* desc, size_t count) {
  SIM_TRY(Usable());
  if (desc == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  Guard guard(engine().lock);
  CUdeviceptr at = ptr;
  for (auto it = mapped.find(ptr); it != mapped.end() && it->first == at && at < ptr + size; ++it) {
    at += it->second.bytes;
  }
  if (at != ptr + size) return CUDA_ERROR_INVALID_VALUE;
  const bool any = std::any_of(
      desc, desc + count, [](const CUmemAccessDesc& one) { return one.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE; });
  mprotect(Pointer(ptr), size, any ? PROT_READ | PROT_WRITE : PROT_NONE);
  return CUDA_SUCCESS;
}

}  // namespace tbprof::sim
