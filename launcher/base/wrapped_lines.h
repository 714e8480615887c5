// SPDX-License-Identifier: Apache-2.0
//
// Breaks a sentence into lines for a terminal.
//
//   WrappedLines("the step takes 4.1 % longer", 20, 3)   // {"the step takes 4.1 %", "      longer"}
//
// Process: launcher. A pure function.
#ifndef TBPROF_LAUNCHER_BASE_WRAPPED_LINES_H_
#define TBPROF_LAUNCHER_BASE_WRAPPED_LINES_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tbprof {

// At most `most` lines of at most `columns` columns, broken at blanks, but not between a number and its unit; the last
// is cut at its end if the rest is too long. Lines after the first are indented by six columns. `text` is valid UTF-8.
std::vector<std::string> WrappedLines(std::string_view text, size_t columns, size_t most);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_BASE_WRAPPED_LINES_H_
