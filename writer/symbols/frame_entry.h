// SPDX-License-Identifier: Apache-2.0
//
// Checks a module's unwind tables before libunwind reads them. libunwind 1.6 does not check its input: a return address
// column or DW_CFA_register operand out of range is an index out of its arrays, DW_OP_mod divides by zero, and a branch
// in an expression may loop forever.
//
// Process: the converter.
#ifndef TBPROF_WRITER_SYMBOLS_FRAME_ENTRY_H_
#define TBPROF_WRITER_SYMBOLS_FRAME_ENTRY_H_

#include <cstdint>

#include "writer/symbols/elf_file.h"

namespace tbprof {

// The binary search table of .eh_frame_hdr: pairs of (function, its frame entry), both relative to the header.
struct FrameTable {
  uint64_t header = 0;
  uint64_t entries = 0;
  uint64_t count = 0;
};

// Returns false if the file has no table in the form that every linker writes.
bool FindFrameTable(ElfFile& file, FrameTable* table);

struct FrameEntry {
  uint64_t table_entry = 0;  // address of its pair in the table
  bool signal_frame = false;
};

// Finds the table's entry for `pc`. Returns false unless its encodings, register numbers and instructions are of the
// kinds that compilers use.
bool FindFrameEntry(ElfFile& file, const FrameTable& table, uint64_t pc, FrameEntry* found);

}  // namespace tbprof

#endif  // TBPROF_WRITER_SYMBOLS_FRAME_ENTRY_H_
