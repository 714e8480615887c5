// SPDX-License-Identifier: Apache-2.0
#include "launcher/session/own_cost.h"

#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "wire/chunk.h"
#include "writer/base/scoped.h"

namespace tbprof {
namespace {

constexpr int kRounds = 5;
constexpr int kRecords = 512;  // half a chunk
constexpr size_t kWarmChunks = 4;
constexpr int kAllocations = 4000;
constexpr int kPages = 32;

// The minimum of kRounds rounds, in ns per turn: the round with the least disturbance.
template <typename Work>
double Least(double ticks_per_ns, int turns, ClockKind clock, Work work) {
  double least = 1e9;
  for (int i = 0; i < kRounds; ++i) {
    const uint64_t start = ReadTicks(clock);
    work();
    least = std::min(least, static_cast<double>(ReadTicks(clock) - start) / ticks_per_ns / turns);
  }
  return least;
}

// Copies the steps of Allocated and Freeing in preload/hooks_malloc.cc; measured as the difference between two calls
// through a pointer, with and without these steps.
struct Counters {
  uint32_t armed = 1;
  uint64_t epoch = 1, thread_epoch = 1;
  uint64_t calls = 0, bytes = 0;
  int64_t unflushed = 0, until_sample = INT64_MAX;
};
Counters g_counters;
size_t (*volatile g_usable)(void*) = malloc_usable_size;

__attribute__((noinline)) void* Nothing(void* block) {
  asm volatile("" : : "r"(block) : "memory");
  return block;
}
__attribute__((noinline)) void* Counted(void* block) {
  Counters* counters = &g_counters;
  asm volatile("" : "+r"(counters) : : "memory");
  if (__atomic_load_n(&counters->armed, __ATOMIC_RELAXED) == 0) return block;
  void* const result = Nothing(block);
  const size_t usable = g_usable(result);
  if (__atomic_load_n(&counters->epoch, __ATOMIC_ACQUIRE) != counters->thread_epoch) return nullptr;
  ++counters->calls;
  counters->bytes += usable;
  counters->unflushed += static_cast<int64_t>(usable);
  if (counters->unflushed > (int64_t{1} << 60)) counters->unflushed = 0;
  counters->until_sample -= static_cast<int64_t>(usable);
  return counters->until_sample <= 0 ? nullptr : result;
}
void* (*volatile g_nothing)(void*) = Nothing;
void* (*volatile g_counted)(void*) = Counted;

}  // namespace

OwnCost MeasureOwnCost(ClockKind clock, double ticks_per_ns) {
  OwnCost cost;
  cost.clock_ns = Least(ticks_per_ns, 256, clock, [&] {
    for (int i = 0; i < 256; ++i) ReadTicks(clock);
  });

  void* const block = malloc(100);
  const auto call = [&](void* (*volatile * function)(void*)) {
    return Least(ticks_per_ns, kAllocations, clock, [&] {
      for (int i = 0; i < kAllocations; ++i) (*function)(block);
    });
  };
  cost.allocation_ns = std::max(0.0, call(&g_counted) - call(&g_nothing));
  free(block);

  const uint64_t bytes = LayoutFor(kMinChunks).bytes;
  const ScopedMapping mapping(
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0), bytes);
  if (!mapping.valid()) return cost;
  const Segment segment = SegmentAt(mapping.data(), kMinChunks);
  InitialiseSegment(segment, bytes);
  segment.header->clock_kind = static_cast<uint32_t>(clock);
  ChunkWriter writer;
  ResetChunkWriter(&writer, &segment.thread_slots[0], 0, 1);
  // The pages are touched before: the cost of a first touch is measured separately.
  memset(segment.Chunk(0), 0, kWarmChunks * kChunkBytes);
  cost.record_ns = Least(ticks_per_ns, kRecords, clock, [&] {
    for (int i = 0; i < kRecords; ++i) {
      Reservation reservation;
      if (!BeginRecord(segment, &writer, 1, &reservation)) continue;
      for (int word = 1; word < 4; ++word) reservation.slots[word] = static_cast<uint64_t>(i);
      CommitRecord(segment, &writer, reservation, RecordKind::kCompactSpan, 0, 1);
    }
  });
  int page = 0;
  auto* const fresh = reinterpret_cast<volatile uint8_t*>(segment.Chunk(kMinChunks / 2));
  cost.page_ns = Least(ticks_per_ns, kPages, clock, [&] {
    for (int i = 0; i < kPages; ++i) fresh[static_cast<size_t>(page++) * kPage] = 1;
  });
  return cost;
}

}  // namespace tbprof
