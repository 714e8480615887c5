// SPDX-License-Identifier: Apache-2.0
//
// Remembers which function was called from which instruction in stacks that were read without a change. A stack that
// changed while it was read is accepted as far as it consists of such calls.
//
// Process: launcher, the sampler's thread. Not thread-safe.
#ifndef TBPROF_LAUNCHER_SAMPLING_KNOWN_CALLS_H_
#define TBPROF_LAUNCHER_SAMPLING_KNOWN_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <unordered_set>
#include <vector>

namespace tbprof {

class KnownCalls {
 public:
  // `frames`: innermost first, each with the number of a code object and the offset of an instruction in it.
  template <typename Frame>
  void Add(const std::vector<Frame>& frames) {
    for (size_t i = 1; i < frames.size() && seen_.size() < kMost; ++i) {
      const uint64_t key = KeyOf(frames[i], frames[i - 1]);
      // A call is known when it was seen twice: one of some thousand accepted stacks was a mixture of two stacks.
      if (!seen_.insert(key).second) known_.insert(key);
    }
  }
  // The number of outermost frames that are connected by known calls; at least `sure`, which are certain already.
  template <typename Frame>
  size_t Sure(const std::vector<Frame>& frames, size_t sure) const {
    while (sure < frames.size() && (sure == 0 || Knows(frames, sure))) ++sure;
    return sure;
  }

 private:
  static constexpr size_t kMost = 1 << 18;
  template <typename Frame>
  static uint64_t KeyOf(const Frame& caller, const Frame& called) {
    const uint64_t place = uint64_t{caller.code} << 32 | static_cast<uint32_t>(caller.instruction);
    return (place ^ uint64_t{called.code} * 0x9E3779B97F4A7C15) * 0xBF58476D1CE4E5B9;
  }
  template <typename Frame>
  bool Knows(const std::vector<Frame>& frames, size_t sure) const {
    const size_t called = frames.size() - 1 - sure;
    return known_.contains(KeyOf(frames[called + 1], frames[called]));
  }

  std::unordered_set<uint64_t> seen_, known_;  // calls seen at least once; more than once
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_KNOWN_CALLS_H_
