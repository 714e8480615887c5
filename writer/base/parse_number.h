// SPDX-License-Identifier: Apache-2.0
//
// Decimal numbers in untrusted text: no blank, no `+`, no value that is out of range.
//
//   const int port = ParseNumber<int>("6009").value_or(-1);
//
// Process: launcher and converter.
#ifndef TBPROF_WRITER_BASE_PARSE_NUMBER_H_
#define TBPROF_WRITER_BASE_PARSE_NUMBER_H_

#include <charconv>
#include <cstddef>
#include <optional>
#include <string_view>
#include <system_error>

namespace tbprof {

// Removes the number at the front of `text` and returns it.
template <typename Number>
std::optional<Number> TakeNumber(std::string_view* text) {
  Number number{};
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc()) return std::nullopt;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return number;
}

// The number at the beginning of `text`; the rest is ignored.
template <typename Number>
std::optional<Number> LeadingNumber(std::string_view text) {
  return TakeNumber<Number>(&text);
}

// The number, if the whole `text` is one.
template <typename Number>
std::optional<Number> ParseNumber(std::string_view text) {
  const std::optional<Number> number = TakeNumber<Number>(&text);
  return text.empty() ? number : std::nullopt;
}

}  // namespace tbprof

#endif  // TBPROF_WRITER_BASE_PARSE_NUMBER_H_
