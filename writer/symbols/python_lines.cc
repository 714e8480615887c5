// SPDX-License-Identifier: Apache-2.0
#include "writer/symbols/python_lines.h"

#include <cstddef>

namespace tbprof {
namespace {

// The formats of other versions are unknown.
constexpr uint16_t kOldestMinor = 8, kNewestMinor = 15;
constexpr uint16_t kFirstWithRanges = 10;
constexpr uint16_t kFirstWithLocations = 11;
constexpr int32_t kCodeUnitBytes = 2;

// A corrupt table may contain any lines and offsets: they are unsigned, so that they wrap.
int32_t Checked(uint32_t line) { return line <= INT32_MAX ? static_cast<int32_t>(line) : kNoPythonLine; }

// Pairs (bytes of code, lines), both relative; Objects/lnotab_notes.txt of CPython 3.8.
int32_t LineOfLnotab(std::string_view table, uint32_t line, uint32_t instruction) {
  uint64_t address = 0;
  for (size_t at = 0; at + 1 < table.size(); at += 2) {
    address += static_cast<uint8_t>(table[at]);
    if (address > instruction) break;
    line += static_cast<uint32_t>(static_cast<int8_t>(table[at + 1]));
  }
  return Checked(line);
}

// Pairs (bytes of code in the range, line difference to the previous range; -128: the range has no line); PEP 626.
int32_t LineOfRanges(std::string_view table, uint32_t line, uint32_t instruction) {
  constexpr int8_t kNoLine = -128;
  uint64_t end = 0;
  for (size_t at = 0; at + 1 < table.size(); at += 2) {
    end += static_cast<uint8_t>(table[at]);
    const auto change = static_cast<int8_t>(table[at + 1]);
    if (change != kNoLine) line += static_cast<uint32_t>(change);
    if (end > instruction) return change == kNoLine ? kNoPythonLine : Checked(line);
  }
  return kNoPythonLine;
}

// Six bits per byte, least significant first; bit 6: more bytes follow. Bit 0 of the number is the sign.
uint32_t SignedVarint(std::string_view bytes) {
  uint32_t value = 0;
  uint32_t shift = 0;
  for (const char byte : bytes) {
    if (shift < 32) value |= static_cast<uint32_t>(byte & 63) << shift;
    shift += 6;
    if ((byte & 64) == 0) break;
  }
  return (value & 1) != 0 ? 0u - (value >> 1) : value >> 1;
}

// An entry is one byte with bit 7 set (`1 kind:4 units-1:3`) and bytes without it; Objects/locations.md of CPython
// 3.11.
int32_t LineOfLocations(std::string_view table, uint32_t line, uint32_t instruction) {
  enum Kind : uint8_t { kOneLine0 = 10, kOneLine1 = 11, kOneLine2 = 12, kNoColumns = 13, kLong = 14, kNone = 15 };
  uint64_t end = 0;
  for (size_t at = 0; at < table.size();) {
    const auto first = static_cast<uint8_t>(table[at++]);
    const size_t begin = at;
    while (at < table.size() && (static_cast<uint8_t>(table[at]) & 0x80) == 0) ++at;
    const uint8_t kind = first >> 3 & 15;
    if (kind >= kOneLine0 && kind <= kOneLine2) line += uint32_t{kind} - kOneLine0;
    if (kind == kNoColumns || kind == kLong) line += SignedVarint(table.substr(begin, at - begin));
    end += static_cast<uint32_t>(((first & 7) + 1) * kCodeUnitBytes);
    if (end > instruction) return kind == kNone ? kNoPythonLine : Checked(line);
  }
  return kNoPythonLine;
}

}  // namespace

int32_t LineOfInstruction(uint16_t minor, std::string_view table, int32_t first_line, int32_t instruction) {
  if (minor < kOldestMinor || minor > kNewestMinor || instruction < 0) return kNoPythonLine;
  const auto line = static_cast<uint32_t>(first_line);
  const auto offset = static_cast<uint32_t>(instruction);
  if (minor < kFirstWithRanges) return LineOfLnotab(table, line, offset);
  if (minor < kFirstWithLocations) return LineOfRanges(table, line, offset);
  return LineOfLocations(table, line, offset);
}

}  // namespace tbprof
