// SPDX-License-Identifier: Apache-2.0
//
// The source line of a CPython bytecode instruction, from the line table of its code object: the result of
// PyCode_Addr2Line. Three formats: co_lnotab (3.8, 3.9), co_linetable of 3.10, the location table (3.11 and later).
//
// Process: converter. Pure function. The table and the instruction are untrusted: they come from a target's memory.
#ifndef TBPROF_WRITER_SYMBOLS_PYTHON_LINES_H_
#define TBPROF_WRITER_SYMBOLS_PYTHON_LINES_H_

#include <cstdint>
#include <string_view>

namespace tbprof {

inline constexpr int32_t kNoPythonLine = -1;

// `minor`: 11 for 3.11. `instruction`: byte offset into the code. kNoPythonLine: the table has no line for it.
int32_t LineOfInstruction(uint16_t minor, std::string_view table, int32_t first_line, int32_t instruction);

}  // namespace tbprof

#endif  // TBPROF_WRITER_SYMBOLS_PYTHON_LINES_H_
