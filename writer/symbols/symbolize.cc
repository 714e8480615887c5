// SPDX-License-Identifier: Apache-2.0
#include "writer/symbols/symbolize.h"

#include <cxxabi.h>
#include <dwarf.h>
#include <elf.h>
#include <elfutils/libdw.h>
#include <libelf.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/symbols/elf_file.h"
#include "writer/symbols/rust_names.h"

// Exists only in libstdc++.a, next to __cxa_demangle. It returns the text in pieces, so that the caller can stop.
extern "C" __attribute__((weak)) int __gcclibcxx_demangle_callback(const char*, void (*)(const char*, size_t, void*),
                                                                   void*);

namespace tbprof {
namespace {

constexpr size_t kMaxSymbols = size_t{1} << 23;
constexpr size_t kMaxNameLength = 4096;
constexpr size_t kMaxOpenFiles = 200;
constexpr size_t kMaxCached = size_t{1} << 18;
// libdw reads a file's debug sections as a whole and keeps the decoded data. The limits apply to one file, and to all.
constexpr uint64_t kMaxFileDebugBytes = uint64_t{160} << 20;
constexpr uint64_t kMaxDebugBytes = uint64_t{256} << 20;
constexpr int kMaxReopened = 8;
constexpr uint64_t kBytesPerLine = 64;
constexpr char kDebugRoot[] = "/usr/lib/debug";

std::string ModuleName(const std::string& path) {
  std::string_view name = BaseName(path);
  constexpr std::string_view kDeleted = " (deleted)";
  if (name.ends_with(kDeleted)) name.remove_suffix(kDeleted.size());
  return name.empty() ? "[unknown]" : PrintableUtf8(std::string(name));
}

// The C library and its loader. Users need no lines in them, and reading their separate debug file takes longer than
// all the rest of a short run's conversion: libdw decompresses the whole file (docs/decisions/040-fast-end.md).
bool IsCLibrary(const std::string& path) {
  const std::string_view name = BaseName(path);
  return name.starts_with("libc.so.") || name.starts_with("libc-2.") || name.starts_with("ld-linux") ||
         name.starts_with("ld-2.");
}

struct DemangledText {
  char bytes[4 * kMaxNameLength];
  size_t size = 0;
  jmp_buf too_long;
};

void AppendDemangled(const char* piece, size_t size, void* argument) {
  auto* text = static_cast<DemangledText*>(argument);
  if (size > sizeof(text->bytes) - text->size) longjmp(text->too_long, 1);
  memcpy(text->bytes + text->size, piece, size);
  text->size += size;
}

// 200 bytes of mangled name can stand for gigabytes of text. The demangler is C and holds no resource when it calls
// back.
__attribute__((noinline)) bool DemangleInto(const char* name, DemangledText* text) {
  return setjmp(text->too_long) == 0 && __gcclibcxx_demangle_callback(name, AppendDemangled, text) == 0;
}

}  // namespace

std::string Demangle(std::string name) {
  // GNU ld appends the version: memcpy@@GLIBC_2.14.
  if (const size_t version = name.find('@'); version != std::string::npos && version > 0) {
    name.resize(version);
  }
  if (name.starts_with("_Z") && __gcclibcxx_demangle_callback != nullptr) {
    auto text = std::make_unique<DemangledText>();
    if (DemangleInto(name.c_str(), text.get())) name.assign(text->bytes, text->size);
  } else if (name.starts_with("_Z")) {
    int status = 0;
    char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
    if (text != nullptr && status == 0) name.assign(text, strnlen(text, 4 * kMaxNameLength));
    free(text);
  }
  if (auto rust = name.starts_with("_R") ? RustName(name) : OldRustName(name)) name = *std::move(rust);
  return PrintableUtf8(std::move(name));
}

namespace {

// Functions of one module, sorted by address; names stay in the files.
class SymbolIndex {
 public:
  // `code` decides which addresses are code: a debug file has the section headers, but not always the segments.
  void Add(ElfFile& from, const ElfFile& code, bool debug_file) {
    const std::vector<ElfFile::Section>& sections = from.sections();
    const auto table =
        std::find_if(sections.begin(), sections.end(), [](const auto& section) { return section.type == SHT_SYMTAB; });
    const auto exported =
        std::find_if(sections.begin(), sections.end(), [](const auto& section) { return section.type == SHT_DYNSYM; });
    if (table != sections.end()) {
      has_full_table_ = true;
      AddTable(from, code, *table, debug_file);
    } else if (exported != sections.end() && !debug_file) {
      AddTable(from, code, *exported, debug_file);
    }
  }

  void Finish() {
    std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
      if (a.address != b.address) return a.address < b.address;
      return a.rank != b.rank ? a.rank < b.rank : a.name_offset < b.name_offset;
    });
    const auto same = [](const Entry& a, const Entry& b) { return a.address == b.address; };
    entries_.erase(std::unique(entries_.begin(), entries_.end(), same), entries_.end());
    entries_.shrink_to_fit();
  }

  bool has_full_table() const { return has_full_table_; }

  // Finds the file to read the name from, and the offset. Returns false if no function covers the address.
  bool Find(uint64_t address, bool* in_debug_file, uint64_t* name_offset) const {
    auto after = std::upper_bound(entries_.begin(), entries_.end(), address,
                                  [](uint64_t wanted, const Entry& entry) { return wanted < entry.address; });
    // A few steps back: a short function may lie within a longer one's range.
    for (int tries = 0; tries < 4 && after != entries_.begin(); ++tries) {
      --after;
      const uint64_t at = address - after->address;
      // Functions in assembler often have no size: such a function extends to the next one, or to its section's end.
      const bool covers = at < after->size && (after->has_size || tries == 0);
      if (!covers) continue;
      *in_debug_file = after->debug_file;
      *name_offset = after->name_offset;
      return true;
    }
    return false;
  }

 private:
  static constexpr uint64_t kMaxUnsized = 4096;

  struct Entry {
    uint64_t address;
    uint64_t name_offset;  // in the file
    uint32_t size;         // of one without a size: the most that it can have
    bool has_size;
    uint8_t rank;  // among several names for an address, the lowest rank is used
    bool debug_file;
  };

  void AddTable(ElfFile& from, const ElfFile& code, const ElfFile::Section& table, bool debug_file) {
    constexpr size_t kBatch = 4096;
    const std::vector<ElfFile::Section>& sections = from.sections();
    if (table.link >= sections.size() || table.size > from.size()) return;
    const ElfFile::Section& names = sections[table.link];
    const size_t count = std::min<uint64_t>(table.size / sizeof(Elf64_Sym), kMaxSymbols);
    std::vector<Elf64_Sym> batch(std::min(count, kBatch));
    for (size_t done = 0; done < count; done += batch.size()) {
      batch.resize(std::min(count - done, kBatch));
      uint64_t offset;
      if (__builtin_add_overflow(table.offset, done * sizeof(Elf64_Sym), &offset) ||
          !from.Read(offset, batch.data(), batch.size() * sizeof(Elf64_Sym))) {
        return;
      }
      for (const Elf64_Sym& symbol : batch) AddSymbol(symbol, names, sections, code, debug_file);
    }
  }

  static uint64_t MostBytes(const Elf64_Sym& symbol, const std::vector<ElfFile::Section>& sections) {
    if (symbol.st_size > 0) return symbol.st_size;
    if (symbol.st_shndx >= sections.size()) return kMaxUnsized;
    const ElfFile::Section& section = sections[symbol.st_shndx];
    const uint64_t at = symbol.st_value - section.address;
    return at < section.size ? std::min(kMaxUnsized, section.size - at) : kMaxUnsized;
  }

  void AddSymbol(const Elf64_Sym& symbol, const ElfFile::Section& names, const std::vector<ElfFile::Section>& sections,
                 const ElfFile& code, bool debug_file) {
    const unsigned type = ELF64_ST_TYPE(symbol.st_info);
    // Labels without a size are boundaries (etext) or marks of the assembler, not functions.
    const bool label = type == STT_NOTYPE && symbol.st_size > 0;
    if (type != STT_FUNC && type != STT_GNU_IFUNC && !label) return;
    if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx == SHN_ABS || symbol.st_name == 0 ||
        symbol.st_name >= names.size || !code.IsExecutable(symbol.st_value) || entries_.size() >= kMaxSymbols) {
      return;
    }
    const unsigned binding = ELF64_ST_BIND(symbol.st_info);
    Entry entry;
    entry.address = symbol.st_value;
    if (__builtin_add_overflow(names.offset, uint64_t{symbol.st_name}, &entry.name_offset)) return;
    entry.size = static_cast<uint32_t>(std::min<uint64_t>(MostBytes(symbol, sections), UINT32_MAX));
    entry.has_size = symbol.st_size > 0;
    entry.rank = static_cast<uint8_t>((label ? 8 : 0) + (symbol.st_size == 0 ? 4 : 0) +
                                      (binding == STB_GLOBAL ? 0
                                       : binding == STB_WEAK ? 1
                                                             : 2));
    entry.debug_file = debug_file;
    entries_.push_back(entry);
  }

  std::vector<Entry> entries_;
  bool has_full_table_ = false;
};

// Source lines of one file with debug information. libdw opens no other file by itself for these queries: see Usable.
class DebugLines {
 public:
  // Returns null if there is no debug information, or too much.
  static std::unique_ptr<DebugLines> Open(ElfFile& file, const ElfFile& code) {
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

  ~DebugLines() {
    if (dwarf_ != nullptr) dwarf_end(dwarf_);
    if (supplement_ != nullptr) dwarf_end(supplement_);
    if (supplement_elf_ != nullptr) elf_end(supplement_elf_);
    if (elf_ != nullptr) elf_end(elf_);
  }

  uint64_t bytes() const { return bytes_; }

  bool Find(uint64_t address, std::string* source, int* line) {
    auto after = std::upper_bound(ranges_.begin(), ranges_.end(), address,
                                  [](uint64_t wanted, const Range& range) { return wanted < range.low; });
    for (int tries = 0; tries < 4 && after != ranges_.begin(); ++tries) {
      --after;
      if (address >= after->high) continue;
      Dwarf_Die unit;
      if (dwarf_offdie(dwarf_, after->unit, &unit) == nullptr) continue;
      if (seen_.insert(after->unit).second) {
        Dwarf_Lines* all;
        size_t count = 0;
        if (dwarf_getsrclines(&unit, &all, &count) == 0) bytes_ += count * kBytesPerLine;
      }
      Dwarf_Line* found = dwarf_getsrc_die(&unit, address);
      const char* name = found != nullptr ? dwarf_linesrc(found, nullptr, nullptr) : nullptr;
      int number = 0;
      if (name == nullptr || dwarf_lineno(found, &number) != 0 || number <= 0) continue;
      source->assign(name, strnlen(name, kMaxNameLength));
      *line = number;
      return true;
    }
    return false;
  }

 private:
  struct Range {
    uint64_t low;
    uint64_t high;
    uint64_t unit;
  };
  static constexpr size_t kMaxRanges = size_t{1} << 21;

  DebugLines() = default;

  static bool Usable(ElfFile& file, uint64_t* bytes) {
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

  // dwz moves shared parts into a second file. libdw would open any path that the section names, even a FIFO.
  bool SetSupplement(ElfFile& file) {
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
  void IndexUnits(const ElfFile& code) {
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

  Elf* elf_ = nullptr;
  Dwarf* dwarf_ = nullptr;
  std::unique_ptr<ElfFile> supplement_file_;
  Elf* supplement_elf_ = nullptr;
  Dwarf* supplement_ = nullptr;
  std::vector<Range> ranges_;
  std::unordered_set<uint64_t> seen_;
  uint64_t bytes_ = 0;
};

struct Key {
  uint64_t module;
  uint64_t address;
  bool operator==(const Key&) const = default;
};

struct KeyHash {
  size_t operator()(const Key& key) const {
    const uint64_t mixed = (key.module ^ key.address) * 0x9e3779b97f4a7c15U;
    return mixed ^ (mixed >> 32);
  }
};

}  // namespace

struct Symbolizer::State {
  struct File {
    std::unique_ptr<ElfFile> main;   // null: no names
    std::unique_ptr<ElfFile> debug;  // separate debug file, or null
    SymbolIndex symbols;
    std::unique_ptr<DebugLines> lines;
    bool lines_tried = false;
    int reopened = 0;
    uint64_t lines_used = 0;
  };
  struct Answer {
    const std::string* function = nullptr;
    const std::string* source = nullptr;
    int line = 0;
  };

  File& FileFor(const Module& module) {
    const auto found = files.find(module.key);
    if (found != files.end()) return found->second;
    if (files.size() >= kMaxOpenFiles) {
      files.clear();
      debug_bytes = 0;
    }
    File& file = files[module.key];
    file.main = OpenModuleFile(module.path, module.build_id);
    if (file.main == nullptr) return file;
    file.symbols.Add(*file.main, *file.main, false);
    const bool has_lines =
        file.main->FindSection(".debug_line") != nullptr || file.main->FindSection(".zdebug_line") != nullptr;
    if (!file.symbols.has_full_table() || !has_lines) {
      file.debug = OpenDebugFile(kDebugRoot, file.main->build_id());
      if (file.debug != nullptr && !file.symbols.has_full_table()) {
        file.symbols.Add(*file.debug, *file.main, true);
      }
      file.lines_tried = file.debug != nullptr && !has_lines && IsCLibrary(module.path);
    }
    file.symbols.Finish();
    return file;
  }

  DebugLines* LinesFor(File& file) {
    file.lines_used = ++clock;
    if (file.lines == nullptr && !file.lines_tried) {
      file.lines = DebugLines::Open(file.debug != nullptr ? *file.debug : *file.main, *file.main);
      if (file.lines == nullptr && file.debug != nullptr) {
        file.lines = DebugLines::Open(*file.main, *file.main);
      }
      file.lines_tried = true;
      if (file.lines != nullptr) debug_bytes += file.lines->bytes();
    }
    return file.lines.get();
  }

  // Closes the debug information that was used longest ago. A file that was reopened more than kMaxReopened times stays
  // closed: its names have no lines.
  void LimitDebugBytes() {
    while (debug_bytes > kMaxDebugBytes) {
      File* oldest = nullptr;
      for (auto& [key, file] : files) {
        if (file.lines != nullptr && (oldest == nullptr || file.lines_used < oldest->lines_used)) {
          oldest = &file;
        }
      }
      if (oldest == nullptr) break;
      debug_bytes -= std::min(debug_bytes, oldest->lines->bytes());
      oldest->lines = nullptr;
      oldest->lines_tried = ++oldest->reopened > kMaxReopened;
    }
  }

  const std::string* Intern(std::string text) {
    return text.empty() ? nullptr : &*strings.insert(std::move(text)).first;
  }

  const Answer& Find(const Module& module, uint64_t address) {
    const Key key{module.key, address};
    const auto cached = answers.find(key);
    if (cached != answers.end()) return cached->second;
    if (answers.size() >= kMaxCached) {
      answers.clear();
      strings.clear();
    }
    Answer& answer = answers[key];
    File& file = FileFor(module);
    if (file.main == nullptr || !file.main->IsExecutable(address)) return answer;
    bool in_debug_file;
    uint64_t name_offset;
    if (file.symbols.Find(address, &in_debug_file, &name_offset)) {
      ElfFile& names = in_debug_file ? *file.debug : *file.main;
      answer.function = Intern(Demangle(names.ReadString(name_offset, kMaxNameLength)));
    }
    if (DebugLines* lines = LinesFor(file); lines != nullptr) {
      const uint64_t before = lines->bytes();
      std::string source;
      if (lines->Find(address, &source, &answer.line)) answer.source = Intern(PrintableUtf8(source));
      debug_bytes += lines->bytes() - before;
      if (debug_bytes > kMaxDebugBytes) LimitDebugBytes();
    }
    return answer;
  }

  std::unordered_map<uint64_t, File> files;
  std::unordered_map<Key, Answer, KeyHash> answers;
  std::unordered_set<std::string> strings;
  uint64_t debug_bytes = 0;
  uint64_t clock = 0;
};

Symbolizer::Symbolizer() : state_(std::make_unique<State>()) {}

Symbolizer::~Symbolizer() = default;

Symbol Symbolizer::Find(const ModuleMap& modules, uint64_t address, bool is_return_address) {
  Symbol symbol;
  symbol.offset = address;
  const uint64_t lookup = address - (is_return_address ? 1 : 0);
  const Module* module = modules.Find(lookup);
  if (module == nullptr) return symbol;
  symbol.module = ModuleName(module->path);
  symbol.offset = address - module->load_bias;
  const State::Answer& answer = state_->Find(*module, lookup - module->load_bias);
  if (answer.function != nullptr) symbol.function = *answer.function;
  if (answer.source != nullptr) symbol.file = *answer.source;
  symbol.line = answer.line;
  return symbol;
}

std::string Symbol::Text() const {
  char number[32];
  if (function.empty()) {
    snprintf(number, sizeof(number), "0x%llx", static_cast<unsigned long long>(offset));
    return module.empty() ? number : module + "+" + number;
  }
  if (!file.empty() && line > 0) {
    snprintf(number, sizeof(number), ":%d", line);
    return function + " (" + std::string(BaseName(file)) + number + ")";
  }
  return module.empty() ? function : function + " (" + module + ")";
}

}  // namespace tbprof
