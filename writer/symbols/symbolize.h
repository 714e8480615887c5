// SPDX-License-Identifier: Apache-2.0
//
// Converts addresses to `function (file:line)` with elfutils, from the module files and their separate debug files on
// this machine.
//
// Process: the converter. Not thread-safe. Never asks a network service (debuginfod stays off).
#ifndef TBPROF_WRITER_SYMBOLS_SYMBOLIZE_H_
#define TBPROF_WRITER_SYMBOLS_SYMBOLIZE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "writer/symbols/unwind.h"

namespace tbprof {

struct Symbol {
  std::string function;  // demangled; empty if unknown
  std::string file;      // source file as the debug information has it; empty if unknown
  int line = 0;
  std::string module;   // basename of the module; empty if the address lies in none
  uint64_t offset = 0;  // into the module (file virtual address); the address itself if in none

  // `function (file:line)`, else `function (module)`, else `module+0xoffset`, else `0xaddress`. File as basename.
  std::string Text() const;
};

class Symbolizer {
 public:
  Symbolizer();
  ~Symbolizer();
  Symbolizer(const Symbolizer&) = delete;
  Symbolizer& operator=(const Symbolizer&) = delete;

  // `is_return_address`: looks up the instruction before the address, so that a call at the end of a function is not
  // attributed to the next function.
  Symbol Find(const ModuleMap& modules, uint64_t address, bool is_return_address);

  // The same function last, and before it those that the compiler inlined at the address, innermost first. Each has the
  // line in it that runs. Needs debug information; without it there is the function alone.
  std::vector<Symbol> FindWithInlined(const ModuleMap& modules, uint64_t address, bool is_return_address);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_SYMBOLS_SYMBOLIZE_H_
