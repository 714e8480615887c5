// SPDX-License-Identifier: Apache-2.0
//
// Code objects: each is recorded once, with its name, its file and its line table, and again when another one has taken
// its place in memory.
//
// Process: target, any thread, any signal handler. Two threads may record the same one. Rules: RULES.md.
#ifndef TBPROF_PRELOAD_PYTHON_CODE_H_
#define TBPROF_PRELOAD_PYTHON_CODE_H_

#include <stdint.h>

#include "preload/python.h"
#include "preload/python_state.h"

namespace tbprof {

// By address, in sets of four. Two words are no atomic pair: `print` depends on `code`, so that a mixed pair fits none.
struct PythonKnownCode {
  uint64_t code;
  uint64_t print;
};
inline constexpr uint32_t kPythonCodeWays = 4, kPythonCodeSets = 2048;
struct alignas(64) PythonCodeSet {
  PythonKnownCode ways[kPythonCodeWays];
};
extern __attribute__((visibility("hidden"))) PythonCodeSet g_python_codes[kPythonCodeSets];

// Records it and remembers it. 0: it is no code object.
uint64_t RecordPythonCode(ThreadState* thread, const PythonInterpreter& python, uint64_t code, uint32_t second);

inline PythonCodeSet* PythonCodeSetOf(uint64_t code) {
  return &g_python_codes[(code >> 4 ^ code >> 15) % kPythonCodeSets];
}

// Of what tells a code object from another one at the same address; never 0.
inline __attribute__((always_inline)) uint64_t PrintOf(const PythonLayout& layout, uint64_t code) {
  const auto file = LoadAt<uint64_t>(code + layout.code_file), name = LoadAt<uint64_t>(code + layout.code_name),
             table = LoadAt<uint64_t>(code + layout.code_table);
  const auto line = LoadAt<uint32_t>(code + layout.code_first_line);
  uint64_t print = (file ^ (name << 17 | name >> 47)) * 0xff51afd7ed558ccd;
  print ^= (table ^ uint64_t{line} << 44 ^ code << 16) * 0xc4ceb9fe1a85ec53;
  return print | 1;
}

// The print of a code object that is recorded; 0: there is none at this address.
// `layout`: python.layout, or a constant that is equal.
inline __attribute__((always_inline)) uint64_t KnowPythonCode(ThreadState* thread, const PythonInterpreter& python,
                                                              const PythonLayout& layout, uint64_t code,
                                                              uint32_t second) {
  const PythonCodeSet* const set = PythonCodeSetOf(code);
  for (const PythonKnownCode& known : set->ways) {
    if (__atomic_load_n(&known.code, __ATOMIC_ACQUIRE) != code) continue;
    // It was readable when it was recorded, and the frame that it is of keeps it, or another one there.
    if (LoadAt<uint64_t>(code + layout.object_type) != python.code_type) return 0;
    const uint64_t print = PrintOf(layout, code);
    if (__builtin_expect(__atomic_load_n(&known.print, __ATOMIC_ACQUIRE) == print, 1)) return print;
  }
  return RecordPythonCode(thread, python, code, second);
}

}  // namespace tbprof

#endif  // TBPROF_PRELOAD_PYTHON_CODE_H_
