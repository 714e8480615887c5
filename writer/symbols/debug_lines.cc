// SPDX-License-Identifier: Apache-2.0
#include "writer/symbols/debug_lines.h"

#include <dwarf.h>
#include <elf.h>

#include <algorithm>
#include <cstring>

#include "writer/symbols/demangle.h"

namespace tbprof {
namespace {

// libdw reads a file's debug sections as a whole and keeps the decoded data.
constexpr uint64_t kMaxFileDebugBytes = uint64_t{160} << 20;
constexpr uint64_t kBytesPerLine = 64;
constexpr size_t kMaxRanges = size_t{1} << 21;

// The file has lines, and not too much. Adds its size to `bytes`.
bool Usable(ElfFile& file, uint64_t* bytes) {
  bool lines = false, units = false;
  for (const ElfFile::Section& section : file.sections()) {
    if (!section.name.starts_with(".debug_") && !section.name.starts_with(".zdebug_")) continue;
    if (section.type == SHT_NOBITS) continue;
    lines = lines || section.name.ends_with("debug_line");
    units = units || section.name.ends_with("debug_info");
    uint64_t size = section.size;
    if ((section.flags & SHF_COMPRESSED) != 0) {
      Elf64_Chdr header;
      if (!file.Read(section.offset, &header, sizeof(header))) return false;
      size = header.ch_size;
    } else if (section.name.starts_with(".z")) {
      size *= 8;
    }
    if (size > kMaxFileDebugBytes || (*bytes += size) > kMaxFileDebugBytes) return false;
  }
  return lines && units;
}

}  // namespace

std::unique_ptr<DebugLines> DebugLines::Open(ElfFile& file, const ElfFile& code) {
  uint64_t bytes = 0;
  if (!Usable(file, &bytes)) return nullptr;
  std::unique_ptr<DebugLines> lines(new DebugLines);
  lines->bytes_ = bytes;
  elf_version(EV_CURRENT);
  // Read, not mapped: a file that is truncated meanwhile would raise SIGBUS.
  lines->elf_ = elf_begin(file.fd(), ELF_C_READ, nullptr);
  if (lines->elf_ == nullptr) return nullptr;
  lines->dwarf_ = dwarf_begin_elf(lines->elf_, DWARF_C_READ, nullptr);
  if (lines->dwarf_ == nullptr || !lines->SetSupplement(file)) return nullptr;
  lines->IndexUnits(code);
  return lines;
}

DebugLines::~DebugLines() {
  if (dwarf_ != nullptr) dwarf_end(dwarf_);
  if (supplement_ != nullptr) dwarf_end(supplement_);
  if (supplement_elf_ != nullptr) elf_end(supplement_elf_);
  if (elf_ != nullptr) elf_end(elf_);
}

template <typename Visit>
bool DebugLines::AtUnits(uint64_t address, Visit visit) {
  auto after = std::upper_bound(ranges_.begin(), ranges_.end(), address,
                                [](uint64_t wanted, const Range& range) { return wanted < range.low; });
  for (int tries = 0; tries < 4 && after != ranges_.begin(); ++tries) {
    --after;
    Dwarf_Die unit;
    if (address >= after->high || dwarf_offdie(dwarf_, after->unit, &unit) == nullptr) continue;
    if (visit(&unit)) return true;
  }
  return false;
}

bool DebugLines::Find(uint64_t address, std::string* source, int* line) {
  return AtUnits(address, [&](Dwarf_Die* unit) {
    if (seen_.insert(dwarf_dieoffset(unit)).second) {
      Dwarf_Lines* all;
      size_t count = 0;
      if (dwarf_getsrclines(unit, &all, &count) == 0) bytes_ += count * kBytesPerLine;
    }
    Dwarf_Line* found = dwarf_getsrc_die(unit, address);
    const char* name = found != nullptr ? dwarf_linesrc(found, nullptr, nullptr) : nullptr;
    int number = 0;
    if (name == nullptr || dwarf_lineno(found, &number) != 0 || number <= 0) return false;
    source->assign(name, strnlen(name, kMaxNameLength));
    *line = number;
    return true;
  });
}

std::vector<InlinedCall> DebugLines::FindInlined(uint64_t address) {
  std::vector<InlinedCall> calls;
  AtUnits(address, [&](Dwarf_Die* unit) { return inlined_.Find(unit, address, &calls); });
  return calls;
}

// dwz moves shared parts into a second file. libdw would open any path that the section names, even a FIFO.
bool DebugLines::SetSupplement(ElfFile& file) {
  const ElfFile::Section* link = file.FindSection(".gnu_debugaltlink");
  if (link == nullptr) return true;
  if (link->size > 4096) return false;
  std::string content(link->size, '\0');
  if (!file.Read(link->offset, content.data(), content.size())) return false;
  const size_t zero = content.find('\0');
  if (zero == std::string::npos) return false;
  std::unique_ptr<ElfFile> other = OpenDebugFile(kDebugRoot, content.substr(zero + 1));
  uint64_t bytes = bytes_;
  if (other == nullptr) return false;
  Usable(*other, &bytes);  // has no lines of its own; called for the size
  if (bytes > kMaxFileDebugBytes) return false;
  bytes_ = bytes;
  supplement_file_ = std::move(other);
  supplement_elf_ = elf_begin(supplement_file_->fd(), ELF_C_READ, nullptr);
  if (supplement_elf_ == nullptr) return false;
  supplement_ = dwarf_begin_elf(supplement_elf_, DWARF_C_READ, nullptr);
  if (supplement_ == nullptr) return false;
  dwarf_setalt(dwarf_, supplement_);
  return true;
}

// .debug_aranges is not used: clang omits it.
void DebugLines::IndexUnits(const ElfFile& code) {
  Dwarf_CU* unit = nullptr;
  Dwarf_Half version;
  uint8_t kind;
  Dwarf_Die die;
  while (dwarf_get_units(dwarf_, unit, &unit, &version, &kind, &die, nullptr) == 0) {
    if (kind != DW_UT_compile && kind != DW_UT_skeleton) continue;
    Dwarf_Addr base, low, high;
    ptrdiff_t at = 0;
    while (ranges_.size() < kMaxRanges && (at = dwarf_ranges(&die, at, &base, &low, &high)) > 0) {
      // The linker leaves ranges of dropped sections near 0.
      if (low < high && code.IsExecutable(low)) ranges_.push_back({low, high, dwarf_dieoffset(&die)});
    }
  }
  std::sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) { return a.low < b.low; });
  ranges_.shrink_to_fit();
  bytes_ += ranges_.size() * sizeof(Range);
}

}  // namespace tbprof
