// SPDX-License-Identifier: Apache-2.0
// Rules: preload/RULES.md, with the exceptions in observer.h.
#include "cupti/work_records.h"

#include "cupti/kernel_names.h"
#include "cupti/observed_streams.h"

namespace tbprof::cupti {
namespace {

// Fills the members that records of all kinds of work have. Null: no room.
template <typename Record>
Record* BeginWorkRecord(ChunkWriter* writer, const CudaOperation& operation, const Context* context, uint64_t start,
                        uint64_t end, Reservation* reservation) {
  auto* record = BeginFor<Record>(writer, reservation);
  if (record == nullptr) return nullptr;
  record->start = start;
  record->end = end;
  record->correlation = operation.correlation;
  record->context = NumberOf(context);
  record->stream = StreamNumber(operation.stream);
  return record;
}

void RecordDevice(int device) {
  if (device < 0 || device >= 64 || (g_observer.recorded_devices & uint64_t{1} << device) != 0) return;
  const Driver& driver = g_observer.driver;
  char name[128] = {};
  if (driver.cuDeviceGetName != nullptr) driver.cuDeviceGetName(name, sizeof(name) - 1, device);
  const auto get = [&](int attribute) {
    int value = 0;
    return driver.cuDeviceGetAttribute != nullptr &&
                   driver.cuDeviceGetAttribute(&value, attribute, device) == kDriverSuccess && value > 0
               ? static_cast<uint32_t>(value)
               : 0;
  };
  const uint32_t length = TextLength(name, sizeof(name));
  Reservation reservation;
  if (!BeginRecord(g_observer.session.segment, g_observer.writer,
                   sizeof(GpuDeviceRecord) / kSlotBytes + SlotsFor(length), &reservation)) {
    return;
  }
  auto* record = reinterpret_cast<GpuDeviceRecord*>(reservation.slots);
  *record = {};
  if (driver.cuDeviceTotalMem_v2 != nullptr) driver.cuDeviceTotalMem_v2(&record->memory_bytes, device);
  if (driver.cuDeviceGetUuid_v2 != nullptr) driver.cuDeviceGetUuid_v2(record->uuid, device);
  record->core_clock_khz = get(kDeviceClock);
  record->memory_clock_khz = get(kDeviceMemoryClock);
  // Two transfers per clock cycle, as CUPTI calculates it.
  record->memory_bandwidth = uint64_t{2} * record->memory_clock_khz * get(kDeviceBusWidth) / 8;
  record->compute_major = static_cast<uint16_t>(get(kDeviceMajor));
  record->compute_minor = static_cast<uint16_t>(get(kDeviceMinor));
  record->multiprocessors = get(kDeviceProcessors);
  record->threads_per_warp = get(kDeviceWarp);
  if (record->threads_per_warp != 0) {
    record->warps_per_multiprocessor = get(kDeviceThreadsPerProcessor) / record->threads_per_warp;
  }
  record->blocks_per_multiprocessor = get(kDeviceBlocksPerProcessor);
  record->threads_per_block = get(kDeviceThreadsPerBlock);
  record->shared_bytes_per_multiprocessor = get(kDeviceSharedPerProcessor);
  record->registers_per_multiprocessor = get(kDeviceRegistersPerProcessor);
  record->shared_bytes_per_block = get(kDeviceSharedPerBlock);
  record->registers_per_block = get(kDeviceRegistersPerBlock);
  record->l2_bytes = get(kDeviceL2);
  record->name_length = length;
  record->pci_bus = static_cast<int32_t>(get(kDevicePciBus));
  record->pci_device = static_cast<int32_t>(get(kDevicePciDevice));
  record->pci_domain = static_cast<int32_t>(get(kDevicePciDomain));
  record->flags = get(kDeviceIntegrated) != 0 ? 2 : 0;
  record->visible_index = static_cast<uint32_t>(device);
  __builtin_memcpy(record + 1, name, length);
  Commit(g_observer.writer, reservation, RecordKind::kGpuDevice, static_cast<uint32_t>(device), 0);
  g_observer.recorded_devices |= uint64_t{1} << device;
}

}  // namespace

void RecordCall(ChunkWriter* writer, const CudaOperation& operation, uint64_t now, int result) {
  Reservation reservation;
  auto* record = BeginFor<GpuApiRecord>(writer, &reservation);
  if (record == nullptr) return;
  record->start = operation.start;
  record->duration_and_result = (now - operation.start) << 16 | static_cast<uint16_t>(result);
  record->correlation = operation.correlation;
  record->tid = writer->thread->tid;
  Commit(writer, reservation, RecordKind::kGpuApi, kFirstCall + static_cast<uint32_t>(operation.call),
         static_cast<uint8_t>(kRecordDriver | (result != kDriverSuccess ? kRecordFailed : 0)));
}

void RecordMemory(ChunkWriter* writer, const CudaOperation& operation, uint64_t now, const Context* context) {
  const bool release = operation.action != CudaAction::kAllocate;
  const uint64_t address = release ? operation.object : operation.result == nullptr ? 0 : *operation.result;
  if (address == 0) return;
  uint64_t bytes = operation.bytes;
  if (!release && operation.addresses[0] != 0) bytes *= *reinterpret_cast<const size_t*>(operation.addresses[0]);
  Reservation reservation;
  auto* record = BeginFor<GpuMemoryRecord>(writer, &reservation);
  if (record == nullptr) return;
  // A release counts from its start: another thread may receive the address before the call has returned.
  record->time = release ? operation.start : now;
  record->address = address;
  record->bytes = bytes;
  record->correlation = operation.correlation;
  record->context = NumberOf(context);
  record->stream = operation.has_stream ? StreamNumber(StreamKey(operation.stream)) : UINT32_MAX;
  record->operation = release ? GpuMemoryOperation::kRelease : GpuMemoryOperation::kAllocation;
  record->memory_kind = operation.type;
  record->asynchronous = operation.asynchronous;
  Commit(writer, reservation, RecordKind::kGpuMemory, operation.value > 0 ? operation.value - 1 : DeviceOf(context), 0);
}

void RecordWait(ChunkWriter* writer, const CudaOperation& operation, uint64_t now, const Context* context) {
  Reservation reservation;
  auto* record = BeginFor<GpuSpanRecord>(writer, &reservation);
  if (record == nullptr) return;
  record->start = operation.start;
  record->end = now;
  record->correlation = operation.correlation;
  record->context = NumberOf(context);
  record->stream = operation.has_stream ? StreamNumber(StreamKey(operation.stream)) : UINT32_MAX;
  record->span_kind = GpuSpanKind::kSynchronization;
  record->type = operation.type;
  record->object = static_cast<uint32_t>(operation.object);
  Commit(writer, reservation, RecordKind::kGpuSpan, 0, 0);
}

void RecordWork(ChunkWriter* writer, const CudaOperation& operation, const Context* context, uint32_t name,
                uint64_t start, uint64_t end) {
  const uint32_t device = DeviceOf(context);
  Reservation reservation;
  if (operation.action == CudaAction::kLaunch) {
    auto* record = BeginWorkRecord<GpuKernelRecord>(writer, operation, context, start, end, &reservation);
    if (record == nullptr) return;
    record->name = name;
    record->grid_x = operation.grid_x;
    record->grid_y = operation.grid_y;
    record->grid_z = operation.grid_z;
    record->block_x = operation.block_x;
    record->block_y = operation.block_y;
    record->block_z = operation.block_z;
    record->dynamic_shared_bytes = operation.shared_bytes;
    record->launch_type = operation.type;
    if (const Function* function = FunctionOf(operation.object); function != nullptr) {
      record->registers = static_cast<uint16_t>(function->registers);
      record->static_shared_bytes = static_cast<uint32_t>(function->shared);
      record->local_bytes = static_cast<uint32_t>(function->local);
    }
    return Commit(writer, reservation, RecordKind::kGpuKernel, device, kRecordApproximate);
  }
  if (operation.action == CudaAction::kGraph) {
    auto* record = BeginWorkRecord<GpuSpanRecord>(writer, operation, context, start, end, &reservation);
    if (record == nullptr) return;
    record->span_kind = GpuSpanKind::kGraph;
    record->object = static_cast<uint32_t>(operation.object >> 4);
    return Commit(writer, reservation, RecordKind::kGpuSpan, device, kRecordApproximate);
  }
  auto* record = BeginWorkRecord<GpuCopyRecord>(writer, operation, context, start, end, &reservation);
  if (record == nullptr) return;
  record->bytes = operation.bytes;
  record->value = operation.value;
  record->copy_kind = operation.action == CudaAction::kSet ? GpuCopyKind::kSet : operation.copy_kind;
  record->asynchronous = operation.asynchronous;
  Commit(writer, reservation, RecordKind::kGpuCopy, device, kRecordApproximate);
}

void RecordContext(Context* context) {
  if (context->is_recorded) return;
  RecordDevice(context->device);
  Reservation reservation;
  auto* record = BeginFor<GpuContextRecord>(g_observer.writer, &reservation);
  if (record == nullptr) return;
  record->context = NumberOf(context);
  record->stream = static_cast<uint32_t>(kCudaLegacyStream);
  Commit(g_observer.writer, reservation, RecordKind::kGpuContext, static_cast<uint32_t>(context->device), 0);
  context->is_recorded = true;
}

}  // namespace tbprof::cupti
