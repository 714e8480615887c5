// SPDX-License-Identifier: Apache-2.0
#include "writer/base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace tbprof {
namespace {

constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0x82f63b78u : 0);
    table[i] = value;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kTable = MakeTable();

uint32_t ByTable(uint32_t crc, const unsigned char* at, size_t size) {
  for (; size > 0; --size, ++at) crc = (crc >> 8) ^ kTable[(crc ^ *at) & 0xff];
  return crc;
}

#if defined(__x86_64__)
// The CRC-32C instruction has a latency of three cycles and can start every cycle: three lanes are computed at a time,
// and their checksums are then joined. A frame's chunk has ten such blocks.
constexpr size_t kLane = 2048;

// By byte of a checksum: the checksum after kLane more zero bytes, to which the next lane's checksum is added.
struct Shift {
  uint32_t table[4][256];
};
constexpr Shift MakeShift() {
  uint32_t bits[32] = {};
  for (int bit = 0; bit < 32; ++bit) {
    uint32_t value = uint32_t{1} << bit;
    for (size_t i = 0; i < kLane; ++i) value = (value >> 8) ^ kTable[value & 0xff];
    bits[bit] = value;
  }
  Shift shift{};
  for (int byte = 0; byte < 4; ++byte) {
    for (int value = 0; value < 256; ++value) {
      for (int bit = 0; bit < 8; ++bit) {
        if ((value >> bit & 1) != 0) shift.table[byte][value] ^= bits[8 * byte + bit];
      }
    }
  }
  return shift;
}
constexpr Shift kShift = MakeShift();

uint64_t BehindALane(uint64_t crc) {
  return kShift.table[0][crc & 0xff] ^ kShift.table[1][crc >> 8 & 0xff] ^ kShift.table[2][crc >> 16 & 0xff] ^
         kShift.table[3][crc >> 24 & 0xff];
}

uint64_t Word(const unsigned char* at) {
  uint64_t word;
  memcpy(&word, at, sizeof(word));
  return word;
}

__attribute__((target("sse4.2"))) uint32_t ByInstruction(uint32_t crc, const unsigned char* at, size_t size) {
  uint64_t wide = crc;
  for (; size >= 3 * kLane; size -= 3 * kLane, at += 3 * kLane) {
    uint64_t second = 0, third = 0;
    for (size_t i = 0; i < kLane; i += 8) {
      wide = _mm_crc32_u64(wide, Word(at + i));
      second = _mm_crc32_u64(second, Word(at + kLane + i));
      third = _mm_crc32_u64(third, Word(at + 2 * kLane + i));
    }
    wide = BehindALane(BehindALane(wide) ^ second) ^ third;
  }
  for (; size >= 8; size -= 8, at += 8) {
    wide = _mm_crc32_u64(wide, Word(at));
  }
  auto narrow = static_cast<uint32_t>(wide);
  for (; size > 0; --size, ++at) narrow = _mm_crc32_u8(narrow, *at);
  return narrow;
}
#endif

}  // namespace

uint32_t Crc32c(uint32_t crc, const void* data, size_t size) {
  const auto* at = static_cast<const unsigned char*>(data);
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2");
  if (has_instruction) return ~ByInstruction(~crc, at, size);
#endif
  return ~ByTable(~crc, at, size);
}

}  // namespace tbprof
