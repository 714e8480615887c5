// SPDX-License-Identifier: Apache-2.0
#include "launcher/base/wrapped_lines.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

constexpr size_t kIndent = 6;

// Whether the blank at `at` stands between a number and its unit.
bool IsBeforeUnit(std::string_view text, size_t at) {
  if (at == 0 || !absl::ascii_isdigit(static_cast<unsigned char>(text[at - 1]))) return false;
  constexpr std::string_view kUnits[] = {"%", "ns", "us", "ms", "s", "min", "h", "B", "KiB", "MiB", "GiB", "TiB"};
  std::string_view next = text.substr(at + 1);
  next = next.substr(0, next.find_first_of(" ,;:)"));
  return std::ranges::find(kUnits, next) != std::end(kUnits);
}

// Where a first line of at most `columns` columns ends; npos: nowhere.
size_t LastBreak(std::string_view text, size_t columns) {
  size_t last = std::string_view::npos;
  for (size_t at = text.find(' '); at != std::string_view::npos; at = text.find(' ', at + 1)) {
    if (Utf8Columns(text.substr(0, at)) > columns) break;
    if (!IsBeforeUnit(text, at)) last = at;
  }
  return last;
}

}  // namespace

std::vector<std::string> WrappedLines(std::string_view text, size_t columns, size_t most) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::string indent(lines.empty() ? 0 : kIndent, ' ');
    const size_t room = columns - std::min(columns, indent.size());
    size_t end = std::string_view::npos;
    if (lines.size() + 1 < most && Utf8Columns(text) > room) end = LastBreak(text, room);
    lines.push_back(FitColumns(indent + std::string(text.substr(0, end)), columns));
    text = end == std::string_view::npos ? "" : text.substr(end + 1);
  }
  return lines;
}

}  // namespace tbprof
