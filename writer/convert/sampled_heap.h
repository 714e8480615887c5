// SPDX-License-Identifier: Apache-2.0
//
// The sampled blocks that were live at a moment, and the bytes that they stand for.
//
// A block of `size` bytes has a sample with the probability 1 - exp(-size / interval), so a sample stands for `size`
// divided by that probability: for a block of several intervals the size itself, for a small block about an interval.
//
//   heap.TakeSample(process, sample, site);   // each AllocationSample
//   heap.TakeFree(process, freed);            // each SampledFree
//   heap.Finish();                            // after the last
//   heap.At(process, ticks);
//
// Process: converter, one thread. Untrusted: all records. Memory: bounded by kMostEvents.
#ifndef TBPROF_WRITER_CONVERT_SAMPLED_HEAP_H_
#define TBPROF_WRITER_CONVERT_SAMPLED_HEAP_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "wire/records.h"
#include "writer/spool/spool_facts.h"

namespace tbprof {

class SampledHeap {
 public:
  // The limit of all processes together: 64 MB.
  static constexpr size_t kMostEvents = 1u << 20;

  struct Held {
    double bytes = 0;  // that samples stand for
    double blocks = 0;
    double sure = 0;  // of `bytes`: of blocks so large that each has a sample
    uint64_t samples = 0;
  };
  struct Level {
    uint64_t ticks;
    int64_t bytes;  // as the target counted
  };

  explicit SampledHeap(const SpoolFacts* facts) : facts_(*facts) {}

  // `site`: the number under which At returns it.
  void TakeSample(const Identity& process, const AllocationSampleRecord& sample, uint32_t site);
  void TakeFree(const Identity& process, uint8_t flags, const SampledFreeRecord& freed);
  void Finish();

  // The blocks that were live just after `ticks`, by site. A fork child has the blocks that its parent had at the fork.
  absl::flat_hash_map<uint32_t, Held> At(const Identity& process, uint64_t ticks) const;
  // The live bytes of the process alone, at samples and frees, in order of time.
  std::vector<Level> LevelsOf(const Identity& process) const;
  // The number of blocks of the process whose free was not recorded, because there was no room for them.
  uint64_t NotFollowed(const Identity& process) const;

 private:
  enum class Kind : uint8_t { kFreed, kRestored, kSampled };
  struct Event {
    uint64_t ticks = 0;
    uint64_t address = 0;
    uint64_t size = 0;
    uint64_t weight = 0;
    uint64_t interval = 0;
    int64_t live_bytes = 0;
    uint32_t site = 0;
    Kind kind = Kind::kSampled;
  };
  struct OfProcess {
    std::vector<Event> events;
    uint64_t not_followed = 0;
  };
  using Live = absl::flat_hash_map<uint64_t, const Event*>;  // by address

  bool HasRoom();
  Live LiveAt(const Identity& process, uint64_t ticks, int depth) const;
  static Held HeldBy(const Event& sample);

  const SpoolFacts& facts_;
  std::map<Identity, OfProcess> processes_;
  size_t events_ = 0;
  bool full_ = false;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_SAMPLED_HEAP_H_
