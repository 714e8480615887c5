// SPDX-License-Identifier: Apache-2.0
//
// The allocator hooks. Every call is counted. Calls for large blocks are timed, and recorded if the block is large
// enough or the call slow enough. About every malloc_interval bytes a sample with a stack is taken. free is recorded
// before the real call, because another thread may get the address at once; allocations are recorded after it. Rules:
// RULES.md.
#include "preload/bootstrap.h"
#include "preload/hooks.h"
#include "preload/modules.h"
#include "preload/python.h"
#include "preload/record.h"
#include "preload/sampled_blocks.h"
#include "preload/stack.h"
#include "preload/torch_observer.h"

// In an always_inline function this is the return address of the hook that contains it.
#define TBPROF_SITE __builtin_return_address(0)

namespace tbprof {
namespace {

// Calls for blocks of at least this size are timed: for smaller blocks the clock would cost more than the call. glibc
// maps blocks of 128 KiB and more.
constexpr size_t kTimedBytes = 64 * 1024;
constexpr int64_t kFlushBytes = 64 * 1024;
constexpr uint64_t kFlushFrees = 256;

// glibc's malloc_usable_size reads the word before the block, after checks that cost more than the rest of the hook. So
// the hook reads that word itself, once the first blocks have shown that the word is the size. It is not the size for
// mapped blocks (bit 1), which are few.
size_t SizeInFront(const void* block, bool* mapped) {
  const size_t word = __atomic_load_n(static_cast<const size_t*>(block) - 1, __ATOMIC_RELAXED);
  *mapped = (word & 2) != 0;
  return (word & ~size_t{7}) - sizeof(size_t);
}

// Whether a block's size may be read from the word before it, and a usual call is only counted.
inline bool QuickWay() { return __atomic_load_n(&g_allocator_way, __ATOMIC_RELAXED) == AllocatorWay::kQuick; }
inline bool ExactQuickWay() { return __atomic_load_n(&g_allocator_way, __ATOMIC_RELAXED) == AllocatorWay::kExactQuick; }
inline bool RecordsBlocks() { return __atomic_load_n(&g_allocator_way, __ATOMIC_RELAXED) >= AllocatorWay::kExact; }

void CompareSizes(const void* block, size_t usable, uint32_t left) {
  bool mapped;
  const size_t in_front = SizeInFront(block, &mapped);
  if (mapped) return;
  const uint32_t now = in_front == usable ? left - 1 : kAlwaysAsk;
  // Compare-and-exchange, so that another thread's count cannot overwrite `kAlwaysAsk`.
  if (!__atomic_compare_exchange_n(&g_blocks_to_compare, &left, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return;
  if (now != 0) return;
  if (!RecordsBlocks()) return __atomic_store_n(&g_allocator_way, AllocatorWay::kQuick, __ATOMIC_RELAXED);
  // In a Python program each block is recorded with its Python stack, which the quick path does not support.
  const bool has_python = __atomic_load_n(&g_python, __ATOMIC_RELAXED) != nullptr;
  if (!has_python) __atomic_store_n(&g_allocator_way, AllocatorWay::kExactQuick, __ATOMIC_RELAXED);
}

size_t BlockSize(void* block) {
  const uint32_t left = __atomic_load_n(&g_blocks_to_compare, __ATOMIC_RELAXED);
  if (left == 0) {
    bool mapped;
    const size_t size = SizeInFront(block, &mapped);
    if (__builtin_expect(!mapped, 1)) return size;
  }
  const size_t usable = g_real.malloc_usable_size(block);
  if (__builtin_expect(left != 0 && left != kAlwaysAsk, 0)) CompareSizes(block, usable, left);
  return usable;
}

// For a thread past its last destructor or without a slot: shared counters keep the totals right.
void CountLate(bool allocation, uint64_t bytes) {
  if (!g_attachment.attached) return;
  const uint32_t epoch = __atomic_load_n(&g_fork_page->epoch, __ATOMIC_ACQUIRE);
  if (epoch == 0 || epoch == kEpochRegistering) return;
  const Segment& segment = g_attachment.segment;
  const uint32_t high = __atomic_load_n(&segment.header->process_high, __ATOMIC_ACQUIRE);
  for (uint32_t i = 0; i < high && i < kProcessSlots; ++i) {
    ProcessSlot* process = &segment.process_slots[i];
    if (process->serial != epoch) continue;
    __atomic_fetch_add(allocation ? &process->late_allocations : &process->late_frees, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(allocation ? &process->late_allocated_bytes : &process->late_freed_bytes, bytes,
                       __ATOMIC_RELAXED);
    __atomic_fetch_add(&process->live_bytes, allocation ? static_cast<int64_t>(bytes) : -static_cast<int64_t>(bytes),
                       __ATOMIC_RELAXED);
    return;
  }
}

void RecordSampledFree(ThreadState* thread, uint16_t operation, uint8_t flags, uint64_t address, uint64_t ticks) {
  const int64_t live_bytes = FlushLiveBytes(thread);
  Reservation reservation;
  if (!BeginRecord(g_attachment.segment, &thread->writer, 1, &reservation)) return;
  auto* record = reinterpret_cast<SampledFreeRecord*>(reservation.slots);
  record->ticks = ticks;
  record->address = address;
  record->live_bytes = live_bytes;
  CommitRecord(g_attachment.segment, &thread->writer, reservation, RecordKind::kSampledFree, flags, operation);
}

// Makes the hooks record the free of `block`.
void FollowSampled(ThreadState* thread, uint16_t operation, const void* block, uint64_t ticks) {
  const uint64_t evicted = AddSampledBlock(block, thread->random >> 32);
  if (evicted != 0) RecordSampledFree(thread, operation, kRecordNotFollowed, evicted, ticks);
}

__attribute__((noinline)) void Sample(ThreadState* thread, uint16_t operation, void* block, size_t size,
                                      const void* site) {
  // Large blocks cross several sampling points at once; one record stands for all of them.
  uint64_t weight = 0;
  const int64_t mean = thread->sample_interval > 0 ? thread->sample_interval : 1;
  while (thread->bytes_until_sample <= 0) {
    const int64_t interval = thread->sample_interval > 0 ? thread->sample_interval : 1;
    const int64_t next = NextSampleDistance(thread);
    if (thread->bytes_until_sample < -interval * 64) {
      // Do not draw thousands of times for one huge block: its share is known.
      const int64_t whole = -thread->bytes_until_sample / interval;
      weight += static_cast<uint64_t>(whole * interval);
      AddThisThread(&thread->bytes_until_sample, whole * interval);
    } else {
      weight += static_cast<uint64_t>(interval);
      AddThisThread(&thread->bytes_until_sample, next);
    }
  }
  const int64_t live_bytes = FlushLiveBytes(thread);
  NoteCodeAddress(thread, reinterpret_cast<uint64_t>(site));
  const uint64_t now = Ticks();
  const uint32_t python_stack = PythonStackOf(thread, now);

  uint64_t registers[kSnapshotRegisters];
  CaptureRegisters(registers);
  const uint64_t from = registers[6];
  const uint64_t most = __atomic_load_n(&g_control->sample_stack_bytes, __ATOMIC_RELAXED) & ~uint64_t{7};
  const uint64_t readable = ReadableStack(thread, from);
  const uint64_t bytes = readable < most ? readable : most;
  CountMade(thread, kCountedSample);
  Reservation reservation;
  if (!BeginRecord(g_attachment.segment, &thread->writer, 5 + SlotsFor(bytes), &reservation)) {
    return CountNoRoom(thread, kCountedSample);
  }
  auto* record = reinterpret_cast<AllocationSampleRecord*>(reservation.slots);
  record->ticks = now;
  record->address = reinterpret_cast<uint64_t>(block);
  record->size = size;
  record->weight = weight;
  record->stack_address = from;
  record->stack_bytes = static_cast<uint32_t>(bytes);
  record->python_stack = python_stack;
  record->call_site = reinterpret_cast<uint64_t>(site);
  record->interval = static_cast<uint64_t>(mean);
  record->live_bytes = live_bytes;
  for (int i = 0; i < kSnapshotRegisters; ++i) record->registers[i] = registers[i];
  const auto* stack = reinterpret_cast<const uint64_t*>(from);
  auto* copy = reinterpret_cast<uint64_t*>(record + 1);
#if defined(__x86_64__)
  uint64_t words = bytes / 8;
  asm volatile("rep movsq" : "+S"(stack), "+D"(copy), "+c"(words) : : "memory");
#else
  for (uint64_t i = 0; i < bytes / 8; ++i) copy[i] = stack[i];
#endif
  CommitRecord(g_attachment.segment, &thread->writer, reservation, RecordKind::kAllocationSample, 0, operation);
  // Only the free of a block with a recorded sample is recorded.
  if (!RecordsBlocks()) FollowSampled(thread, operation, block, now);
}

// The launcher has cleared the chunk, so its core holds the cache lines: each is prefetched 24 records ahead.
inline void AskForLine(const Reservation& reservation) {
#if defined(__x86_64__)
  // For generic x86-64 a compiler emits prefetcht0 for the builtin, which leaves the line shared with the other core.
  asm volatile("prefetchw %0" : : "m"(reservation.slots[24 * (kSlotBytes / 8)]));
#else
  __builtin_prefetch(reservation.slots + 24 * (kSlotBytes / 8), 1);
#endif
}

// --malloc=exact: one record for each allocation and each free.
inline void RecordBlock(ThreadState* thread, uint16_t operation, uint8_t flags, const void* block, size_t usable,
                        const void* site) {
  if ((flags & kRecordRelease) == 0) NoteCurrentPythonStack(thread);
  Reservation reservation;
  if (!BeginRecord(g_attachment.segment, &thread->writer, 1, &reservation)) return CountNoRoom(thread, kCountedBlock);
  // Reading the counter costs three times as much as the rest of the record. Between two timestamps the order of a
  // thread's calls is still known.
  uint64_t ticks = 0;
  AskForLine(reservation);
  if (thread->until_stamp <= 0) {
    ticks = Ticks();
    thread->until_stamp = static_cast<int32_t>(g_control->malloc_stamp_every);
  }
  --thread->until_stamp;
  PackAllocation(reinterpret_cast<AllocationRecord*>(reservation.slots), reinterpret_cast<uint64_t>(block), usable,
                 reinterpret_cast<uint64_t>(site), ticks);
  CommitRecord(g_attachment.segment, &thread->writer, reservation, RecordKind::kAllocation, flags, operation);
}

// RecordBlock for the usual case: the size is in front of the block, no timestamp is due, and the current chunk has
// room. False: nothing was done. Makes no call, so that the caller, whose only call is its last one, saves hardly any
// register.
inline __attribute__((always_inline)) bool RecordUsual(ThreadState* thread, uint64_t tag, const void* block,
                                                       const void* site, size_t* usable) {
  bool mapped;
  const size_t size = SizeInFront(block, &mapped);
  if (__builtin_expect(mapped || size >= kTimedBytes || !IsCurrent(thread) || thread->until_stamp <= 0, 0)) {
    return false;
  }
  Reservation reservation;
  if (!BeginInChunk(g_attachment.segment, &thread->writer, 1, &reservation)) return false;
  AskForLine(reservation);
  --thread->until_stamp;
  PackAllocation(reinterpret_cast<AllocationRecord*>(reservation.slots), reinterpret_cast<uint64_t>(block), size,
                 reinterpret_cast<uint64_t>(site), 0);
  CommitInChunk(&thread->writer, reservation, tag);
  *usable = size;
  return true;
}

// The TagWord of an Allocation record except for the chunk's generation.
constexpr uint64_t BlockTag(uint16_t operation, uint8_t flags) {
  return TagWord(0, RecordKind::kAllocation, flags, 1, operation);
}

// The rare work after a counted allocation.
__attribute__((noinline)) void* FlushOrSample(ThreadState* thread, uint16_t operation, void* block, size_t size,
                                              const void* site) {
  if (thread->unflushed_live > kFlushBytes) FlushLiveBytes(thread);
  if (thread->bytes_until_sample <= 0) Sample(thread, operation, block, size, site);
  return block;
}

inline __attribute__((always_inline)) bool CountAllocation(ThreadState* thread, size_t usable, size_t size) {
  ThreadSlot* slot = thread->writer.thread;
  AddThisThread(&slot->allocations, uint64_t{1});
  AddThisThread(&slot->allocated_bytes, uint64_t{usable});
  AddThisThread(&thread->unflushed_live, static_cast<int64_t>(usable));
  AddThisThread(&thread->bytes_until_sample, -static_cast<int64_t>(size));
  return __builtin_expect(thread->unflushed_live > kFlushBytes || thread->bytes_until_sample <= 0, 0);
}

__attribute__((noinline, flatten)) void* AllocatedSlow(uint16_t operation, void* block, size_t size, const void* site) {
  const size_t usable = BlockSize(block);
  ThreadState* thread = CurrentThread();
  if (thread == nullptr) {
    CountLate(true, usable);
    return block;
  }
  const bool more = CountAllocation(thread, usable, size);
  if (RecordsBlocks()) RecordBlock(thread, operation, 0, block, usable, site);
  return more ? FlushOrSample(thread, operation, block, size, site) : block;
}

// One instance for each operation: a constant operation number saves two registers.
template <uint16_t operation>
__attribute__((noinline)) void* AllocatedExact(void* block, size_t size, const void* site) {
  ThreadState* thread = &t_thread;
  size_t usable;
  if (!RecordUsual(thread, BlockTag(operation, 0), block, site, &usable))
    return AllocatedSlow(operation, block, size, site);
  if (CountAllocation(thread, usable, size)) return FlushOrSample(thread, operation, block, size, site);
  return block;
}

// Call this after an allocation; returns the block. The usual path is five additions and branches without a call, so
// that a hook has to save nothing but `size`. Each of the other paths ends in a call of its own.
template <uint16_t operation>
inline __attribute__((always_inline)) void* Allocated(void* block, size_t size) {
  if (__builtin_expect(block == nullptr, 0)) return block;
  ThreadState* thread = &t_thread;
  bool mapped = true;
  size_t usable = 0;
  if (__builtin_expect(QuickWay(), 1)) {
    usable = SizeInFront(block, &mapped);
  } else if (ExactQuickWay()) {
    return AllocatedExact<operation>(block, size, TBPROF_SITE);
  }
  if (__builtin_expect(mapped || !IsCurrent(thread), 0)) return AllocatedSlow(operation, block, size, TBPROF_SITE);
  if (CountAllocation(thread, usable, size)) return FlushOrSample(thread, operation, block, size, TBPROF_SITE);
  return block;
}

inline __attribute__((always_inline)) void CountFree(ThreadState* thread, size_t usable) {
  ThreadSlot* slot = thread->writer.thread;
  AddThisThread(&slot->frees, uint64_t{1});
  AddThisThread(&slot->freed_bytes, uint64_t{usable});
  AddThisThread(&thread->unflushed_live, -static_cast<int64_t>(usable));
}
inline bool FlushesAfterFree(const ThreadState* thread) {
  return __builtin_expect(thread->unflushed_live < -kFlushBytes || thread->writer.thread->frees % kFlushFrees == 0, 0);
}

// Call this before a block is freed, except on the quick path. Returns whether it was a sampled block.
bool Freeing(uint16_t operation, void* block, size_t usable, const void* site) {
  ThreadState* thread = CurrentThread();
  if (thread == nullptr) {
    CountLate(false, usable);
    return false;
  }
  CountFree(thread, usable);
  if (FlushesAfterFree(thread)) FlushLiveBytes(thread);
  if (RecordsBlocks()) {
    RecordBlock(thread, operation, kRecordRelease, block, usable, site);
    return false;
  }
  if (!MayBeSampled(block) || !TakeSampledBlock(block)) return false;
  RecordSampledFree(thread, operation, 0, reinterpret_cast<uint64_t>(block), Ticks());
  return true;
}

// Call this after the call for a large block that began at `start`.
__attribute__((noinline)) void EndLarge(uint64_t start, uint16_t operation, void* block, size_t size,
                                        const void* site) {
  // If there is no thread, the clock may be unusable (StopRecording).
  ThreadState* thread = CurrentThread();
  if (thread == nullptr) return;
  const uint64_t ticks = Ticks() - start;
  constexpr uint8_t kCounted = CountedKindOf(kFamilyMalloc);
  CountMade(thread, kCounted);
  if (size < g_control->large_allocation && ticks < g_control->slow_allocation_ticks) {
    AddThisThread(&thread->writer.thread->not_large, uint64_t{1});
    return;
  }
  thread->until_stamp = 0;
  WaitScope call{thread,   start,  reinterpret_cast<uint64_t>(block), reinterpret_cast<uint64_t>(site), operation,
                 kCounted, nullptr};
  RecordSpan(thread, call, ticks, static_cast<int64_t>(size), block == nullptr ? ENOMEM : 0, true);
}

template <typename Call>
__attribute__((noinline)) void* AllocateLarge(uint16_t operation, size_t size, const void* site, Call real) {
  const uint64_t start = Ticks();
  void* const block = real();
  if (block != nullptr) AllocatedSlow(operation, block, size, site);
  EndLarge(start, operation, block, size, site);
  return block;
}

uint64_t StartOfLarge(size_t size) { return __builtin_expect(size >= kTimedBytes, 0) ? Ticks() : 0; }

__attribute__((noinline, flatten)) void FreeSlow(void* block, const void* site) {
  const size_t usable = BlockSize(block);
  Freeing(kOp_free, block, usable, site);
  const uint64_t start = StartOfLarge(usable);
  g_real.free(block);
  if (start != 0) EndLarge(start, kOp_free, block, usable, site);
}

__attribute__((noinline)) void FlushAndFree(ThreadState* thread, void* block) {
  FlushLiveBytes(thread);
  g_real.free(block);
}

// Frees a block whose address is near a sampled block's.
__attribute__((noinline)) void FreeNearSampled(void* block, size_t usable) {
  Freeing(kOp_free, block, usable, nullptr);
  g_real.free(block);
}

__attribute__((noinline)) void FreeExact(void* block, const void* site) {
  ThreadState* thread = &t_thread;
  size_t usable;
  if (!RecordUsual(thread, BlockTag(kOp_free, kRecordRelease), block, site, &usable)) return FreeSlow(block, site);
  CountFree(thread, usable);
  if (FlushesAfterFree(thread)) return FlushAndFree(thread, block);
  g_real.free(block);
}

// An arena block moves to the real heap when it is resized.
void* LeaveArena(void* block, size_t size) {
  void* fresh = g_real.malloc(size);
  if (fresh == nullptr) return nullptr;
  const size_t old = ArenaSize(block);
  for (size_t i = 0; i < old && i < size; ++i) static_cast<char*>(fresh)[i] = static_cast<char*>(block)[i];
  return fresh;
}

}  // namespace

#define TBPROF_ALLOCATE(name, parameters, arguments, bytes)                                          \
  void* Hook_##name parameters {                                                                     \
    if (!AllocatorArmed()) return g_real.name arguments;                                             \
    if (__builtin_expect((bytes) >= kTimedBytes, 0)) {                                               \
      return AllocateLarge(kOp_##name, bytes, TBPROF_SITE, [=]() { return g_real.name arguments; }); \
    }                                                                                                \
    return Allocated<kOp_##name>(g_real.name arguments, bytes);                                      \
  }
TBPROF_ALLOCATE(malloc, (size_t size), (size), size)
TBPROF_ALLOCATE(calloc, (size_t count, size_t size), (count, size), count* size)
TBPROF_ALLOCATE(aligned_alloc, (size_t alignment, size_t size), (alignment, size), size)
TBPROF_ALLOCATE(memalign, (size_t alignment, size_t size), (alignment, size), size)
TBPROF_ALLOCATE(valloc, (size_t size), (size), size)
TBPROF_ALLOCATE(pvalloc, (size_t size), (size), size)

int Hook_posix_memalign(void** block, size_t alignment, size_t size) {
  // PyTorch allocates every tensor in host memory by this call.
  if (TorchMayBeNear()) LookForTorch(TBPROF_SITE);
  if (!AllocatorArmed()) return g_real.posix_memalign(block, alignment, size);
  const uint64_t start = StartOfLarge(size);
  const int result = g_real.posix_memalign(block, alignment, size);
  if (result == 0) Allocated<kOp_posix_memalign>(*block, size);
  if (start != 0) EndLarge(start, kOp_posix_memalign, result == 0 ? *block : nullptr, size, TBPROF_SITE);
  return result;
}

namespace {

// Records a free before the real call and an allocation after it. If realloc fails, the old block is still there.
template <typename Call>
inline __attribute__((always_inline)) void* Resize(uint16_t operation, void* block, size_t size, const void* site,
                                                   Call real) {
  if (__builtin_expect(InArena(block), 0)) return LeaveArena(block, size);
  if (!AllocatorArmed()) return real();
  const size_t old = block == nullptr ? 0 : BlockSize(block);
  const uint64_t start = StartOfLarge(size);
  const bool sampled = block != nullptr && Freeing(operation, block, old, site);
  void* const fresh = real();
  if (fresh != nullptr) {
    AllocatedSlow(operation, fresh, size, site);
  } else if (block != nullptr && size != 0) {
    ThreadState* thread = CurrentThread();
    if (thread != nullptr) {
      ThreadSlot* slot = thread->writer.thread;
      AddThisThread(&slot->frees, ~uint64_t{0});
      AddThisThread(&slot->freed_bytes, uint64_t{0} - old);
      AddThisThread(&thread->unflushed_live, static_cast<int64_t>(old));
      if (RecordsBlocks()) RecordBlock(thread, operation, kRecordFailed, block, old, site);
      if (sampled) {
        const uint64_t now = Ticks();
        RecordSampledFree(thread, operation, kRecordFailed, reinterpret_cast<uint64_t>(block), now);
        FollowSampled(thread, operation, block, now);
      }
    }
  }
  if (start != 0) EndLarge(start, operation, fresh, size, site);
  return fresh;
}

}  // namespace

void* Hook_realloc(void* block, size_t size) {
  return Resize(kOp_realloc, block, size, TBPROF_SITE, [&]() { return g_real.realloc(block, size); });
}

void* Hook_reallocarray(void* block, size_t count, size_t size) {
  size_t bytes;
  // The real function handles the overflow. In a program with its own allocator the blocks belong to that allocator:
  // glibc's reallocarray calls that allocator's realloc, but g_real.realloc is a different function.
  if (!g_attachment.has_allocator || __builtin_mul_overflow(count, size, &bytes)) {
    return g_real.reallocarray(block, count, size);
  }
  // glibc's reallocarray would call the realloc hook, and the call would be counted twice.
  return Resize(kOp_reallocarray, block, bytes, TBPROF_SITE, [&]() { return g_real.realloc(block, bytes); });
}

void Hook_free(void* block) {
  if (__builtin_expect(InArena(block), 0)) return;
  if (!AllocatorArmed() || block == nullptr) return g_real.free(block);
  ThreadState* thread = &t_thread;
  bool mapped = true;
  size_t usable = 0;
  if (__builtin_expect(QuickWay(), 1)) {
    usable = SizeInFront(block, &mapped);
  } else if (ExactQuickWay()) {
    return FreeExact(block, TBPROF_SITE);
  }
  if (__builtin_expect(mapped || usable >= kTimedBytes || !IsCurrent(thread), 0)) return FreeSlow(block, TBPROF_SITE);
  if (MayBeSampled(block)) return FreeNearSampled(block, usable);
  CountFree(thread, usable);
  if (FlushesAfterFree(thread)) return FlushAndFree(thread, block);
  g_real.free(block);
}

}  // namespace tbprof
