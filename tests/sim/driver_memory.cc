// SPDX-License-Identifier: Apache-2.0
//
// Driver calls on memory: allocation, pointers, copies, sets.
#include <string.h>

#include <algorithm>

#include "tests/sim/driver.h"

namespace tbprof::sim {
namespace {

constexpr uint8_t kPageable = 1, kPinned = 2, kDevice = 3, kManaged = 5;   // CUpti_ActivityMemoryKind
constexpr uint8_t kHtoD = 1, kDtoH = 2, kDtoD = 8, kHtoH = 9, kPtoP = 10;  // CUpti_ActivityMemcpyKind
constexpr size_t kPitchAlignment = 512;

void* Pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }
CUdeviceptr Address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

void ReportMemory(bool allocation, CUcontext context, const void* address, size_t bytes, uint8_t kind,
                  bool asynchronous, uint32_t stream) {
  if (!Wants(kWantsMemory) || TheHooks() == nullptr) return;
  MemoryEvent event{};
  event.allocation = allocation;
  event.kind = kind;
  event.asynchronous = asynchronous;
  event.pool = asynchronous;
  event.address = Address(address);
  event.bytes = bytes;
  event.pool_size = asynchronous ? context->device->pool->used.load() : 0;
  event.time = Now();
  event.device = static_cast<uint32_t>(context->device->ordinal);
  event.context = context->id;
  event.stream = stream;
  event.correlation = Correlation();
  TheHooks()->memory(event);
}

// A capture in global mode, on any thread, forbids what would synchronise.
CUresult RefuseWhileCapturing(CUcontext context) {
  if (context->captures.load() != 0 && thread_state().capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL) {
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return CUDA_SUCCESS;
}

CUresult AllocateHere(void** out, size_t bytes, uint8_t kind, unsigned flags) {
  CUcontext context = nullptr;
  SIM_TRY(CurrentContext(&context));
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY(RefuseWhileCapturing(context));
  SIM_TRY(Allocate(context, bytes, kind, flags, false, out));
  ReportMemory(true, context, *out, bytes, kind, false, 0xffffffffu);
  return CUDA_SUCCESS;
}

CUresult FreeHere(void* address, bool device_side) {
  CUcontext context = nullptr;
  SIM_TRY(CurrentContext(&context));
  if (address == nullptr) return CUDA_SUCCESS;
  uintptr_t base = 0;
  Allocation allocation{};
  if (!FindAllocation(address, &base, &allocation) || base != reinterpret_cast<uintptr_t>(address) ||
      allocation.context == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // The memory may be in use by work that is under way.
  SIM_TRY(SynchronizeContext(allocation.context));
  SIM_TRY(Free(address, device_side));
  ReportMemory(false, context, address, allocation.bytes, allocation.kind, allocation.asynchronous, 0xffffffffu);
  return CUDA_SUCCESS;
}

struct Side {
  uint8_t kind = kPageable;
  uint32_t device = 0;
  uint32_t context = 0;
};

// The memory behind `bytes` from this address; an error when an allocation ends before them.
CUresult Classify(const void* address, size_t bytes, bool must_be_device, Side* out) {
  uintptr_t base = 0;
  Allocation allocation{};
  if (!FindAllocation(address, &base, &allocation)) {
    return must_be_device ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  }
  if (reinterpret_cast<uintptr_t>(address) + bytes > base + allocation.bytes) return CUDA_ERROR_INVALID_VALUE;
  out->kind = allocation.kind;
  out->device = static_cast<uint32_t>(allocation.device);
  out->context = allocation.context == nullptr ? 0 : allocation.context->id;
  return CUDA_SUCCESS;
}

bool OnDevice(uint8_t kind) { return kind == kDevice || kind == kManaged; }

enum class Must { kAny, kOnDevice };

CUresult MakeCopy(const Copy& copy, Must destination, Must source, Op* out) {
  const size_t destination_bytes =
      copy.depth <= 1 && copy.height <= 1
          ? copy.width
          : (copy.depth - 1) * copy.destination_slice + (copy.height - 1) * copy.destination_pitch + copy.width;
  const size_t source_bytes =
      copy.depth <= 1 && copy.height <= 1
          ? copy.width
          : (copy.depth - 1) * copy.source_slice + (copy.height - 1) * copy.source_pitch + copy.width;
  Side to, from;
  SIM_TRY(Classify(copy.destination, destination_bytes, destination == Must::kOnDevice, &to));
  SIM_TRY(Classify(copy.source, source_bytes, source == Must::kOnDevice, &from));
  *out = NewOp(WorkKind::kMemcpy);
  auto& described = out->work.copy;
  described.bytes = copy.width * copy.height * copy.depth;
  described.count = 1;
  described.source = from.kind;
  described.destination = to.kind;
  described.source_device = from.device;
  described.source_context = from.context;
  described.destination_device = to.device;
  described.destination_context = to.context;
  if (OnDevice(to.kind) && OnDevice(from.kind)) {
    described.kind = to.device == from.device ? kDtoD : kPtoP;
  } else if (OnDevice(to.kind)) {
    described.kind = kHtoD;
  } else {
    described.kind = OnDevice(from.kind) ? kDtoH : kHtoH;
  }
  out->copy = copy;
  out->duration = CopyDuration(out->work, from.kind == kPageable || to.kind == kPageable);
  return CUDA_SUCCESS;
}

CUresult SubmitCopy(const Copy& copy, Must destination, Must source, CUstream handle, bool asynchronous) {
  CUstream stream = nullptr;
  SIM_TRY(FindStream(handle, &stream));
  if (copy.width == 0 || copy.height == 0 || copy.depth == 0) return CUDA_SUCCESS;
  if (copy.destination == nullptr || copy.source == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!asynchronous && stream->capture.load() != nullptr) {
    stream->capture.load()->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  Op op;
  SIM_TRY(MakeCopy(copy, destination, source, &op));
  op.work.copy.asynchronous = asynchronous;
  const bool wait = !asynchronous && op.work.copy.kind != kDtoD;
  SIM_TRY(Submit(stream, op));
  return wait ? SynchronizeStream(stream) : CUDA_SUCCESS;
}

Copy Flat(const void* destination, const void* source, size_t bytes) {
  return {
      static_cast<char*>(const_cast<void*>(destination)), static_cast<const char*>(source), bytes, 1, 1, 0, 0, 0, 0};
}

CUresult FromParameters(const CUDA_MEMCPY3D& p, Copy* out, Must* destination, Must* source) {
  if (p.srcMemoryType == CU_MEMORYTYPE_ARRAY || p.dstMemoryType == CU_MEMORYTYPE_ARRAY) return CUDA_ERROR_NOT_SUPPORTED;
  const char* from = p.srcMemoryType == CU_MEMORYTYPE_HOST ? static_cast<const char*>(p.srcHost)
                                                           : static_cast<const char*>(Pointer(p.srcDevice));
  char* to =
      p.dstMemoryType == CU_MEMORYTYPE_HOST ? static_cast<char*>(p.dstHost) : static_cast<char*>(Pointer(p.dstDevice));
  const size_t source_pitch = p.srcPitch != 0 ? p.srcPitch : p.WidthInBytes;
  const size_t destination_pitch = p.dstPitch != 0 ? p.dstPitch : p.WidthInBytes;
  const size_t source_slice = source_pitch * (p.srcHeight != 0 ? p.srcHeight : p.Height);
  const size_t destination_slice = destination_pitch * (p.dstHeight != 0 ? p.dstHeight : p.Height);
  if (p.WidthInBytes > source_pitch || p.WidthInBytes > destination_pitch) return CUDA_ERROR_INVALID_VALUE;
  *out = {to + p.dstXInBytes + p.dstY * destination_pitch + p.dstZ * destination_slice,
          from + p.srcXInBytes + p.srcY * source_pitch + p.srcZ * source_slice,
          p.WidthInBytes,
          p.Height,
          p.Depth,
          destination_pitch,
          source_pitch,
          destination_slice,
          source_slice};
  *destination = p.dstMemoryType == CU_MEMORYTYPE_DEVICE ? Must::kOnDevice : Must::kAny;
  *source = p.srcMemoryType == CU_MEMORYTYPE_DEVICE ? Must::kOnDevice : Must::kAny;
  return CUDA_SUCCESS;
}

// What a batch comes to: a record for each kind of copy in it. Into how many CUPTI divides one is its own business
// ("based on certain heuristics").
CUresult SubmitBatch(const std::vector<Copy>& copies, CUstream handle) {
  CUstream stream = nullptr;
  SIM_TRY(FindStream(handle, &stream));
  if (copies.empty() || stream->legacy || stream->per_thread) return CUDA_ERROR_INVALID_VALUE;
  if (stream->capture.load() != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  std::map<uint8_t, std::pair<Op, std::vector<Copy>>> by_kind;
  for (const Copy& copy : copies) {
    if (copy.width == 0 || copy.height == 0 || copy.depth == 0 || copy.destination == nullptr ||
        copy.source == nullptr) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    Op op;
    SIM_TRY(MakeCopy(copy, Must::kAny, Must::kAny, &op));
    const auto [found, added] = by_kind.try_emplace(op.work.copy.kind, op, std::vector<Copy>{});
    Op& all = found->second.first;
    found->second.second.push_back(copy);
    all.work.copy.asynchronous = true;
    if (added) continue;
    all.work.copy.bytes += op.work.copy.bytes;
    ++all.work.copy.count;
    all.duration += op.duration;
  }
  for (auto& [kind, work] : by_kind) {
    auto& [op, parts] = work;
    // It lives as long as the work, which is not waited for.
    if (parts.size() > 1) op.batch.parts = (new std::vector<Copy>(std::move(parts)))->data();
    SIM_TRY(Submit(stream, op));
  }
  return CUDA_SUCCESS;
}

CUresult FromBatch(size_t count, const CUDA_MEMCPY3D_BATCH_OP* list, std::vector<Copy>* out) {
  if (list == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    const CUDA_MEMCPY3D_BATCH_OP& one = list[i];
    if (one.src.type != CU_MEMCPY_OPERAND_TYPE_POINTER || one.dst.type != CU_MEMCPY_OPERAND_TYPE_POINTER) {
      return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (one.srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_INVALID) return CUDA_ERROR_INVALID_VALUE;
    const auto &to = one.dst.op.ptr, &from = one.src.op.ptr;
    const CUextent3D& extent = one.extent;
    const size_t to_pitch = to.rowLength != 0 ? to.rowLength : extent.width;
    const size_t from_pitch = from.rowLength != 0 ? from.rowLength : extent.width;
    const size_t to_height = to.layerHeight != 0 ? to.layerHeight : extent.height;
    const size_t from_height = from.layerHeight != 0 ? from.layerHeight : extent.height;
    if (to_pitch < extent.width || from_pitch < extent.width || to_height < extent.height ||
        from_height < extent.height) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    out->push_back({static_cast<char*>(Pointer(to.ptr)), static_cast<const char*>(Pointer(from.ptr)), extent.width,
                    extent.height, extent.depth, to_pitch, from_pitch, to_pitch * to_height, from_pitch * from_height});
  }
  return CUDA_SUCCESS;
}

CUDA_MEMCPY3D Widen(const CUDA_MEMCPY2D& p) {
  CUDA_MEMCPY3D wide{};
  wide.srcXInBytes = p.srcXInBytes;
  wide.srcY = p.srcY;
  wide.srcMemoryType = p.srcMemoryType;
  wide.srcHost = p.srcHost;
  wide.srcDevice = p.srcDevice;
  wide.srcPitch = p.srcPitch;
  wide.dstXInBytes = p.dstXInBytes;
  wide.dstY = p.dstY;
  wide.dstMemoryType = p.dstMemoryType;
  wide.dstHost = p.dstHost;
  wide.dstDevice = p.dstDevice;
  wide.dstPitch = p.dstPitch;
  wide.WidthInBytes = p.WidthInBytes;
  wide.Height = p.Height;
  wide.Depth = 1;
  return wide;
}

CUresult Copy3D(const CUDA_MEMCPY3D& parameters, CUstream stream, bool asynchronous) {
  Copy copy;
  Must destination, source;
  SIM_TRY(FromParameters(parameters, &copy, &destination, &source));
  return SubmitCopy(copy, destination, source, stream, asynchronous);
}

// Managed memory that a device or the host touches comes to it: a fault for each 64 KiB, then the pages.
constexpr uint64_t kFaultBytes = 64 << 10;
constexpr int64_t kFaultNs = 20000;

void MoveManaged(CUdeviceptr address, size_t bytes, int device, uint64_t instruction, bool fault) {
  int source = -1;
  {
    Guard guard(engine().lock);
    auto found = engine().memory.upper_bound(address);
    if (found == engine().memory.begin()) return;
    Allocation& allocation = std::prev(found)->second;
    if (allocation.kind != kManaged || allocation.resident == device) return;
    source = allocation.resident;
    allocation.resident = device;
  }
  if (!fault || !Wants(kWantsUnifiedMemory) || TheHooks() == nullptr) return;
  constexpr uint32_t kToDevice = 1, kToHost = 2, kHostFault = 3, kDeviceFault = 4, kWrite = 2, kCoherence = 2;
  UnifiedEvent event{};
  event.start = Now();
  for (uint64_t at = 0; at < bytes; at += kFaultBytes) {
    event.counter = device < 0 ? kHostFault : kDeviceFault;
    event.flags = kWrite;
    event.value = device < 0 ? instruction : 2;
    event.address = address + at;
    event.end = device < 0 ? 0 : event.start + kFaultNs;
    event.source = device;
    event.destination = -1;
    TheHooks()->unified(event);
    event.start += kFaultNs;
  }
  event.counter = device < 0 ? kToHost : kToDevice;
  event.flags = kCoherence;
  event.value = bytes;
  event.address = address;
  event.end = event.start + static_cast<int64_t>(bytes / 16);
  event.source = source;
  event.destination = device;
  TheHooks()->unified(event);
}

CUresult Set(CUdeviceptr address, uint32_t value, uint32_t element, size_t width, size_t height, size_t pitch,
             CUstream handle, bool asynchronous) {
  CUstream stream = nullptr;
  SIM_TRY(FindStream(handle, &stream));
  if (width == 0 || height == 0) return CUDA_SUCCESS;
  Side side;
  SIM_TRY(Classify(Pointer(address), (height - 1) * pitch + width * element, true, &side));
  Op op = NewOp(WorkKind::kMemset);
  op.work.set.bytes = static_cast<uint64_t>(width) * height * element;
  op.work.set.value = value;
  op.work.set.memory = side.kind;
  op.work.set.asynchronous = asynchronous;
  op.set.destination = static_cast<char*>(Pointer(address));
  op.set.width = width;
  op.set.height = height;
  op.set.pitch = pitch;
  op.set.element = element;
  if (side.kind == kManaged) {
    MoveManaged(address, static_cast<size_t>(op.work.set.bytes), stream->context->device->ordinal, 0, true);
  }
  return Submit(stream, op);
}

enum class PoolOperation : uint8_t { kCreated = 1, kDestroyed = 2, kTrimmed = 3 };

void ReportPool(PoolOperation operation, CUmemoryPool pool, size_t keep) {
  if (!Wants(kWantsMemory) || TheHooks() == nullptr) return;
  MemoryEvent event{};
  event.pool_operation = static_cast<uint8_t>(operation);
  event.address = Address(pool);
  event.bytes = keep;
  event.pool_size = pool->used.load();
  event.time = Now();
  event.device = static_cast<uint32_t>(pool->device->ordinal);
  event.correlation = Correlation();
  TheHooks()->memory(event);
}

CUresult AllocateInOrder(CUdeviceptr* out, size_t bytes, CUstream handle) {
  CUstream stream = nullptr;
  SIM_TRY(FindStream(handle, &stream));
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (stream->capture.load() != nullptr) return CUDA_ERROR_NOT_SUPPORTED;  // memory nodes are not simulated
  void* address = nullptr;
  SIM_TRY(Allocate(stream->context, bytes, kDevice, 0, true, &address));
  *out = Address(address);
  ReportMemory(true, stream->context, address, bytes, kDevice, true, stream->id);
  return CUDA_SUCCESS;
}

}  // namespace

// ---- allocation

CUresult Driver::cuMemGetInfo_v2(size_t* free, size_t* total) {
  CUcontext context = nullptr;
  SIM_TRY(CurrentContext(&context));
  const size_t all = context->device->description.memory_bytes;
  const size_t used = std::min(all, context->device->used.load() + (size_t{600} << 20));
  *free = all - used;
  *total = all;
  return CUDA_SUCCESS;
}

CUresult Driver::cuMemAlloc_v2(CUdeviceptr* dptr, size_t bytesize) {
  void* address = nullptr;
  if (dptr == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY(AllocateHere(&address, bytesize, kDevice, 0));
  *dptr = Address(address);
  return CUDA_SUCCESS;
}

CUresult Driver::cuMemAllocPitch_v2(CUdeviceptr* dptr, size_t* pPitch, size_t WidthInBytes, size_t Height,
                                    unsigned int ElementSizeBytes) {
  const size_t pitch = (WidthInBytes + kPitchAlignment - 1) / kPitchAlignment * kPitchAlignment;
  SIM_TRY(cuMemAlloc_v2(dptr, pitch * Height));
  *pPitch = pitch;
  return CUDA_SUCCESS;
}

CUresult Driver::cuMemFree_v2(CUdeviceptr dptr) { return FreeHere(Pointer(dptr), true); }

CUresult Driver::cuMemGetAddressRange_v2(CUdeviceptr* pbase, size_t* psize, CUdeviceptr dptr) {
  CUcontext context = nullptr;
  SIM_TRY(CurrentContext(&context));
  uintptr_t base = 0;
  Allocation allocation{};
  if (!FindAllocation(Pointer(dptr), &base, &allocation)) return CUDA_ERROR_NOT_FOUND;
  if (pbase != nullptr) *pbase = base;
  if (psize != nullptr) *psize = allocation.bytes;
  return CUDA_SUCCESS;
}

CUresult Driver::cuMemAllocHost_v2(void** pp, size_t bytesize) { return AllocateHere(pp, bytesize, kPinned, 0); }
CUresult Driver::cuMemFreeHost(void* p) { return FreeHere(p, false); }
CUresult Driver::cuMemHostAlloc(void** pp, size_t bytesize, unsigned int Flags) {
  return AllocateHere(pp, bytesize, kPinned, Flags);
}

CUresult Driver::cuMemHostGetDevicePointer_v2(CUdeviceptr* pdptr, void* p, unsigned int Flags) {
  CUcontext context = nullptr;
  SIM_TRY(CurrentContext(&context));
  if (!FindAllocation(p, nullptr, nullptr)) return CUDA_ERROR_INVALID_VALUE;
  *pdptr = Address(p);
  return CUDA_SUCCESS;
}

CUresult Driver::cuMemHostGetFlags(unsigned int* pFlags, void* p) {
  CUcontext context = nullptr;
  SIM_TRY(CurrentContext(&context));
  Allocation allocation{};
  if (!FindAllocation(p, nullptr, &allocation) || allocation.kind != kPinned) return CUDA_ERROR_INVALID_VALUE;
  *pFlags = allocation.flags;
  return CUDA_SUCCESS;
}

CUresult Driver::cuMemHostRegister_v2(void* p, size_t bytesize, unsigned int Flags) {
  CUcontext context = nullptr;
  SIM_TRY(CurrentContext(&context));
  if (p == nullptr || bytesize == 0) return CUDA_ERROR_INVALID_VALUE;
  if (FindAllocation(p, nullptr, nullptr)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  Guard guard(engine().lock);
  engine().memory[reinterpret_cast<uintptr_t>(p)] = {bytesize, bytesize, kPinned, true,
                                                     false,    Flags,    context, context->device->ordinal};
  return CUDA_SUCCESS;
}

CUresult Driver::cuMemHostUnregister(void* p) {
  CUcontext context = nullptr;
  SIM_TRY(CurrentContext(&context));
  Guard guard(engine().lock);
  const auto found = engine().memory.find(reinterpret_cast<uintptr_t>(p));
  if (found == engine().memory.end() || !found->second.registered) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  engine().memory.erase(found);
  return CUDA_SUCCESS;
}

CUresult Driver::cuMemAllocManaged(CUdeviceptr* dptr, size_t bytesize, unsigned int flags) {
  if (dptr == nullptr || (flags & ~3u) != 0 || flags == 0) return CUDA_ERROR_INVALID_VALUE;
  void* address = nullptr;
  SIM_TRY(AllocateHere(&address, bytesize, kManaged, flags));
  *dptr = Address(address);
  return CUDA_SUCCESS;
}

// ---- pointers

CUresult Driver::cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr ptr) {
  SIM_TRY(Usable());
  if (data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  uintptr_t base = 0;
  Allocation allocation{};
  if (!FindAllocation(Pointer(ptr), &base, &allocation)) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *static_cast<CUcontext*>(data) = allocation.context;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(data) = OnDevice(allocation.kind) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER && allocation.kind == kDevice) return CUDA_ERROR_INVALID_VALUE;
      *static_cast<CUdeviceptr*>(data) = ptr;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<bool*>(data) = allocation.kind == kManaged;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(data) = allocation.device;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<CUdeviceptr*>(data) = base;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<size_t*>(data) = allocation.bytes;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      *static_cast<unsigned long long*>(data) = base;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
      *static_cast<bool*>(data) = true;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

// Unknown addresses are no error here: every answer is null.
CUresult Driver::cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute* attributes, void** data,
                                        CUdeviceptr ptr) {
  SIM_TRY(Usable());
  for (unsigned i = 0; i < numAttributes; ++i) {
    const CUresult result = cuPointerGetAttribute(data[i], attributes[i], ptr);
    if (result == CUDA_SUCCESS) continue;
    if (result != CUDA_ERROR_INVALID_VALUE) return result;
    switch (attributes[i]) {
      case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      case CU_POINTER_ATTRIBUTE_MAPPED:
        *static_cast<bool*>(data[i]) = false;
        break;
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *static_cast<unsigned*>(data[i]) = 0;
        break;
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *static_cast<int*>(data[i]) = -2;
        break;
      default:
        memset(data[i], 0, sizeof(void*));
        break;
    }
  }
  return CUDA_SUCCESS;
}

CUresult Driver::cuPointerSetAttribute(const void* value, CUpointer_attribute attribute, CUdeviceptr ptr) {
  SIM_TRY(Usable());
  if (!FindAllocation(Pointer(ptr), nullptr, nullptr)) return CUDA_ERROR_INVALID_VALUE;
  return attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

// Managed pages lie in host memory here: nothing moves, but it takes its time.
CUresult Driver::cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned int flags,
                                       CUstream hStream) {
  CUstream stream = nullptr;
  SIM_TRY(FindStream(hStream, &stream));
  Side side;
  SIM_TRY(Classify(Pointer(devPtr), count, true, &side));
  if (side.kind != kManaged) return CUDA_ERROR_INVALID_VALUE;
  Op op = NewOp(WorkKind::kPrefetch);
  op.work.copy.bytes = count;
  op.work.copy.kind = location.type == CU_MEM_LOCATION_TYPE_DEVICE ? kHtoD : kDtoH;
  op.work.copy.count = devPtr;
  op.duration = CopyDuration(op.work, false);
  MoveManaged(devPtr, count, op.work.copy.kind == kHtoD ? location.id : -1, 0, false);
  return Submit(stream, op);
}

CUresult Driver::cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location) {
  SIM_TRY(Usable());
  Side side;
  SIM_TRY(Classify(Pointer(devPtr), count, true, &side));
  return side.kind == kManaged ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// ---- copies

CUresult Driver::cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) {
  return SubmitCopy(Flat(Pointer(dst), Pointer(src), ByteCount), Must::kAny, Must::kAny, nullptr, false);
}

CUresult Driver::cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
                              size_t ByteCount) {
  return SubmitCopy(Flat(Pointer(dstDevice), Pointer(srcDevice), ByteCount), Must::kOnDevice, Must::kOnDevice, nullptr,
                    false);
}

CUresult Driver::cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount) {
  return SubmitCopy(Flat(Pointer(dstDevice), srcHost, ByteCount), Must::kOnDevice, Must::kAny, nullptr, false);
}

CUresult Driver::cuMemcpyDtoH_v2(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount) {
  return SubmitCopy(Flat(dstHost, Pointer(srcDevice), ByteCount), Must::kAny, Must::kOnDevice, nullptr, false);
}

CUresult Driver::cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount) {
  return SubmitCopy(Flat(Pointer(dstDevice), Pointer(srcDevice), ByteCount), Must::kOnDevice, Must::kOnDevice, nullptr,
                    false);
}

CUresult Driver::cuMemcpy2D_v2(const CUDA_MEMCPY2D* pCopy) { return Copy3D(Widen(*pCopy), nullptr, false); }
CUresult Driver::cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* pCopy) { return Copy3D(Widen(*pCopy), nullptr, false); }
CUresult Driver::cuMemcpy3D_v2(const CUDA_MEMCPY3D* pCopy) { return Copy3D(*pCopy, nullptr, false); }

CUresult Driver::cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream) {
  return SubmitCopy(Flat(Pointer(dst), Pointer(src), ByteCount), Must::kAny, Must::kAny, hStream, true);
}

CUresult Driver::cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                                   CUcontext srcContext, size_t ByteCount, CUstream hStream) {
  return SubmitCopy(Flat(Pointer(dstDevice), Pointer(srcDevice), ByteCount), Must::kOnDevice, Must::kOnDevice, hStream,
                    true);
}

CUresult Driver::cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount, CUstream hStream) {
  return SubmitCopy(Flat(Pointer(dstDevice), srcHost, ByteCount), Must::kOnDevice, Must::kAny, hStream, true);
}

CUresult Driver::cuMemcpyDtoHAsync_v2(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream) {
  return SubmitCopy(Flat(dstHost, Pointer(srcDevice), ByteCount), Must::kAny, Must::kOnDevice, hStream, true);
}

CUresult Driver::cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount,
                                      CUstream hStream) {
  return SubmitCopy(Flat(Pointer(dstDevice), Pointer(srcDevice), ByteCount), Must::kOnDevice, Must::kOnDevice, hStream,
                    true);
}

CUresult Driver::cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* pCopy, CUstream hStream) {
  return Copy3D(Widen(*pCopy), hStream, true);
}
CUresult Driver::cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* pCopy, CUstream hStream) {
  return Copy3D(*pCopy, hStream, true);
}

// The address decides whose memory it is.
static CUresult PeerCopy(const CUDA_MEMCPY3D_PEER* copy, CUstream stream, bool asynchronous) {
  static_assert(sizeof(CUDA_MEMCPY3D_PEER) == sizeof(CUDA_MEMCPY3D));
  if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_MEMCPY3D same;
  memcpy(&same, copy, sizeof(same));
  return Copy3D(same, stream, asynchronous);
}

CUresult Driver::cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* pCopy) { return PeerCopy(pCopy, nullptr, false); }
CUresult Driver::cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* pCopy, CUstream hStream) {
  return PeerCopy(pCopy, hStream, true);
}

CUresult Driver::cuMemcpyBatchAsync_v2(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                                       CUmemcpyAttributes* attrs, size_t* attrsIdxs, size_t numAttrs,
                                       CUstream hStream) {
  if (dsts == nullptr || srcs == nullptr || sizes == nullptr || attrs == nullptr || numAttrs == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::vector<Copy> copies;
  for (size_t i = 0; i < count; ++i) copies.push_back(Flat(Pointer(dsts[i]), Pointer(srcs[i]), sizes[i]));
  return SubmitBatch(copies, hStream);
}

CUresult Driver::cuMemcpyBatchAsync(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                                    CUmemcpyAttributes* attrs, size_t* attrsIdxs, size_t numAttrs, size_t* failIdx,
                                    CUstream hStream) {
  const CUresult result = cuMemcpyBatchAsync_v2(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, hStream);
  if (result != CUDA_SUCCESS && failIdx != nullptr) *failIdx = SIZE_MAX;  // none in particular
  return result;
}

CUresult Driver::cuMemcpy3DBatchAsync_v2(size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList, unsigned long long flags,
                                         CUstream hStream) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  std::vector<Copy> copies;
  SIM_TRY(FromBatch(numOps, opList, &copies));
  return SubmitBatch(copies, hStream);
}

CUresult Driver::cuMemcpy3DBatchAsync(size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList, size_t* failIdx,
                                      unsigned long long flags, CUstream hStream) {
  const CUresult result = cuMemcpy3DBatchAsync_v2(numOps, opList, flags, hStream);
  if (result != CUDA_SUCCESS && failIdx != nullptr) *failIdx = SIZE_MAX;  // none in particular
  return result;
}

// ---- sets

CUresult Driver::cuMemsetD8_v2(CUdeviceptr dstDevice, unsigned char uc, size_t N) {
  return Set(dstDevice, uc, 1, N, 1, 0, nullptr, false);
}
CUresult Driver::cuMemsetD16_v2(CUdeviceptr dstDevice, unsigned short us, size_t N) {
  return Set(dstDevice, us, 2, N, 1, 0, nullptr, false);
}
CUresult Driver::cuMemsetD32_v2(CUdeviceptr dstDevice, unsigned int ui, size_t N) {
  return Set(dstDevice, ui, 4, N, 1, 0, nullptr, false);
}
CUresult Driver::cuMemsetD2D8_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width,
                                 size_t Height) {
  return Set(dstDevice, uc, 1, Width, Height, dstPitch, nullptr, false);
}
CUresult Driver::cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream) {
  return Set(dstDevice, uc, 1, N, 1, 0, hStream, true);
}
CUresult Driver::cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream) {
  return Set(dstDevice, us, 2, N, 1, 0, hStream, true);
}
CUresult Driver::cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream) {
  return Set(dstDevice, ui, 4, N, 1, 0, hStream, true);
}
CUresult Driver::cuMemsetD2D8Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width,
                                   size_t Height, CUstream hStream) {
  return Set(dstDevice, uc, 1, Width, Height, dstPitch, hStream, true);
}

// ---- memory pools

CUresult Driver::cuMemAllocAsync(CUdeviceptr* dptr, size_t bytesize, CUstream hStream) {
  return AllocateInOrder(dptr, bytesize, hStream);
}

CUresult Driver::cuMemAllocFromPoolAsync(CUdeviceptr* dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream) {
  if (!Valid(pool, Magic::kPool)) return CUDA_ERROR_INVALID_VALUE;
  return AllocateInOrder(dptr, bytesize, hStream);
}

CUresult Driver::cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream) {
  CUstream stream = nullptr;
  SIM_TRY(FindStream(hStream, &stream));
  if (dptr == 0) return CUDA_SUCCESS;
  uintptr_t base = 0;
  Allocation allocation{};
  if (!FindAllocation(Pointer(dptr), &base, &allocation) || base != dptr || allocation.kind != kDevice ||
      allocation.context == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Op op = NewOp(WorkKind::kFree);
  op.free = Pointer(dptr);
  SIM_TRY(Submit(stream, op));
  ReportMemory(false, stream->context, Pointer(dptr), allocation.bytes, kDevice, true, stream->id);
  return CUDA_SUCCESS;
}

CUresult Driver::cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* poolProps) {
  SIM_TRY(Usable());
  if (pool == nullptr || poolProps == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (poolProps->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  const int ordinal = poolProps->location.id;
  if (ordinal < 0 || static_cast<size_t>(ordinal) >= engine().devices.size()) return CUDA_ERROR_INVALID_DEVICE;
  *pool = NewPool(engine().devices[static_cast<size_t>(ordinal)]);
  ReportPool(PoolOperation::kCreated, *pool, 0);
  return CUDA_SUCCESS;
}

CUresult Driver::cuMemPoolDestroy(CUmemoryPool pool) {
  SIM_TRY(Usable());
  if (!Valid(pool, Magic::kPool) || pool == pool->device->default_pool) return CUDA_ERROR_INVALID_VALUE;
  if (pool->device->pool == pool) pool->device->pool = pool->device->default_pool;
  ReportPool(PoolOperation::kDestroyed, pool, 0);
  pool->magic = Magic::kDead;
  return CUDA_SUCCESS;
}

CUresult Driver::cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep) {
  SIM_TRY(Usable());
  if (!Valid(pool, Magic::kPool)) return CUDA_ERROR_INVALID_VALUE;
  ReportPool(PoolOperation::kTrimmed, pool, minBytesToKeep);
  return CUDA_SUCCESS;
}

CUresult Driver::cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  SIM_TRY(Usable());
  if (!Valid(pool, Magic::kPool) || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      pool->attributes[attr] = static_cast<uint64_t>(*static_cast<int*>(value));
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      pool->attributes[attr] = *static_cast<cuuint64_t*>(value);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      if (*static_cast<cuuint64_t*>(value) != 0) return CUDA_ERROR_INVALID_VALUE;
      pool->high.store(pool->used.load());
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

CUresult Driver::cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  SIM_TRY(Usable());
  if (!Valid(pool, Magic::kPool) || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: {
      const auto found = pool->attributes.find(attr);
      *static_cast<int*>(value) = found == pool->attributes.end() ? 1 : static_cast<int>(found->second);
      return CUDA_SUCCESS;
    }
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      *static_cast<cuuint64_t*>(value) = pool->attributes[attr];
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      *static_cast<cuuint64_t*>(value) = pool->used.load();
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      *static_cast<cuuint64_t*>(value) = pool->high.load();
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

CUresult Driver::cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* map, size_t count) {
  SIM_TRY(Usable());
  return Valid(pool, Magic::kPool) && map != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace tbprof::sim

// The simulator's own: pages do not move here, so the program reports what it does with its managed memory. The caller
// is the code that faults.
extern "C" __attribute__((visibility("default"), noinline)) void cuSimTouchFromHost(CUdeviceptr address, size_t bytes) {
  tbprof::sim::MoveManaged(address, bytes, -1, reinterpret_cast<uintptr_t>(__builtin_return_address(0)), true);
}
