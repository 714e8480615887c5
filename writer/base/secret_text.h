// SPDX-License-Identifier: Apache-2.0
//
// Masks secrets in one piece of text: a word of a command line, a URL, a shell script, source code, JSON.
#ifndef TBPROF_WRITER_BASE_SECRET_TEXT_H_
#define TBPROF_WRITER_BASE_SECRET_TEXT_H_

#include <string>
#include <string_view>

namespace tbprof {

inline constexpr std::string_view kMask = "***";

enum class TextKind {
  kWord,          // `password=two words` is one value
  kWordOfScript,  // the same, but `$NAME` is a reference, not a value
  kScript,        // a shell script: a blank ends a value
};
std::string MaskText(std::string text, TextKind kind);

// `$HF_TOKEN`, `${HF_TOKEN}`
bool IsReference(std::string_view value);

// `me:pw`, `me:pw@host`: finds the position of the password. Returns false if there is none.
bool FindPasswordOfUser(std::string_view text, bool host_follows, size_t* begin, size_t* end);

}  // namespace tbprof

#endif  // TBPROF_WRITER_BASE_SECRET_TEXT_H_
