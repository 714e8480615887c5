// SPDX-License-Identifier: Apache-2.0
//
// The allocator: every call is counted; calls of large blocks are timed and recorded when large or slow enough; about
// every malloc_interval bytes a sample with a stack is taken. free is recorded before the real call, because another
// thread may get the address at once; allocations after it. Rules: RULES.md.
#include "preload/bootstrap.h"
#include "preload/hooks.h"
#include "preload/modules.h"
#include "preload/record.h"
#include "preload/stack.h"

namespace tbprof {
namespace {

// From here on a call is timed: below, the clock would cost more than the call. glibc maps blocks of 128 KiB and more.
constexpr size_t kTimedBytes = 64 * 1024;
constexpr int64_t kFlushBytes = 64 * 1024;
constexpr uint64_t kFlushFrees = 256;

// A thread past its last destructor, or one that got no slot: the totals stay right, by shared counters.
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

__attribute__((noinline)) void Sample(ThreadState* thread, uint16_t operation, void* block, size_t size,
                                      const void* site) {
  // Large blocks cross several sampling points at once; one record stands for all of them.
  const int64_t interval = static_cast<int64_t>(g_control->malloc_interval);
  uint64_t weight = 0;
  while (thread->bytes_until_sample <= 0) {
    const int64_t next = NextSampleDistance(thread);
    if (thread->bytes_until_sample < -interval * 64) {
      // Do not draw thousands of times for one huge block: its share is known.
      const int64_t whole = -thread->bytes_until_sample / interval;
      weight += static_cast<uint64_t>(whole * interval);
      thread->bytes_until_sample += whole * interval;
    } else {
      weight += static_cast<uint64_t>(interval);
      thread->bytes_until_sample += next;
    }
  }
  FlushLiveBytes(thread);
  NoteCodeAddress(thread, reinterpret_cast<uint64_t>(site));

  uint64_t registers[kSnapshotRegisters];
  CaptureRegisters(registers);
  const uint64_t from = registers[6];
  const uint64_t bytes = ReadableStack(thread, from);
  Reservation reservation;
  if (!BeginRecord(g_attachment.segment, &thread->writer, 5 + SlotsFor(bytes), &reservation)) return;
  auto* record = reinterpret_cast<AllocationSampleRecord*>(reservation.slots);
  record->ticks = Ticks();
  record->address = reinterpret_cast<uint64_t>(block);
  record->size = size;
  record->weight = weight;
  record->stack_address = from;
  record->stack_bytes = static_cast<uint32_t>(bytes);
  record->reserved = 0;
  record->call_site = reinterpret_cast<uint64_t>(site);
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
}

// After an allocation. The common case is four additions, a subtraction and a branch.
inline __attribute__((always_inline)) void Allocated(uint16_t operation, void* block, size_t size, const void* site) {
  if (block == nullptr) return;
  const size_t usable = g_real.malloc_usable_size(block);
  ThreadState* thread = CurrentThread();
  if (__builtin_expect(thread == nullptr, 0)) {
    CountLate(true, usable);
    return;
  }
  ThreadSlot* slot = thread->writer.thread;
  ++slot->allocations;
  slot->allocated_bytes += usable;
  thread->unflushed_live += static_cast<int64_t>(usable);
  if (__builtin_expect(thread->unflushed_live > kFlushBytes, 0)) FlushLiveBytes(thread);
  thread->bytes_until_sample -= static_cast<int64_t>(size);
  if (__builtin_expect(thread->bytes_until_sample <= 0, 0)) Sample(thread, operation, block, size, site);
}

inline __attribute__((always_inline)) size_t Freeing(void* block) {
  const size_t usable = g_real.malloc_usable_size(block);
  ThreadState* thread = CurrentThread();
  if (__builtin_expect(thread == nullptr, 0)) {
    CountLate(false, usable);
    return usable;
  }
  ThreadSlot* slot = thread->writer.thread;
  ++slot->frees;
  slot->freed_bytes += usable;
  thread->unflushed_live -= static_cast<int64_t>(usable);
  if (__builtin_expect(thread->unflushed_live < -kFlushBytes || slot->frees % kFlushFrees == 0, 0)) {
    FlushLiveBytes(thread);
  }
  return usable;
}

// Around calls of large blocks.
struct TimedCall {
  uint64_t start = 0;
};

inline TimedCall BeginTimed(size_t size) {
  TimedCall call;
  if (__builtin_expect(size >= kTimedBytes, 0)) call.start = Ticks();
  return call;
}

__attribute__((noinline)) void EndTimedSlow(uint64_t start, uint16_t operation, void* block, size_t size,
                                            const void* site) {
  // Without a thread there may be no clock any more (StopRecording).
  ThreadState* thread = CurrentThread();
  if (thread == nullptr) return;
  const uint64_t ticks = Ticks() - start;
  if (size < g_control->large_allocation && ticks < g_control->slow_allocation_ticks) return;
  WaitScope call{thread,    start,  reinterpret_cast<uint64_t>(block), reinterpret_cast<uint64_t>(site),
                 operation, nullptr};
  RecordSpan(thread, call, ticks, static_cast<int64_t>(size), block == nullptr ? ENOMEM : 0);
}

inline void EndTimed(const TimedCall& call, uint16_t operation, void* block, size_t size, const void* site) {
  if (__builtin_expect(call.start != 0, 0)) EndTimedSlow(call.start, operation, block, size, site);
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

#define TBPROF_SITE __builtin_return_address(0)

#define TBPROF_ALLOCATE(name, parameters, arguments, bytes)  \
  void* Hook_##name parameters {                             \
    if (!Armed(kFamilyMalloc)) return g_real.name arguments; \
    const TimedCall call = BeginTimed(bytes);                \
    void* const block = g_real.name arguments;               \
    Allocated(kOp_##name, block, bytes, TBPROF_SITE);        \
    EndTimed(call, kOp_##name, block, bytes, TBPROF_SITE);   \
    return block;                                            \
  }
TBPROF_ALLOCATE(malloc, (size_t size), (size), size)
TBPROF_ALLOCATE(calloc, (size_t count, size_t size), (count, size), count* size)
TBPROF_ALLOCATE(aligned_alloc, (size_t alignment, size_t size), (alignment, size), size)
TBPROF_ALLOCATE(memalign, (size_t alignment, size_t size), (alignment, size), size)
TBPROF_ALLOCATE(valloc, (size_t size), (size), size)
TBPROF_ALLOCATE(pvalloc, (size_t size), (size), size)

int Hook_posix_memalign(void** block, size_t alignment, size_t size) {
  if (!Armed(kFamilyMalloc)) return g_real.posix_memalign(block, alignment, size);
  const TimedCall call = BeginTimed(size);
  const int result = g_real.posix_memalign(block, alignment, size);
  if (result == 0) Allocated(kOp_posix_memalign, *block, size, TBPROF_SITE);
  EndTimed(call, kOp_posix_memalign, result == 0 ? *block : nullptr, size, TBPROF_SITE);
  return result;
}

namespace {

// realloc frees before and allocates after; on failure the old block is still there.
template <typename Call>
inline __attribute__((always_inline)) void* Resize(uint16_t operation, void* block, size_t size, const void* site,
                                                   Call real) {
  if (__builtin_expect(InArena(block), 0)) return LeaveArena(block, size);
  if (!Armed(kFamilyMalloc)) return real();
  const size_t old = block == nullptr ? 0 : g_real.malloc_usable_size(block);
  const TimedCall call = BeginTimed(size);
  if (block != nullptr) Freeing(block);
  void* const fresh = real();
  if (fresh != nullptr) {
    Allocated(operation, fresh, size, site);
  } else if (block != nullptr && size != 0) {
    ThreadState* thread = CurrentThread();
    if (thread != nullptr) {
      --thread->writer.thread->frees;
      thread->writer.thread->freed_bytes -= old;
      thread->unflushed_live += static_cast<int64_t>(old);
    }
  }
  EndTimed(call, operation, fresh, size, site);
  return fresh;
}

}  // namespace

void* Hook_realloc(void* block, size_t size) {
  return Resize(kOp_realloc, block, size, TBPROF_SITE, [&]() { return g_real.realloc(block, size); });
}

void* Hook_reallocarray(void* block, size_t count, size_t size) {
  size_t bytes;
  // The real function judges the overflow. Where the program has an allocator of its own, the blocks are that one's:
  // glibc's reallocarray finds its realloc, g_real.realloc is another.
  if (!g_attachment.has_allocator || __builtin_mul_overflow(count, size, &bytes)) {
    return g_real.reallocarray(block, count, size);
  }
  // glibc's own calls the program's realloc, which is ours: counted twice.
  return Resize(kOp_reallocarray, block, bytes, TBPROF_SITE, [&]() { return g_real.realloc(block, bytes); });
}

void Hook_free(void* block) {
  if (__builtin_expect(InArena(block), 0)) return;
  if (block == nullptr || !Armed(kFamilyMalloc)) {
    g_real.free(block);
    return;
  }
  const size_t usable = Freeing(block);
  const TimedCall call = BeginTimed(usable);
  g_real.free(block);
  if (__builtin_expect(call.start != 0, 0)) {
    const int saved = errno;
    EndTimed(call, kOp_free, block, usable, TBPROF_SITE);
    errno = saved;
  }
}

}  // namespace tbprof
