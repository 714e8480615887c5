// SPDX-License-Identifier: Apache-2.0
#include "writer/base/utf8.h"

#include <cstdint>

namespace tbprof {
namespace {

// Length of the valid character at the front, 0 if there is none.
size_t CharacterLength(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  auto continues = [&](size_t i) { return i < text.size() && (byte(i) & 0xC0) == 0x80; };
  if (text.empty()) return 0;
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;
  if (!continues(1)) return 0;
  if (lead < 0xE0) return 2;
  if (lead < 0xF0) {
    if (lead == 0xE0 && byte(1) < 0xA0) return 0;
    if (lead == 0xED && byte(1) >= 0xA0) return 0;
    return continues(2) ? 3 : 0;
  }
  if (lead > 0xF4) return 0;
  if (lead == 0xF0 && byte(1) < 0x90) return 0;
  if (lead == 0xF4 && byte(1) >= 0x90) return 0;
  return continues(2) && continues(3) ? 4 : 0;
}

void AppendHex(std::string& out, uint8_t byte) {
  static constexpr char kDigits[] = "0123456789abcdef";
  out += "\\x";
  out += kDigits[byte >> 4];
  out += kDigits[byte & 15];
}

// C1 controls are C2 80..C2 9F; U+200E/F, U+2028..202E and U+2066..2069 reorder or break lines on a terminal.
bool IsUnprintable(std::string_view character) {
  if (character.size() == 1) return static_cast<uint8_t>(character[0]) < 0x20 || character[0] == 0x7F;
  if (character.size() == 2) return character[0] == '\xC2' && static_cast<uint8_t>(character[1]) < 0xA0;
  if (character.size() != 3 || character[0] != '\xE2') return false;
  const uint8_t second = static_cast<uint8_t>(character[1]);
  const uint8_t third = static_cast<uint8_t>(character[2]);
  if (second == 0x80) return third == 0x8E || third == 0x8F || (third >= 0xA8 && third <= 0xAE);
  return second == 0x81 && third >= 0xA6 && third <= 0xA9;
}

std::string Escape(std::string_view text, bool controls) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t length = CharacterLength(text);
    if (length == 0) {
      AppendHex(out, static_cast<uint8_t>(text[0]));
      text.remove_prefix(1);
      continue;
    }
    const std::string_view character = text.substr(0, length);
    if (!controls || !IsUnprintable(character)) {
      out += character;
    } else if (character == "\n") {
      out += "\\n";
    } else if (character == "\t") {
      out += "\\t";
    } else {
      for (char c : character) AppendHex(out, static_cast<uint8_t>(c));
    }
    text.remove_prefix(length);
  }
  return out;
}

}  // namespace

size_t ValidUtf8Prefix(std::string_view text) {
  size_t done = 0;
  while (done < text.size()) {
    if (static_cast<uint8_t>(text[done]) < 0x80) {
      ++done;
      continue;
    }
    const size_t length = CharacterLength(text.substr(done));
    if (length == 0) break;
    done += length;
  }
  return done;
}

std::string ValidUtf8(std::string_view text) {
  if (ValidUtf8Prefix(text) == text.size()) return std::string(text);
  return Escape(text, /*controls=*/false);
}

std::string PrintableUtf8(std::string_view text) { return Escape(text, /*controls=*/true); }

std::string_view TruncateUtf8(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  size_t end = max_bytes;
  while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end);
}

size_t Utf8Columns(std::string_view text) {
  size_t columns = 0;
  for (char c : text) columns += (static_cast<uint8_t>(c) & 0xC0) != 0x80;
  return columns;
}

std::string FitColumns(std::string_view text, size_t columns, bool keep_end) {
  const size_t have = Utf8Columns(text);
  if (have <= columns) return std::string(text);
  if (columns == 0) return "";
  // Byte position after `count` code points.
  auto skip = [&](size_t count) {
    size_t at = 0;
    while (at < text.size() && count > 0) {
      ++at;
      while (at < text.size() && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) ++at;
      --count;
    }
    return at;
  };
  const size_t tail = keep_end ? (columns - 1) / 2 : 0;
  const size_t head = columns - 1 - tail;
  return std::string(text.substr(0, skip(head))) + "…" + std::string(text.substr(skip(have - tail)));
}

}  // namespace tbprof
