// SPDX-License-Identifier: Apache-2.0
#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <memory>

#include "launcher/target/preflight.h"
#include "writer/base/file_ops.h"
#include "writer/symbols/elf_file.h"

namespace tbprof {
namespace {

// Limits on the bytes that are read, independent of the sizes in the file. A larger symbol table is ignored.
constexpr size_t kMaxDynamicBytes = 1 << 20;
constexpr size_t kMaxSymbolBytes = 128 << 20;
constexpr size_t kMaxStringBytes = 128 << 20;
constexpr size_t kMaxNeeded = 1024;
constexpr size_t kMaxNameBytes = 4096;

struct SanitizerSign {
  std::string_view library;  // prefix of a NEEDED name
  std::string_view clang_library;
  std::string_view symbol;
  const char* name;
};
constexpr SanitizerSign kSanitizers[] = {
    {"libasan.so", "libclang_rt.asan", "__asan_init", "AddressSanitizer"},
    {"libhwasan.so", "libclang_rt.hwasan", "__hwasan_init", "HWAddressSanitizer"},
    {"libtsan.so", "libclang_rt.tsan", "__tsan_init", "ThreadSanitizer"},
    {"libmsan.so", "libclang_rt.msan", "__msan_init", "MemorySanitizer"},
    {"liblsan.so", "libclang_rt.lsan", "__lsan_init", "LeakSanitizer"},
};
constexpr std::string_view kAllocators[] = {"malloc", "_rjem_malloc", "je_malloc", "mi_malloc", "tc_malloc"};

// The zero-terminated string at `offset`; empty if it is not terminated within kMaxNameBytes bytes.
std::string NameAt(ElfFile* file, uint64_t offset) {
  std::string name = file->ReadString(offset, kMaxNameBytes);
  char end = 1;
  return name.size() < kMaxNameBytes && file->Read(offset + name.size(), &end, 1) && end == '\0' ? name : "";
}

std::string_view StringIn(const std::vector<char>& strings, uint64_t offset) {
  if (offset >= strings.size()) return {};
  const std::string_view rest(strings.data() + offset, strings.size() - offset);
  const size_t end = rest.find('\0');
  return end == std::string_view::npos ? std::string_view() : rest.substr(0, end);
}

void ReadDynamic(ElfFile* file, const Elf64_Phdr& dynamic, ElfFacts* facts) {
  const auto entries = file->ReadArray<Elf64_Dyn>(dynamic.p_offset, dynamic.p_filesz, kMaxDynamicBytes);
  if (!entries) {
    facts->malformed = true;
    return;
  }
  std::optional<uint64_t> strings;
  for (const Elf64_Dyn& entry : *entries) {
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_STRTAB) strings = file->OffsetOf(entry.d_un.d_ptr);
  }
  if (!strings) return;
  for (const Elf64_Dyn& entry : *entries) {
    if (entry.d_tag == DT_NULL || facts->needed.size() == kMaxNeeded) break;
    uint64_t at;
    if ((entry.d_tag != DT_NEEDED && entry.d_tag != DT_SONAME) ||
        __builtin_add_overflow(*strings, entry.d_un.d_val, &at)) {
      continue;
    }
    std::string name = NameAt(file, at);
    if (entry.d_tag == DT_SONAME) {
      facts->soname = std::move(name);
    } else if (!name.empty()) {
      facts->needed.push_back(std::move(name));
    }
  }
}

void ReadSymbols(ElfFile* file, const ElfFile::Section& table, ElfFacts* facts) {
  if (table.link >= file->sections().size()) return;
  const ElfFile::Section& names = file->sections()[table.link];
  const auto symbols = file->ReadArray<Elf64_Sym>(table.offset, table.size, kMaxSymbolBytes);
  const auto strings = file->ReadArray<char>(names.offset, names.size, kMaxStringBytes);
  if (!symbols || !strings) return;
  for (const Elf64_Sym& symbol : *symbols) {
    const unsigned type = ELF64_ST_TYPE(symbol.st_info);
    if (symbol.st_shndx == SHN_UNDEF || (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE)) continue;
    if (symbol.st_name >= strings->size()) continue;
    // Rejects most names by their first character, without a search for their end.
    const char first = (*strings)[symbol.st_name];
    if (first != '_' && first != 'm' && first != 'j' && first != 't') continue;
    const std::string_view name = StringIn(*strings, symbol.st_name);
    for (std::string_view allocator : kAllocators) facts->defines_malloc = facts->defines_malloc || name == allocator;
    for (const SanitizerSign& sign : kSanitizers) {
      if (name == sign.symbol) facts->sanitizer = sign.name;
    }
  }
}

void ReadSections(ElfFile* file, ElfFacts* facts) {
  int tables = 0;  // a corrupt file may refer to one table a thousand times
  for (const ElfFile::Section& section : file->sections()) {
    if (section.name == ".go.buildinfo" || section.name == ".note.go.buildid") facts->is_go = true;
    if ((section.type == SHT_SYMTAB || section.type == SHT_DYNSYM) && ++tables <= 2) ReadSymbols(file, section, facts);
  }
}

}  // namespace

ElfFacts ReadElf(const std::string& path) {
  ElfFacts facts;
  ScopedFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status;
  if (fd.get() < 0 || fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) return facts;
  // The members before e_version have the same offsets in both ELF classes.
  Elf64_Ehdr start;
  const ssize_t size = pread(fd.get(), &start, offsetof(Elf64_Ehdr, e_version), 0);
  if (size < EI_NIDENT || memcmp(start.e_ident, ELFMAG, SELFMAG) != 0) return facts;
  facts.is_elf = true;
  const unsigned char elf_class = start.e_ident[EI_CLASS];
  facts.elf_class = elf_class == ELFCLASS32 ? 32 : elf_class == ELFCLASS64 ? 64 : 0;
  facts.malformed = size < static_cast<ssize_t>(offsetof(Elf64_Ehdr, e_version));
  if (facts.malformed) return facts;
  const bool native_order = start.e_ident[EI_DATA] == ElfFile::kOrder;
  facts.machine = native_order ? start.e_machine : __builtin_bswap16(start.e_machine);
  facts.native = facts.elf_class == 64 && native_order && facts.machine == ElfFile::kMachine;
  if (!facts.native) return facts;

  const std::unique_ptr<ElfFile> file = ElfFile::Open(std::move(fd));
  facts.malformed = file == nullptr || file->program_headers().empty();
  if (facts.malformed) return facts;
  for (const Elf64_Phdr& segment : file->program_headers()) {
    if (segment.p_type == PT_INTERP) {
      facts.interpreter = NameAt(file.get(), segment.p_offset);
      facts.malformed = facts.malformed || facts.interpreter.empty();
    } else if (segment.p_type == PT_DYNAMIC && !facts.has_dynamic) {
      facts.has_dynamic = true;
      ReadDynamic(file.get(), segment, &facts);
    }
  }
  ReadSections(file.get(), &facts);
  for (const std::string& needed : facts.needed) {
    for (const SanitizerSign& sign : kSanitizers) {
      if (needed.starts_with(sign.library) || needed.starts_with(sign.clang_library)) facts.sanitizer = sign.name;
    }
  }
  return facts;
}

}  // namespace tbprof
