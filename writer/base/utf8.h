// SPDX-License-Identifier: Apache-2.0
//
// Makes text from a target (names, paths, command lines) valid for protobuf, JSON and terminals.
#ifndef TBPROF_WRITER_BASE_UTF8_H_
#define TBPROF_WRITER_BASE_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace tbprof {

// Length of the longest prefix that is structurally valid UTF-8 (no overlong forms, surrogates, values over 10FFFF).
size_t ValidUtf8Prefix(std::string_view text);

// The text with every invalid byte shown as `\xNN`, so that different byte strings mostly stay different.
std::string ValidUtf8(std::string_view text);

// ValidUtf8, and control characters (C0, DEL, C1, bidirectional overrides) escaped as well: safe on a terminal.
std::string PrintableUtf8(std::string_view text);

// The longest prefix of at most `max_bytes` bytes that does not cut a character. `text` must be valid UTF-8.
std::string_view TruncateUtf8(std::string_view text, size_t max_bytes);

// Columns the text takes on a terminal, counted as code points. `text` must be valid UTF-8.
size_t Utf8Columns(std::string_view text);

// At most `columns` code points; a longer text loses its middle (`abc…xyz`) or, with `keep_end` false, its end.
std::string FitColumns(std::string_view text, size_t columns, bool keep_end = false);

}  // namespace tbprof

#endif  // TBPROF_WRITER_BASE_UTF8_H_
