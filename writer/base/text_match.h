// SPDX-License-Identifier: Apache-2.0
//
// Whether a text begins with, or contains, one of several strings.
//
// Process: any process of tbprof.
#ifndef TBPROF_WRITER_BASE_TEXT_MATCH_H_
#define TBPROF_WRITER_BASE_TEXT_MATCH_H_

#include <algorithm>
#include <initializer_list>
#include <string_view>

namespace tbprof {

inline bool StartsWithAny(std::string_view text, std::initializer_list<std::string_view> beginnings) {
  return std::ranges::any_of(beginnings, [&](std::string_view beginning) { return text.starts_with(beginning); });
}
inline bool ContainsAny(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::ranges::any_of(parts, [&](std::string_view part) { return text.find(part) != std::string_view::npos; });
}

}  // namespace tbprof

#endif  // TBPROF_WRITER_BASE_TEXT_MATCH_H_
