// SPDX-License-Identifier: Apache-2.0
//
// The buffers that CUPTI fills: a bounded pool, and the queue of those that it has given back.
//
// Process: target. Request runs on the program's threads inside its CUDA calls, Complete on CUPTI's or on the one that
// flushes, Take and Return on tbprof's own. No lock, no allocation but address space once, no wait.
#ifndef TBPROF_CUPTI_BUFFERS_H_
#define TBPROF_CUPTI_BUFFERS_H_

#include <stddef.h>
#include <stdint.h>

namespace tbprof::cupti {

class Buffers {
 public:
  // CUDA 13 gives each thread that makes records a buffer of its own: 64 of them and as many on their way.
  static constexpr uint32_t kBufferBytes = 384 * 1024;
  static constexpr uint32_t kCount = 144;  // 54 MB
  // Where a refused buffer could crash CUPTI (before 12.9): so many beyond the bound.
  static constexpr uint32_t kReserve = 1024;

  // Reserves the addresses. False: there are none.
  bool Start(bool may_refuse);

  // A zeroed buffer; null: all are in use.
  uint8_t* Request();
  // Whether it is one of these, and not the program's.
  bool Owns(const uint8_t* buffer) const { return buffer >= base_ && IndexOf(buffer) < count_; }
  // `valid` bytes of it are records. True: many bytes, or many of the buffers, wait for their reader, which should
  // come.
  bool Complete(uint8_t* buffer, size_t valid);

  struct Filled {
    uint8_t* data;
    size_t valid;
  };
  // The next of those that were completed; false: none.
  bool Take(Filled* filled);
  // Zeroes what was used of it.
  void Return(const Filled& filled);

  uint32_t refused() const { return __atomic_load_n(&refused_, __ATOMIC_RELAXED); }
  // Buffers that CUPTI has and may be filling.
  uint32_t lent() const { return __atomic_load_n(&lent_, __ATOMIC_RELAXED); }

 private:
  static constexpr size_t kWakeBytes = size_t{8} * kBufferBytes;
  static constexpr uint32_t kWakeBuffers = kCount / 4;
  struct Slot {
    uint32_t used;
    uint32_t next;  // in the queue: index + 1
    size_t valid;
  };
  uint32_t IndexOf(const uint8_t* buffer) const {
    const size_t index = static_cast<size_t>(buffer - base_) / kBufferBytes;
    return index < UINT32_MAX ? static_cast<uint32_t>(index) : UINT32_MAX;
  }

  uint8_t* base_;
  uint32_t count_;
  uint32_t hint_;
  uint32_t refused_;
  uint32_t lent_;
  uint32_t waiting_;
  size_t waiting_bytes_;
  uint32_t head_;   // completed, the latest first: index + 1
  uint32_t taken_;  // completed, the oldest first: the reader's own
  Slot slots_[kCount + kReserve];
};

// How many records may go into a thread's next buffer. CUPTI hands a buffer on when it is full or flushed, and nothing
// in it is unfinished: where the device is never idle, not before it is full. Its records would be lost with the
// process, so no buffer is to take a thread much longer than two periods.
class Pace {
 public:
  static constexpr uint32_t kLeast = 2;
  static constexpr uint32_t kMost = Buffers::kBufferBytes / 40;  // of the smallest records

  // By tbprof's own thread, once in a while.
  void NextPeriod() { __atomic_fetch_add(&period_, 1, __ATOMIC_RELAXED); }
  // `thread`: a number of the calling one. Two that meet in the table have each other's pace.
  uint32_t Records(uint64_t thread);

 private:
  static constexpr uint32_t kThreads = 256;
  struct Slot {
    uint64_t thread;
    uint32_t since;
    uint32_t records;
  };
  uint32_t period_;
  Slot slots_[kThreads];
};

}  // namespace tbprof::cupti

#endif  // TBPROF_CUPTI_BUFFERS_H_
