// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/python_text.h"

#include <algorithm>
#include <cstring>

namespace tbprof {

std::string PythonTextToUtf8(std::string_view units, size_t unit_bytes, size_t max_bytes) {
  std::string text;
  for (size_t at = 0; at + unit_bytes <= units.size(); at += unit_bytes) {
    uint32_t c = 0;
    std::memcpy(&c, units.data() + at, unit_bytes);
    char bytes[4];
    const size_t count = PutUtf8(c, bytes);
    if (text.size() + count > max_bytes) break;
    text.append(bytes, count);
  }
  return text;
}

std::optional<std::string> ReadPythonText(const PythonLayout& layout, uint64_t address, size_t max_bytes,
                                          const std::function<bool(uint64_t address, void* out, size_t size)>& read) {
  uint8_t head[128];
  if (!IsPointer(address) || layout.text_compact > sizeof(head)) return std::nullopt;
  if (!read(address, head, layout.text_ascii)) return std::nullopt;
  uint32_t word;
  int64_t length;
  std::memcpy(&word, head + layout.text_state, sizeof(word));
  std::memcpy(&length, head + layout.text_length, sizeof(length));
  const PythonTextState state(word);
  if (!state.valid() || length < 0 || length > 1 << 20) return std::nullopt;
  uint64_t data = address + (state.ascii ? layout.text_ascii : layout.text_compact);
  if (!state.compact && !read(address + layout.text_data, &data, sizeof(data))) return std::nullopt;
  std::string units(std::min<size_t>(static_cast<size_t>(length), max_bytes) * state.unit_bytes, '\0');
  if (!units.empty() && !read(data, units.data(), units.size())) return std::nullopt;
  return PythonTextToUtf8(units, state.unit_bytes, max_bytes);
}

}  // namespace tbprof
