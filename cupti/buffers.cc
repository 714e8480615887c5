// SPDX-License-Identifier: Apache-2.0
// Rules: preload/RULES.md.
#include "cupti/buffers.h"

#include <sys/mman.h>

#include "wire/raw.h"

namespace tbprof::cupti {

bool Buffers::Start(bool may_refuse) {
  if (base_ != nullptr) return true;
  count_ = kCount + (may_refuse ? 0 : kReserve);
  const long mapped = raw::Call(SYS_mmap, 0, static_cast<long>(static_cast<size_t>(count_) * kBufferBytes),
                                PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped < 0 && mapped > -4096) return false;
  base_ = reinterpret_cast<uint8_t*>(mapped);
  return true;
}

uint8_t* Buffers::Request(uint64_t ticks) {
  // Takes the lowest free buffer: a buffer that was used before has its pages in memory already.
  uint32_t at = __atomic_load_n(&hint_, __ATOMIC_RELAXED);
  if (at >= count_) at = 0;
  for (uint32_t tried = 0; tried < count_; ++tried, at = at + 1 == count_ ? 0 : at + 1) {
    uint32_t free = 0;
    if (__atomic_load_n(&slots_[at].used, __ATOMIC_RELAXED) != 0 ||
        !__atomic_compare_exchange_n(&slots_[at].used, &free, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
      continue;
    }
    __atomic_store_n(&slots_[at].requested, ticks, __ATOMIC_SEQ_CST);
    __atomic_store_n(&hint_, at + 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&lent_, 1, __ATOMIC_RELAXED);
    return base_ + static_cast<size_t>(at) * kBufferBytes;
  }
  __atomic_fetch_add(&refused_, 1, __ATOMIC_RELAXED);
  return nullptr;
}

bool Buffers::Complete(uint8_t* buffer, size_t valid) {
  if (!Owns(buffer)) return false;
  const uint32_t index = IndexOf(buffer);
  const size_t added = valid < kBufferBytes ? valid : kBufferBytes;
  slots_[index].valid = added;
  uint32_t head = __atomic_load_n(&head_, __ATOMIC_RELAXED);
  do {
    slots_[index].next = head;
  } while (!__atomic_compare_exchange_n(&head_, &head, index + 1, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
  __atomic_fetch_sub(&lent_, 1, __ATOMIC_RELAXED);
  const size_t bytes = __atomic_add_fetch(&waiting_bytes_, added, __ATOMIC_RELAXED);
  // Bytes alone do not show that buffers run out: each flush completes one per thread, most of them nearly empty.
  const bool few_left = __atomic_add_fetch(&waiting_, 1, __ATOMIC_RELAXED) % kWakeBuffers == 0;
  return few_left || bytes / kWakeBytes != (bytes - added) / kWakeBytes;
}

bool Buffers::Take(Filled* filled) {
  if (taken_ == 0) {
    // Takes the whole queue at once and reverses it to oldest first. No other thread takes from it.
    uint32_t at = __atomic_exchange_n(&head_, 0, __ATOMIC_ACQUIRE);
    while (at != 0) {
      const uint32_t next = slots_[at - 1].next;
      slots_[at - 1].next = taken_;
      taken_ = at;
      at = next;
    }
    if (taken_ == 0) return false;
  }
  const uint32_t index = taken_ - 1;
  taken_ = slots_[index].next;
  __atomic_fetch_sub(&waiting_, 1, __ATOMIC_RELAXED);
  __atomic_fetch_sub(&waiting_bytes_, slots_[index].valid, __ATOMIC_RELAXED);
  *filled = {base_ + static_cast<size_t>(index) * kBufferBytes, slots_[index].valid};
  return true;
}

void Buffers::Return(const Filled& filled) {
  const uint32_t index = IndexOf(filled.data);
  if (index >= kCount) {
    raw::Call(SYS_madvise, raw::Pointer(filled.data), kBufferBytes, MADV_DONTNEED);
  } else {
    __builtin_memset(filled.data, 0, filled.valid);
  }
  __atomic_store_n(&slots_[index].requested, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&slots_[index].used, 0, __ATOMIC_RELEASE);
  uint32_t hint = __atomic_load_n(&hint_, __ATOMIC_RELAXED);
  if (index < hint) __atomic_store_n(&hint_, index, __ATOMIC_RELAXED);
}

uint64_t Buffers::OldestTicks() const {
  uint64_t oldest = 0;
  for (uint32_t i = 0; i < count_; ++i) {
    const uint64_t requested = __atomic_load_n(&slots_[i].requested, __ATOMIC_SEQ_CST);
    if (requested != 0 && (oldest == 0 || requested < oldest)) oldest = requested;
  }
  return oldest;
}

uint32_t Pace::Records(uint64_t thread) {
  Slot* const slot = &slots_[thread * 0x9e3779b97f4a7c15 >> 56];
  const uint32_t now = __atomic_load_n(&period_, __ATOMIC_RELAXED);
  uint32_t records = __atomic_load_n(&slot->records, __ATOMIC_RELAXED);
  if (records == 0 || __atomic_load_n(&slot->thread, __ATOMIC_RELAXED) != thread) {
    records = kLeast;
  } else {
    const uint32_t took = now - __atomic_load_n(&slot->since, __ATOMIC_RELAXED);
    records = took == 0 ? records * 4 : records / took;
    records = records < kLeast ? kLeast : records > kMost ? kMost : records;
  }
  __atomic_store_n(&slot->thread, thread, __ATOMIC_RELAXED);
  __atomic_store_n(&slot->since, now, __ATOMIC_RELAXED);
  __atomic_store_n(&slot->records, records, __ATOMIC_RELAXED);
  return records;
}

}  // namespace tbprof::cupti
