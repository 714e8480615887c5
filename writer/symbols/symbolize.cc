// SPDX-License-Identifier: Apache-2.0
#include "writer/symbols/symbolize.h"

#include <elf.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "writer/base/symbol_text.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/symbols/debug_lines.h"
#include "writer/symbols/demangle.h"
#include "writer/symbols/elf_file.h"

namespace tbprof {
namespace {

constexpr size_t kMaxSymbols = size_t{1} << 23;
constexpr size_t kMaxOpenFiles = 200;
constexpr size_t kMaxCached = size_t{1} << 18;
constexpr uint64_t kMaxDebugBytes = uint64_t{256} << 20;  // of all files
constexpr int kMaxReopened = 8;

std::string ModuleName(const std::string& path) {
  const std::string_view name = WithoutDeleted(BaseName(path));
  return name.empty() ? "[unknown]" : PrintableUtf8(std::string(name));
}

// Users need no lines in the C library, and reading its separate debug file takes longer than all the rest of a short
// run's conversion: libdw decompresses the whole file (docs/decisions/040-fast-end.md).
bool IsCLibrary(const std::string& path) { return IsCLibraryFile(BaseName(path)); }

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
  struct Place {
    const std::string* function = nullptr;
    const std::string* source = nullptr;
    int line = 0;
  };
  struct Answer : Place {
    bool inlined_known = false;
    std::vector<Place> inlined;  // with the place of the call, innermost first
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

  Answer& Find(const Module& module, uint64_t address) {
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

  void AddInlined(const Module& module, uint64_t address, Answer* answer) {
    answer->inlined_known = true;
    // Also where the address has no line: clang gives line 0 to code that it has moved together.
    File& file = FileFor(module);
    DebugLines* const lines = answer->function == nullptr || file.main == nullptr ? nullptr : LinesFor(file);
    if (lines == nullptr) return;
    const uint64_t before = lines->bytes();
    for (InlinedCall& call : lines->FindInlined(address)) {
      if (call.function.empty()) call.function = "[inlined]";
      answer->inlined.push_back({Intern(std::move(call.function)), Intern(PrintableUtf8(call.file)), call.line});
    }
    debug_bytes += lines->bytes() - before;
    if (debug_bytes > kMaxDebugBytes) LimitDebugBytes();
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

std::vector<Symbol> Symbolizer::FindWithInlined(const ModuleMap& modules, uint64_t address, bool is_return_address) {
  std::vector<Symbol> symbols = {Find(modules, address, is_return_address)};
  const uint64_t lookup = address - (is_return_address ? 1 : 0);
  const Module* const module = modules.Find(lookup);
  if (module == nullptr) return symbols;
  const uint64_t in_file = lookup - module->load_bias;
  State::Answer& answer = state_->Find(*module, in_file);
  if (!answer.inlined_known) state_->AddInlined(*module, in_file, &answer);
  // A function has the line in it: that of the innermost is the address's, that of each other one the call inlined
  // into it.
  for (const State::Place& call : answer.inlined) {
    Symbol& innermost_left = symbols.back();
    Symbol outer = innermost_left;
    innermost_left.function = *call.function;
    outer.file = call.source == nullptr ? "" : *call.source;
    outer.line = call.line;
    symbols.push_back(std::move(outer));
  }
  return symbols;
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
