// SPDX-License-Identifier: Apache-2.0
//
// A hash that is the same in each build and process. absl::HashOf is seeded by the address of a variable, so results
// that are computed from it (such as steps) would differ between two builds.
#ifndef TBPROF_WRITER_BASE_STABLE_HASH_H_
#define TBPROF_WRITER_BASE_STABLE_HASH_H_

#include <cstdint>

namespace tbprof {

// The finalizer of splitmix64 (Steele, Lea, Flood 2014).
constexpr uint64_t MixBits(uint64_t value) {
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
  value = (value ^ value >> 27) * 0x94d049bb133111ebu;
  return value ^ value >> 31;
}

template <typename... Values>
constexpr uint64_t StableHash(Values... values) {
  uint64_t hash = 0;
  ((hash = MixBits(hash + 0x9e3779b97f4a7c15u + static_cast<uint64_t>(values))), ...);
  return hash;
}

}  // namespace tbprof

#endif  // TBPROF_WRITER_BASE_STABLE_HASH_H_
