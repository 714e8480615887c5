// SPDX-License-Identifier: Apache-2.0
//
// Functions on texts, in addition to those of writer/base/text.h. InvalidArgument and Unavailable take
// std::string_view: Abseil's functions do not if Abseil was built with its own string_view (Debian 12).
#ifndef TBPROF_LAUNCHER_BASE_TEXT_H_
#define TBPROF_LAUNCHER_BASE_TEXT_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "writer/base/text.h"

namespace tbprof {

inline std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t end; (end = text.find(separator)) != std::string_view::npos; text.remove_prefix(end + 1)) {
    parts.push_back(text.substr(0, end));
  }
  parts.push_back(text);
  return parts;
}

inline std::string_view Strip(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n\f\v";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

inline std::string Replace(std::string_view text, char from, char to) {
  std::string replaced(text);
  for (char& c : replaced) c = c == from ? to : c;
  return replaced;
}

inline std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return lower;
}

inline std::string UpperCase(std::string_view text) {
  std::string upper(text);
  for (char& c : upper) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
  return upper;
}

inline std::string ToText(const absl::Status& status) { return std::string(status.message()); }

inline absl::Status InvalidArgument(std::string_view message) {
  return absl::InvalidArgumentError(absl::string_view(message.data(), message.size()));
}
inline absl::Status Unavailable(std::string_view message) {
  return absl::UnavailableError(absl::string_view(message.data(), message.size()));
}

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_BASE_TEXT_H_
