// SPDX-License-Identifier: Apache-2.0
//
// The number of an annotation's name. The library computes it for the program's annotations, the launcher for the name
// for which a window waits.
//
// Process: target and launcher. No allocation; any thread, any signal handler.
#ifndef TBPROF_WIRE_NAME_NUMBER_H_
#define TBPROF_WIRE_NAME_NUMBER_H_

#include <stddef.h>
#include <stdint.h>

namespace tbprof {

// The maximum length of a name. Longer names are cut, and names with the same beginning then become one.
inline constexpr size_t kMaxAnnotationName = 1024;

namespace name_number_internal {
inline uint64_t Mix(uint64_t hash, uint64_t word) {
  const unsigned __int128 product = static_cast<unsigned __int128>(hash ^ word) * 0x9e3779b97f4a7c15ull;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}
}  // namespace name_number_internal

// Never 0. The chance that two of 10^5 names have one number is that of 10^5 random values in 2^64.
inline uint64_t NameNumberOf(const char* text, size_t length) {
  uint64_t hash = 0x2545f4914f6cdd1dull + length;
  size_t at = 0;
  for (; at + 8 <= length; at += 8) {
    uint64_t word;
    __builtin_memcpy(&word, text + at, 8);
    hash = name_number_internal::Mix(hash, word);
  }
  uint64_t rest = 0;
  for (size_t i = 0; at + i < length; ++i) rest |= static_cast<uint64_t>(static_cast<uint8_t>(text[at + i])) << (8 * i);
  hash = name_number_internal::Mix(hash ^ 0x632be59bd9b4e019ull, rest);
  return hash == 0 ? 1 : hash;
}

}  // namespace tbprof

#endif  // TBPROF_WIRE_NAME_NUMBER_H_
