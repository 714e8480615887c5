// SPDX-License-Identifier: Apache-2.0
//
// Records code objects. Each one is recorded once, with its name, file and line table, and again if another code object
// has taken its place in memory.
//
// Process: target, any thread, any signal handler. Two threads may record the same one. Rules: RULES.md.
#ifndef TBPROF_PRELOAD_PYTHON_CODE_H_
#define TBPROF_PRELOAD_PYTHON_CODE_H_

#include <stdint.h>

#include "preload/python.h"
#include "preload/python_state.h"

namespace tbprof {

// A cache by address, in sets of four. The two words are not one atomic pair: `print` depends on `code`, so that a
// mixed pair matches no code object.
struct PythonKnownCode {
  uint64_t code;
  uint64_t print;
};
inline constexpr uint32_t kPythonCodeWays = 4, kPythonCodeSets = 2048;
struct alignas(64) PythonCodeSet {
  PythonKnownCode ways[kPythonCodeWays];
};
extern __attribute__((visibility("hidden"))) PythonCodeSet g_python_codes[kPythonCodeSets];

// Records a code object and adds it to the cache. Returns its print; 0: not a code object.
uint64_t RecordPythonCode(ThreadState* thread, const PythonInterpreter& python, uint64_t code, uint32_t second);

inline PythonCodeSet* PythonCodeSetOf(uint64_t code) {
  return &g_python_codes[(code >> 4 ^ code >> 15) % kPythonCodeSets];
}

// A hash of the members in which code objects at the same address differ; never 0.
inline __attribute__((always_inline)) uint64_t PrintOf(const PythonLayout& layout, uint64_t code) {
  const auto file = LoadAt<uint64_t>(code + layout.code_file), name = LoadAt<uint64_t>(code + layout.code_name),
             table = LoadAt<uint64_t>(code + layout.code_table);
  const auto line = LoadAt<uint32_t>(code + layout.code_first_line);
  uint64_t print = (file ^ (name << 17 | name >> 47)) * 0xff51afd7ed558ccd;
  print ^= (table ^ uint64_t{line} << 44 ^ code << 16) * 0xc4ceb9fe1a85ec53;
  return print | 1;
}

// Returns the print of a code object, and records the object if it is new. 0: there is no code object at this address.
// `layout`: python.layout, or a constant that is equal.
inline __attribute__((always_inline)) uint64_t KnowPythonCode(ThreadState* thread, const PythonInterpreter& python,
                                                              const PythonLayout& layout, uint64_t code,
                                                              uint32_t second) {
  const PythonCodeSet* const set = PythonCodeSetOf(code);
  for (const PythonKnownCode& known : set->ways) {
    if (__atomic_load_n(&known.code, __ATOMIC_ACQUIRE) != code) continue;
    // The memory was readable when the object was recorded, and the frame keeps this object, or another one in its
    // place, alive.
    if (LoadAt<uint64_t>(code + layout.object_type) != python.code_type) return 0;
    const uint64_t print = PrintOf(layout, code);
    if (__builtin_expect(__atomic_load_n(&known.print, __ATOMIC_ACQUIRE) == print, 1)) return print;
  }
  return RecordPythonCode(thread, python, code, second);
}

}  // namespace tbprof

#endif  // TBPROF_PRELOAD_PYTHON_CODE_H_
