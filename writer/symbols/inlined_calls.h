// SPDX-License-Identifier: Apache-2.0
//
// The calls whose functions the compiler inlined, from the debug information of one file. At -O2 whole programs are one
// function otherwise.
//
// Process: the converter. The file is untrusted: work and memory are limited.
#ifndef TBPROF_WRITER_SYMBOLS_INLINED_CALLS_H_
#define TBPROF_WRITER_SYMBOLS_INLINED_CALLS_H_

#include <elfutils/libdw.h>

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace tbprof {

struct InlinedCall {
  std::string function;  // demangled; what was inlined
  std::string file;      // of the call, as the debug information has it; empty: unknown
  int line = 0;          // of the call
};

class InlinedCalls {
 public:
  // Memory that is kept.
  uint64_t bytes() const { return functions_ * sizeof(Function); }

  // Appends the calls that were inlined at `address`, innermost first. False: no function of `unit` contains it.
  bool Find(Dwarf_Die* unit, uint64_t address, std::vector<InlinedCall>* calls);

 private:
  struct Function {
    uint64_t low;
    uint64_t high;
    uint64_t die;  // offset
  };

  bool Look(Dwarf_Die* unit, uint64_t address, std::vector<InlinedCall>* calls);
  const std::vector<Function>& FunctionsOf(Dwarf_Die* unit);
  void AddFunctions(Dwarf_Die* parent, int depth, std::vector<Function>* functions);
  // Puts the call inlined at `address` directly below `parent` into `inlined`.
  bool Step(Dwarf_Die* parent, uint64_t address, Dwarf_Die* inlined, int depth);

  std::unordered_map<uint64_t, std::vector<Function>> units_;  // by offset of the unit; sorted by `low`
  uint64_t functions_ = 0;
  uint64_t visited_ = 0;  // entries of the debug information
  uint64_t spent_ns_ = 0;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_SYMBOLS_INLINED_CALLS_H_
