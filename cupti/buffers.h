// SPDX-License-Identifier: Apache-2.0
//
// The buffers that CUPTI fills: a bounded pool, and the queue of completed buffers.
//
// Process: target. Request runs on the program's threads inside CUDA calls, Complete on a thread of CUPTI or on the
// thread that flushes, Take and Return on tbprof's own thread. No lock, no wait. Start reserves address space once;
// nothing else allocates.
#ifndef TBPROF_CUPTI_BUFFERS_H_
#define TBPROF_CUPTI_BUFFERS_H_

#include <stddef.h>
#include <stdint.h>

namespace tbprof::cupti {

class Buffers {
 public:
  // CUDA 13 gives each thread that makes records its own buffer: enough for 64 threads, with as many again in transit.
  static constexpr uint32_t kBufferBytes = 384 * 1024;
  static constexpr uint32_t kCount = 144;  // 54 MB
  // More buffers beyond kCount for versions before 12.9, where a refused buffer could crash CUPTI.
  static constexpr uint32_t kReserve = 1024;

  // Reserves the address space. False: none is available.
  bool Start(bool may_refuse);

  // A zeroed buffer; null: all are in use. `ticks`: now; 0: OldestTicks does not count it.
  uint8_t* Request(uint64_t ticks);
  // Whether `buffer` is one of this pool, and not one of the program.
  bool Owns(const uint8_t* buffer) const { return buffer >= base_ && IndexOf(buffer) < count_; }
  // Queues a buffer with `valid` bytes of records. True: many bytes or many buffers are queued, so wake the reader.
  bool Complete(uint8_t* buffer, size_t valid);

  struct Filled {
    uint8_t* data;
    size_t valid;
  };
  // The next completed buffer; false: none.
  bool Take(Filled* filled);
  // Zeroes the used part of the buffer and frees it.
  void Return(const Filled& filled);
  // When the oldest buffer that was not returned yet was requested; 0: all were returned.
  uint64_t OldestTicks() const;

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
    uint64_t requested;  // in ticks; 0: free, or not known yet
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
  uint32_t head_;   // completed, latest first: index + 1
  uint32_t taken_;  // completed, oldest first: index + 1; only the reader uses it
  Slot slots_[kCount + kReserve];
};

// Limits the number of records in a thread's next buffer. CUPTI completes a buffer when it is full, or when it is
// flushed and contains no unfinished record: if the device is never idle, only when it is full. If the process dies,
// the records of a buffer that is not completed are lost, so no thread should need much longer than two periods to fill
// a buffer.
class Pace {
 public:
  static constexpr uint32_t kLeast = 2;
  static constexpr uint32_t kMost = Buffers::kBufferBytes / 40;  // the smallest records have 40 bytes

  // tbprof's own thread calls this periodically.
  void NextPeriod() { __atomic_fetch_add(&period_, 1, __ATOMIC_RELAXED); }
  // `thread`: a number that identifies the calling thread. Two threads that share a slot reset each other to kLeast.
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
