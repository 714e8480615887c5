// SPDX-License-Identifier: Apache-2.0
//
// Line tables of Python's code objects, which come from a target's memory. Version, first line and instruction come
// first.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "writer/symbols/python_lines.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  struct {
    uint8_t minor;
    int32_t first_line, instruction;
  } head;
  constexpr size_t kHead = 1 + 2 * sizeof(int32_t);
  if (size < kHead) return 0;
  head.minor = data[0] % 16;
  memcpy(&head.first_line, data + 1, sizeof(int32_t));
  memcpy(&head.instruction, data + 1 + sizeof(int32_t), sizeof(int32_t));
  const std::string_view table(reinterpret_cast<const char*>(data) + kHead, size - kHead);
  if (tbprof::LineOfInstruction(head.minor, table, head.first_line, head.instruction) < tbprof::kNoPythonLine) abort();
  return 0;
}
