// SPDX-License-Identifier: Apache-2.0
//
// Source lines and inlined calls of one file with debug information. libdw opens no other file by itself for these
// queries.
//
//   std::unique_ptr<DebugLines> lines = DebugLines::Open(debug_file, code);  // null: none, or too much
//   if (lines->Find(address, &source, &line)) ...
//
// Process: the converter. The files are untrusted.
#ifndef TBPROF_WRITER_SYMBOLS_DEBUG_LINES_H_
#define TBPROF_WRITER_SYMBOLS_DEBUG_LINES_H_

#include <elfutils/libdw.h>
#include <libelf.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "writer/symbols/elf_file.h"
#include "writer/symbols/inlined_calls.h"

namespace tbprof {

inline constexpr char kDebugRoot[] = "/usr/lib/debug";

class DebugLines {
 public:
  // Both files must outlive the result; `code` tells which addresses are code.
  static std::unique_ptr<DebugLines> Open(ElfFile& file, const ElfFile& code);
  ~DebugLines();
  DebugLines(const DebugLines&) = delete;
  DebugLines& operator=(const DebugLines&) = delete;

  // Memory that the debug sections take, and what was decoded of them.
  uint64_t bytes() const { return bytes_ + inlined_.bytes(); }

  // False: the address has no line. `source` as the file has it.
  bool Find(uint64_t address, std::string* source, int* line);
  // The calls whose functions the compiler inlined at the address, innermost first.
  std::vector<InlinedCall> FindInlined(uint64_t address);

 private:
  struct Range {
    uint64_t low;
    uint64_t high;
    uint64_t unit;
  };

  DebugLines() = default;
  bool SetSupplement(ElfFile& file);
  void IndexUnits(const ElfFile& code);
  // Calls visit(unit) for units that may contain the address, until it returns true.
  template <typename Visit>
  bool AtUnits(uint64_t address, Visit visit);

  Elf* elf_ = nullptr;
  Dwarf* dwarf_ = nullptr;
  std::unique_ptr<ElfFile> supplement_file_;
  Elf* supplement_elf_ = nullptr;
  Dwarf* supplement_ = nullptr;
  std::vector<Range> ranges_;
  std::unordered_set<uint64_t> seen_;
  InlinedCalls inlined_;
  uint64_t bytes_ = 0;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_SYMBOLS_DEBUG_LINES_H_
