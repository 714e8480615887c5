// SPDX-License-Identifier: Apache-2.0
//
// Converts CUPTI's activity records to tbprof's records.
//
//   Decoder decoder;                       // zeroed, in .bss: 1.2 MB
//   decoder.Start(segment, writer, version, callback_name);
//   const Decoder::Unread unread = decoder.TakeBuffer(next_record, buffer, valid);
//
// Process: target, tbprof's own thread. No allocation, no system call; of CUPTI, only the functions that the caller
// passes.
#ifndef TBPROF_CUPTI_DECODE_H_
#define TBPROF_CUPTI_DECODE_H_

#include <stdint.h>

#include "cupti/cupti_abi.h"
#include "cupti/time_range.h"
#include "wire/chunk.h"
#include "wire/counted.h"

namespace tbprof::cupti {

// Maps each text to one number, which holds in the whole process. The table has a fixed size: further names are
// recorded as `(too many names)`.
class NameTable {
 public:
  static constexpr uint32_t kMost = 32768;
  static constexpr uint32_t kNone = 0;

  // The number of `text`. *is_new: write a record of this name now, and call Forget if that fails.
  uint32_t Find(const char* text, uint32_t* length, bool* is_new);
  void Forget(uint32_t number);
  // The number that all names share for which the table has no room.
  static constexpr bool IsLast(uint32_t number) { return number == kMost; }
  // Cached addresses are valid for one buffer: after a module is unloaded, CUPTI may reuse the address of a name.
  void BeginBuffer() { ++buffer_; }

 private:
  static constexpr uint32_t kSlots = 2 * kMost;
  static constexpr uint32_t kAddresses = 1024;
  struct Slot {
    uint64_t hash;  // 0: free
    uint32_t number;
    uint32_t forgotten;
  };
  struct Address {
    const char* text;
    uint32_t buffer;
    uint32_t number;
  };
  Slot slots_[kSlots];
  Address addresses_[kAddresses];
  uint32_t count_;
  uint32_t buffer_;
};

class Decoder {
 public:
  // `version`: the result of cuptiGetVersion. `callback_name`: null, or cuptiGetCallbackName.
  void Start(const Segment& segment, ChunkWriter* writer, uint32_t version,
             Result (*callback_name)(uint32_t domain, uint32_t callback, const char** name));

  void BeginBuffer() { names_.BeginBuffer(); }
  // False: a kind that was not requested.
  bool Take(const Activity* activity);

  // The part of a buffer that could not be read, and the cause. kErrorMaxLimitReached: all of it was read.
  struct Unread {
    Result result;
    size_t bytes;  // counted from the start of the last record that was read
  };
  Unread TakeBuffer(Result (*next_record)(uint8_t* buffer, size_t valid, Activity** record), uint8_t* buffer,
                    size_t valid);

  uint64_t unknown() const { return unknown_; }

  // Work outside of this range is recorded without times and counted as untimed.
  TimeRange* time_range() { return &time_range_; }

  // How many of the latest kernels, without a gap, have invalid times: CUPTI 13.0 gives such times after millions of
  // graph kernels (parcagpu#23).
  uint32_t kernels_without_times() const { return kernels_without_times_; }
  void ForgetKernelsWithoutTimes() { kernels_without_times_ = 0; }

  // Of the driver calls, only those given here are recorded, even if CUPTI cannot filter calls: the driver calls that
  // the runtime makes inside each runtime call are noise.
  void KeepDriverCall(uint32_t callback) {
    if (callback < kCallbacks) kept_driver_calls_[callback / 64] |= uint64_t{1} << (callback % 64);
  }

 private:
  static constexpr uint32_t kCallbacks = 4096;

  template <typename Record>
  Record* Begin(Reservation* reservation) {
    const bool has_room = BeginRecord(segment_, writer_, sizeof(Record) / kSlotBytes, reservation);
    CountRecord<Record>(writer_->thread, has_room);
    if (!has_room) return nullptr;
    return reinterpret_cast<Record*>(reservation->slots);
  }
  void Commit(const Reservation& reservation, RecordKind kind, uint32_t aux, uint8_t flags = 0) {
    CommitRecord(segment_, writer_, reservation, kind, flags, static_cast<uint16_t>(aux));
  }

  template <typename Transfer>
  GpuCopyRecord* BeginTransfer(const Transfer& transfer, Reservation* reservation);
  GpuSpanRecord* BeginSpan(GpuSpanKind kind, uint64_t start, uint64_t end, Reservation* reservation);

  void TakeKernel(const Kernel& kernel);
  void TakeMemcpy(const Memcpy& copy);
  void TakeMemcpyPeer(const MemcpyPeer& copy);
  void TakeMemset(const Memset& set);
  void TakeApi(const Api& call, bool driver);
  void TakeSynchronization(const Synchronization& wait);
  void TakeOverhead(const Overhead& overhead);
  void TakeGraph(const GraphTrace& graph);
  void TakeMemory(const Memory& memory);
  void TakeUnifiedMemory(const UnifiedMemory& unified);
  void TakeDevice(const Device& device);
  void TakeContext(const Context& context);
  void TakeStream(const Stream& stream);
  void TakeName(const Name& name);

  bool WriteName(GpuNameKind kind, uint64_t id, const char* text, uint32_t length);

  Segment segment_;
  ChunkWriter* writer_;
  Result (*callback_name_)(uint32_t domain, uint32_t callback, const char** name);
  uint32_t version_;
  uint64_t unknown_;
  uint32_t kernels_without_times_;
  TimeRange time_range_;
  uint64_t named_callbacks_[2][kCallbacks / 64];
  uint64_t kept_driver_calls_[kCallbacks / 64];
  NameTable names_;
};

}  // namespace tbprof::cupti

#endif  // TBPROF_CUPTI_DECODE_H_
