// SPDX-License-Identifier: Apache-2.0
// Rules: preload/RULES.md.
#include "cupti/decode.h"

#include "cupti/name_record.h"
#include "cupti/text.h"

namespace tbprof::cupti {
namespace {

uint16_t Narrow(int64_t value) {
  return static_cast<uint16_t>(value < 0 ? 0 : value > UINT16_MAX ? UINT16_MAX : value);
}

uint64_t Mix(uint64_t hash, uint64_t word) {
  hash ^= word;
  hash *= 0x9e3779b97f4a7c15;
  return hash ^ hash >> 29;
}

uint64_t HashText(const char* text, uint32_t* length) {
  uint64_t hash = 0x2545f4914f6cdd1d;
  uint32_t at = 0;
  uint64_t word = 0;
  for (;; ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte == '\0') break;
    word |= static_cast<uint64_t>(byte) << (at % 8 * 8);
    if (at % 8 == 7) {
      hash = Mix(hash, word);
      word = 0;
    }
  }
  *length = at;
  hash = Mix(hash, word ^ static_cast<uint64_t>(at) << 56);
  return hash == 0 ? 1 : hash;
}

constexpr char kUnnamed[] = "(no name)";
constexpr char kTooMany[] = "(too many names)";

}  // namespace

uint32_t NameTable::Find(const char* text, uint32_t* length, bool* is_new) {
  *is_new = false;
  Address* const known = &addresses_[(reinterpret_cast<uintptr_t>(text) >> 3) % kAddresses];
  if (known->text == text && known->buffer == buffer_ && known->number != kNone) return known->number;
  const uint64_t hash = HashText(text, length);
  uint32_t at = static_cast<uint32_t>(hash) % kSlots;
  while (slots_[at].hash != 0 && slots_[at].hash != hash) at = (at + 1) % kSlots;
  if (slots_[at].hash == 0) {
    if (count_ + 1 >= kMost && text != kTooMany) return Find(kTooMany, length, is_new);
    slots_[at] = {hash, ++count_, 0};
    *is_new = true;
  } else if (slots_[at].forgotten != 0) {
    slots_[at].forgotten = 0;
    *is_new = true;
  }
  *known = {text, buffer_, slots_[at].number};
  return slots_[at].number;
}

void NameTable::Forget(uint32_t number) {
  for (Slot& slot : slots_) {
    if (slot.hash != 0 && slot.number == number) slot.forgotten = 1;
  }
  for (Address& address : addresses_) {
    if (address.number == number) address = {};
  }
}

void Decoder::Start(const Segment& segment, ChunkWriter* writer, uint32_t version,
                    Result (*callback_name)(uint32_t domain, uint32_t callback, const char** name)) {
  segment_ = segment;
  writer_ = writer;
  version_ = version;
  callback_name_ = callback_name;
}

bool Decoder::WriteName(GpuNameKind kind, uint64_t id, const char* text, uint32_t length) {
  return RecordName(segment_, writer_, kind, id, text, length);
}

void Decoder::TakeKernel(const Kernel& kernel) {
  const char* text = kernel.name != nullptr ? kernel.name : kUnnamed;
  uint32_t length;
  bool is_new;
  const uint32_t name = names_.Find(text, &length, &is_new);
  if (is_new && !WriteName(GpuNameKind::kKernel, name, names_.IsLast(name) ? kTooMany : text, length))
    names_.Forget(name);
  Reservation reservation;
  auto* record = Begin<GpuKernelRecord>(&reservation);
  if (record == nullptr) return;
  const bool possible = time_range_.Has(kernel.start, kernel.end);
  record->start = possible ? kernel.start : 0;
  record->end = possible ? kernel.end : 0;
  record->correlation = kernel.correlation;
  record->context = kernel.context;
  record->stream = kernel.stream;
  record->name = name;
  record->grid_x = static_cast<uint32_t>(kernel.grid_x);
  record->grid_y = Narrow(kernel.grid_y);
  record->grid_z = Narrow(kernel.grid_z);
  record->block_x = Narrow(kernel.block_x);
  record->block_y = Narrow(kernel.block_y);
  record->block_z = Narrow(kernel.block_z);
  record->registers = kernel.registers_per_thread;
  record->static_shared_bytes = static_cast<uint32_t>(kernel.static_shared_memory);
  record->dynamic_shared_bytes = static_cast<uint32_t>(kernel.dynamic_shared_memory);
  record->local_bytes = kernel.local_memory_per_thread;
  record->graph = version_ >= kVersionCuda111 ? kernel.graph : 0;
  record->graph_node = version_ >= kVersionCuda111 ? kernel.graph_node : 0;
  const bool has_clusters = version_ >= kVersionCuda118;
  record->cluster_x = has_clusters ? Narrow(kernel.cluster_x) : 0;
  record->cluster_y = has_clusters ? Narrow(kernel.cluster_y) : 0;
  record->cluster_z = has_clusters ? Narrow(kernel.cluster_z) : 0;
  record->launch_type = kernel.launch_type;
  record->reserved = 0;
  record->reserved1 = 0;
  Commit(reservation, RecordKind::kGpuKernel, kernel.device);
  // A kernel that has not ended has a start and no end.
  const bool timed = possible && kernel.start != 0 && (kernel.end == 0 || kernel.end >= kernel.start);
  kernels_without_times_ = timed ? 0 : kernels_without_times_ + 1;
}

// Fills the members that copies and sets have in common. Null: no room.
template <typename Transfer>
GpuCopyRecord* Decoder::BeginTransfer(const Transfer& transfer, Reservation* reservation) {
  auto* record = Begin<GpuCopyRecord>(reservation);
  if (record == nullptr) return nullptr;
  const bool has_graph = version_ >= kVersionCuda111;
  const bool possible = time_range_.Has(transfer.start, transfer.end);
  record->start = possible ? transfer.start : 0;
  record->end = possible ? transfer.end : 0;
  record->bytes = transfer.bytes;
  record->correlation = transfer.correlation;
  record->context = transfer.context;
  record->stream = transfer.stream;
  record->graph = has_graph ? transfer.graph : 0;
  record->graph_node = has_graph ? transfer.graph_node : 0;
  record->asynchronous = transfer.flags & 1;
  return record;
}

void Decoder::TakeMemcpy(const Memcpy& copy) {
  Reservation reservation;
  GpuCopyRecord* const record = BeginTransfer(copy, &reservation);
  if (record == nullptr) return;
  record->value = 0;
  record->copy_kind = static_cast<GpuCopyKind>(copy.copy_kind);
  record->source_kind = copy.source_kind;
  record->destination_kind = copy.destination_kind;
  Commit(reservation, RecordKind::kGpuCopy, copy.device);
}

void Decoder::TakeMemcpyPeer(const MemcpyPeer& copy) {
  Reservation reservation;
  GpuCopyRecord* const record = BeginTransfer(copy, &reservation);
  if (record == nullptr) return;
  record->value = Narrow(copy.source_device) | static_cast<uint32_t>(Narrow(copy.destination_device)) << 16;
  record->copy_kind = GpuCopyKind::kPeerToPeer;
  record->source_kind = copy.source_kind;
  record->destination_kind = copy.destination_kind;
  Commit(reservation, RecordKind::kGpuCopy, copy.device);
}

void Decoder::TakeMemset(const Memset& set) {
  Reservation reservation;
  GpuCopyRecord* const record = BeginTransfer(set, &reservation);
  if (record == nullptr) return;
  record->value = set.value;
  record->copy_kind = GpuCopyKind::kSet;
  record->source_kind = 0;
  record->destination_kind = static_cast<uint8_t>(set.memory_kind);
  Commit(reservation, RecordKind::kGpuCopy, set.device);
}

void Decoder::TakeApi(const Api& call, bool driver) {
  const uint32_t callback = call.callback;
  if (callback < kCallbacks) {
    const uint64_t bit = uint64_t{1} << (callback % 64);
    if (driver && (kept_driver_calls_[callback / 64] & bit) == 0) return;
    uint64_t* const named = &named_callbacks_[driver][callback / 64];
    if (__builtin_expect((*named & bit) == 0, 0) && callback_name_ != nullptr) {
      const char* name = nullptr;
      if (callback_name_(driver ? kDomainDriver : kDomainRuntime, callback, &name) == kSuccess && name != nullptr) {
        if (WriteName(driver ? GpuNameKind::kDriverCallback : GpuNameKind::kRuntimeCallback, callback, name,
                      TextLength(name, 256))) {
          *named |= bit;
        }
      }
    }
  }
  Reservation reservation;
  auto* record = Begin<GpuApiRecord>(&reservation);
  if (record == nullptr) return;
  record->start = call.start;
  record->duration_and_result = (call.end - call.start) << 16 | (call.result & 0xffff);
  record->correlation = call.correlation;
  record->tid = static_cast<int32_t>(call.thread);
  Commit(reservation, RecordKind::kGpuApi, callback,
         static_cast<uint8_t>((driver ? kRecordDriver : 0) | (call.result != 0 ? kRecordFailed : 0)));
}

GpuSpanRecord* Decoder::BeginSpan(GpuSpanKind kind, uint64_t start, uint64_t end, Reservation* reservation) {
  auto* record = Begin<GpuSpanRecord>(reservation);
  if (record == nullptr) return nullptr;
  *record = {};
  record->start = start;
  record->end = end;
  record->span_kind = kind;
  return record;
}

void Decoder::TakeSynchronization(const Synchronization& wait) {
  Reservation reservation;
  GpuSpanRecord* const record = BeginSpan(GpuSpanKind::kSynchronization, wait.start, wait.end, &reservation);
  if (record == nullptr) return;
  record->correlation = wait.correlation;
  record->context = wait.context;
  record->stream = wait.stream;
  record->type = wait.type;
  record->object = wait.event;
  Commit(reservation, RecordKind::kGpuSpan, 0);
}

void Decoder::TakeOverhead(const Overhead& overhead) {
  Reservation reservation;
  GpuSpanRecord* const record = BeginSpan(GpuSpanKind::kOverhead, overhead.start, overhead.end, &reservation);
  if (record == nullptr) return;
  record->stream = UINT32_MAX;
  record->type = overhead.overhead_kind;
  record->object = overhead.object_kind == kObjectThread ? overhead.object[1] : 0;
  Commit(reservation, RecordKind::kGpuSpan, 0);
}

void Decoder::TakeGraph(const GraphTrace& graph) {
  Reservation reservation;
  GpuSpanRecord* const record = BeginSpan(GpuSpanKind::kGraph, graph.start, graph.end, &reservation);
  if (record == nullptr) return;
  record->correlation = graph.correlation;
  record->context = graph.context;
  record->stream = graph.stream;
  record->object = graph.graph;
  Commit(reservation, RecordKind::kGpuSpan, graph.device);
}

void Decoder::TakeMemory(const Memory& memory) {
  Reservation reservation;
  auto* record = Begin<GpuMemoryRecord>(&reservation);
  if (record == nullptr) return;
  *record = {};
  record->time = memory.timestamp;
  record->address = memory.address;
  record->bytes = memory.bytes;
  record->correlation = memory.correlation;
  record->context = memory.context;
  record->stream = memory.stream;
  record->operation = static_cast<GpuMemoryOperation>(memory.operation);
  record->memory_kind = static_cast<uint8_t>(memory.memory_kind);
  record->asynchronous = memory.is_asynchronous != 0;
  Commit(reservation, RecordKind::kGpuMemory, memory.device);
}

void Decoder::TakeUnifiedMemory(const UnifiedMemory& unified) {
  const auto kind = static_cast<GpuUnifiedKind>(unified.counter);
  uint32_t device = unified.source;
  bool has_end = true;
  switch (kind) {
    case GpuUnifiedKind::kToDevice:
    case GpuUnifiedKind::kBetweenDevices:
      device = unified.destination;
      break;
    case GpuUnifiedKind::kHostFault:
      device = kNoDevice;
      has_end = false;
      break;
    case GpuUnifiedKind::kThrashing:
      // `source` is a mask of the devices that compete for the page.
      device = (unified.flags & kUnifiedOnHost) != 0 || unified.source == 0
                   ? kNoDevice
                   : static_cast<uint32_t>(__builtin_ctz(unified.source));
      has_end = false;
      break;
    case GpuUnifiedKind::kThrottling:
      if ((unified.flags & kUnifiedOnHost) != 0) device = kNoDevice;
      break;
    case GpuUnifiedKind::kRemoteMap:
      device = unified.destination;
      has_end = false;
      break;
    case GpuUnifiedKind::kToHost:
    case GpuUnifiedKind::kDeviceFault:
      break;
    default:
      ++unknown_;
      return;
  }
  Reservation reservation;
  auto* record = Begin<GpuUnifiedMemoryRecord>(&reservation);
  if (record == nullptr) return;
  *record = {};
  record->start = unified.start;
  record->end = has_end ? unified.end : 0;
  record->address = unified.address;
  record->value = unified.value;
  record->source = unified.source;
  record->destination = unified.destination;
  record->cause = unified.flags;
  record->unified_kind = kind;
  Commit(reservation, RecordKind::kGpuUnifiedMemory, device < kNoDevice ? device : kNoDevice);
}

void Decoder::TakeDevice(const Device& device) {
  const char* name = device.name != nullptr ? device.name : "";
  const uint32_t length = TextLength(name, 256);
  Reservation reservation;
  if (!BeginRecord(segment_, writer_, sizeof(GpuDeviceRecord) / kSlotBytes + SlotsFor(length), &reservation)) return;
  auto* record = reinterpret_cast<GpuDeviceRecord*>(reservation.slots);
  *record = {};
  record->memory_bytes = device.memory_bytes;
  record->memory_bandwidth = device.memory_bandwidth;
  record->core_clock_khz = device.core_clock_khz;
  record->compute_major = Narrow(device.compute_major);
  record->compute_minor = Narrow(device.compute_minor);
  record->multiprocessors = device.multiprocessors;
  record->warps_per_multiprocessor = device.warps_per_multiprocessor;
  record->blocks_per_multiprocessor = device.blocks_per_multiprocessor;
  record->threads_per_block = device.threads_per_block;
  record->threads_per_warp = device.threads_per_warp;
  record->shared_bytes_per_multiprocessor = device.shared_bytes_per_multiprocessor;
  record->registers_per_multiprocessor = device.registers_per_multiprocessor;
  record->shared_bytes_per_block = device.shared_bytes_per_block;
  record->registers_per_block = device.registers_per_block;
  record->l2_bytes = device.l2_bytes;
  record->name_length = length;
  __builtin_memcpy(record->uuid, device.uuid, sizeof(record->uuid));
  record->flags = version_ >= kVersionCuda116 && device.is_mig != 0 ? 1 : 0;
  record->visible_index = device.id;
  __builtin_memcpy(record + 1, name, length);
  Commit(reservation, RecordKind::kGpuDevice, device.id);
}

void Decoder::TakeContext(const Context& context) {
  Reservation reservation;
  auto* record = Begin<GpuContextRecord>(&reservation);
  if (record == nullptr) return;
  *record = {};
  record->context = context.context;
  record->stream = context.null_stream;
  Commit(reservation, RecordKind::kGpuContext, context.device);
}

void Decoder::TakeStream(const Stream& stream) {
  Reservation reservation;
  auto* record = Begin<GpuContextRecord>(&reservation);
  if (record == nullptr) return;
  *record = {};
  record->context = stream.context;
  record->stream = stream.stream;
  record->is_stream = 1;
  record->priority = static_cast<int32_t>(stream.priority);
  record->stream_flags = stream.flag;
  Commit(reservation, RecordKind::kGpuContext, 0);
}

void Decoder::TakeName(const Name& name) {
  if (name.name == nullptr) return;
  GpuNameKind kind;
  uint64_t id;
  switch (name.object_kind) {
    case kObjectDevice:
      kind = GpuNameKind::kDevice;
      id = name.object[0];
      break;
    case kObjectContext:
      kind = GpuNameKind::kContext;
      id = name.object[1];
      break;
    case kObjectStream:
      kind = GpuNameKind::kStream;
      id = name.object[2];
      break;
    default:
      return;
  }
  WriteName(kind, id, name.name, TextLength(name.name, kMaxName));
}

Decoder::Unread Decoder::TakeBuffer(Result (*next_record)(uint8_t* buffer, size_t valid, Activity** record),
                                    uint8_t* buffer, size_t valid) {
  BeginBuffer();
  if (valid == 0) return {kErrorMaxLimitReached, 0};
  Activity* activity = nullptr;
  Activity* last = nullptr;
  Result result;
  while ((result = next_record(buffer, valid, &activity)) == kSuccess) {
    last = activity;
    Take(activity);
  }
  // Only this result means that all records were read. An incomplete record, or a record of a kind that this CUPTI does
  // not have, also ends the iteration (with result 21 in 12.4, 13.0 and 13.1).
  if (result == kErrorMaxLimitReached) return {result, 0};
  return {result, last == nullptr ? valid : valid - static_cast<size_t>(reinterpret_cast<uint8_t*>(last) - buffer)};
}

bool Decoder::Take(const Activity* activity) {
  switch (activity->kind) {
    case kActivityConcurrentKernel:
      TakeKernel(*reinterpret_cast<const Kernel*>(activity));
      return true;
    case kActivityRuntime:
      TakeApi(*reinterpret_cast<const Api*>(activity), false);
      return true;
    case kActivityDriver:
      TakeApi(*reinterpret_cast<const Api*>(activity), true);
      return true;
    case kActivityMemcpy:
      TakeMemcpy(*reinterpret_cast<const Memcpy*>(activity));
      return true;
    case kActivityMemcpy2:
      TakeMemcpyPeer(*reinterpret_cast<const MemcpyPeer*>(activity));
      return true;
    case kActivityMemset:
      TakeMemset(*reinterpret_cast<const Memset*>(activity));
      return true;
    case kActivitySynchronization:
      TakeSynchronization(*reinterpret_cast<const Synchronization*>(activity));
      return true;
    case kActivityOverhead:
      TakeOverhead(*reinterpret_cast<const Overhead*>(activity));
      return true;
    case kActivityGraphTrace:
      TakeGraph(*reinterpret_cast<const GraphTrace*>(activity));
      return true;
    case kActivityMemory2:
      TakeMemory(*reinterpret_cast<const Memory*>(activity));
      return true;
    case kActivityUnifiedMemory:
      TakeUnifiedMemory(*reinterpret_cast<const UnifiedMemory*>(activity));
      return true;
    case kActivityDevice:
      TakeDevice(*reinterpret_cast<const Device*>(activity));
      return true;
    case kActivityContext:
      TakeContext(*reinterpret_cast<const Context*>(activity));
      return true;
    case kActivityStream:
      TakeStream(*reinterpret_cast<const Stream*>(activity));
      return true;
    case kActivityName:
      TakeName(*reinterpret_cast<const Name*>(activity));
      return true;
    default:
      ++unknown_;
      return false;
  }
}

}  // namespace tbprof::cupti
