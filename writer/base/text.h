// SPDX-License-Identifier: Apache-2.0
//
// Concatenates text. absl::StrCat does not accept std::string_view where Abseil was built with its own string_view
// (Debian 12).
#ifndef TBPROF_WRITER_BASE_TEXT_H_
#define TBPROF_WRITER_BASE_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tbprof {

template <typename... Parts>
void StrAppend(std::string* text, const Parts&... parts) {
  const auto append = [text](const auto& part) {
    using Part = std::decay_t<decltype(part)>;
    if constexpr (std::is_integral_v<Part>) {
      static_assert(!std::is_same_v<Part, bool> && !std::is_same_v<Part, char>);
      *text += std::to_string(part);
    } else if constexpr (std::is_convertible_v<const Part&, std::string_view>) {
      *text += std::string_view(part);
    } else {
      text->append(part.data(), part.size());  // absl::string_view
    }
  };
  (append(parts), ...);
}

template <typename... Parts>
std::string StrCat(const Parts&... parts) {
  std::string text;
  StrAppend(&text, parts...);
  return text;
}

// `1 line`, `2 lines`, `3 entries`.
inline std::string Counted(uint64_t count, std::string_view word) {
  if (count == 1) return StrCat(count, " ", word);
  if (word.ends_with('y')) return StrCat(count, " ", word.substr(0, word.size() - 1), "ies");
  return StrCat(count, " ", word, "s");
}

// The part after the last slash.
inline std::string_view BaseName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// The kernel's mark in the paths of /proc for a file that was removed. A file's own name may also end with it.
inline constexpr std::string_view kDeleted = " (deleted)";
inline std::string_view WithoutDeleted(std::string_view path) {
  return path.substr(0, path.size() - (path.ends_with(kDeleted) ? kDeleted.size() : 0));
}

// The status with `text` appended to its message.
inline absl::Status Annotated(const absl::Status& status, std::string_view text) {
  return absl::Status(status.code(), StrCat(status.message(), text));
}

// For flat_hash_map and flat_hash_set of std::string: look-up by std::string_view without a copy.
struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
using TextEqual = std::equal_to<>;

}  // namespace tbprof

#endif  // TBPROF_WRITER_BASE_TEXT_H_
