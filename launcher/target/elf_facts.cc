// SPDX-License-Identifier: Apache-2.0
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>

#include "launcher/base/scoped.h"
#include "launcher/target/preflight.h"

namespace tbprof {
namespace {

#if defined(__x86_64__)
constexpr int kNativeMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr int kNativeMachine = EM_AARCH64;
#else
#error "unknown architecture"
#endif
constexpr unsigned char kNativeOrder = std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;

// Bounds on what is read, whatever the file claims. A program whose symbol table is larger counts as one without.
constexpr size_t kMaxHeaders = 4096;
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

class Reader {
 public:
  explicit Reader(int fd, uint64_t size) : fd_(fd), size_(size) {}

  bool Read(uint64_t offset, void* out, size_t bytes) const {
    if (offset > size_ || bytes > size_ - offset) return false;
    auto* at = static_cast<char*>(out);
    while (bytes > 0) {
      const ssize_t got = pread(fd_, at, bytes, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;  // shorter by now
      at += got;
      offset += static_cast<uint64_t>(got);
      bytes -= static_cast<size_t>(got);
    }
    return true;
  }

  template <typename T>
  std::optional<std::vector<T>> ReadArray(uint64_t offset, uint64_t bytes, size_t max_bytes) const {
    if (bytes > max_bytes || offset > size_ || bytes > size_ - offset) return std::nullopt;
    std::vector<T> array(bytes / sizeof(T));
    if (!Read(offset, array.data(), array.size() * sizeof(T))) return std::nullopt;
    return array;
  }

  // The zero-terminated string at `offset`, empty if it is not one of at most kMaxNameBytes bytes.
  std::string ReadString(uint64_t offset) const {
    if (offset >= size_) return "";
    std::string text(std::min<uint64_t>(kMaxNameBytes, size_ - offset), '\0');
    if (!Read(offset, text.data(), text.size())) return "";
    const size_t end = text.find('\0');
    return end == std::string::npos ? "" : text.substr(0, end);
  }

 private:
  int fd_;
  uint64_t size_;
};

std::string_view StringIn(const std::vector<char>& strings, uint64_t offset) {
  if (offset >= strings.size()) return {};
  const std::string_view rest(strings.data() + offset, strings.size() - offset);
  const size_t end = rest.find('\0');
  return end == std::string_view::npos ? std::string_view() : rest.substr(0, end);
}

std::optional<uint64_t> OffsetOf(uint64_t address, const std::vector<Elf64_Phdr>& segments) {
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type == PT_LOAD && address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_filesz) {
      uint64_t offset;
      if (!__builtin_add_overflow(segment.p_offset, address - segment.p_vaddr, &offset)) return offset;
    }
  }
  return std::nullopt;
}

void ReadDynamic(const Reader& reader, const Elf64_Phdr& dynamic, const std::vector<Elf64_Phdr>& segments,
                 ElfFacts* facts) {
  const auto entries = reader.ReadArray<Elf64_Dyn>(dynamic.p_offset, dynamic.p_filesz, kMaxDynamicBytes);
  if (!entries) {
    facts->malformed = true;
    return;
  }
  std::optional<uint64_t> strings;
  for (const Elf64_Dyn& entry : *entries) {
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_STRTAB) strings = OffsetOf(entry.d_un.d_ptr, segments);
  }
  if (!strings) return;
  for (const Elf64_Dyn& entry : *entries) {
    if (entry.d_tag == DT_NULL || facts->needed.size() == kMaxNeeded) break;
    uint64_t at;
    if ((entry.d_tag != DT_NEEDED && entry.d_tag != DT_SONAME) ||
        __builtin_add_overflow(*strings, entry.d_un.d_val, &at)) {
      continue;
    }
    std::string name = reader.ReadString(at);
    if (entry.d_tag == DT_SONAME) {
      facts->soname = std::move(name);
    } else if (!name.empty()) {
      facts->needed.push_back(std::move(name));
    }
  }
}

void ReadSymbols(const Reader& reader, const Elf64_Shdr& table, const std::vector<Elf64_Shdr>& sections,
                 ElfFacts* facts) {
  if (table.sh_link >= sections.size()) return;
  const Elf64_Shdr& names = sections[table.sh_link];
  const auto symbols = reader.ReadArray<Elf64_Sym>(table.sh_offset, table.sh_size, kMaxSymbolBytes);
  const auto strings = reader.ReadArray<char>(names.sh_offset, names.sh_size, kMaxStringBytes);
  if (!symbols || !strings) return;
  for (const Elf64_Sym& symbol : *symbols) {
    const unsigned type = ELF64_ST_TYPE(symbol.st_info);
    if (symbol.st_shndx == SHN_UNDEF || (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE)) continue;
    if (symbol.st_name >= strings->size()) continue;
    // Most names end here, without a search for their end.
    const char first = (*strings)[symbol.st_name];
    if (first != '_' && first != 'm' && first != 'j' && first != 't') continue;
    const std::string_view name = StringIn(*strings, symbol.st_name);
    for (std::string_view allocator : kAllocators) facts->defines_malloc = facts->defines_malloc || name == allocator;
    for (const SanitizerSign& sign : kSanitizers) {
      if (name == sign.symbol) facts->sanitizer = sign.name;
    }
  }
}

void ReadSections(const Reader& reader, const Elf64_Ehdr& header, ElfFacts* facts) {
  if (header.e_shoff == 0 || header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shnum > kMaxHeaders) return;
  const auto sections = reader.ReadArray<Elf64_Shdr>(header.e_shoff, uint64_t{header.e_shnum} * sizeof(Elf64_Shdr),
                                                     kMaxHeaders * sizeof(Elf64_Shdr));
  if (!sections) return;
  std::vector<char> names;
  if (header.e_shstrndx < sections->size()) {
    const Elf64_Shdr& table = (*sections)[header.e_shstrndx];
    names = reader.ReadArray<char>(table.sh_offset, table.sh_size, 1 << 20).value_or(std::vector<char>());
  }
  int tables = 0;  // a file may name one table a thousand times
  for (const Elf64_Shdr& section : *sections) {
    const std::string_view name = StringIn(names, section.sh_name);
    if (name == ".go.buildinfo" || name == ".note.go.buildid") facts->is_go = true;
    if ((section.sh_type == SHT_SYMTAB || section.sh_type == SHT_DYNSYM) && ++tables <= 2) {
      ReadSymbols(reader, section, *sections, facts);
    }
  }
}

}  // namespace

ElfFacts ReadElf(const std::string& path) {
  ElfFacts facts;
  const ScopedFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status;
  if (!file.valid() || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return facts;
  const Reader reader(file.get(), static_cast<uint64_t>(status.st_size));
  unsigned char ident[EI_NIDENT];
  if (!reader.Read(0, ident, sizeof(ident)) || memcmp(ident, ELFMAG, SELFMAG) != 0) return facts;
  facts.is_elf = true;
  facts.elf_class = ident[EI_CLASS] == ELFCLASS32 ? 32 : ident[EI_CLASS] == ELFCLASS64 ? 64 : 0;
  uint16_t machine[2];  // e_type, e_machine: at the same place in both classes
  if (!reader.Read(EI_NIDENT, machine, sizeof(machine))) {
    facts.malformed = true;
    return facts;
  }
  facts.machine = ident[EI_DATA] == kNativeOrder ? machine[1] : __builtin_bswap16(machine[1]);
  facts.native = facts.elf_class == 64 && ident[EI_DATA] == kNativeOrder && facts.machine == kNativeMachine;
  if (!facts.native) return facts;

  Elf64_Ehdr header;
  std::optional<std::vector<Elf64_Phdr>> segments;
  if (reader.Read(0, &header, sizeof(header)) && header.e_phentsize == sizeof(Elf64_Phdr) &&
      (header.e_type == ET_EXEC || header.e_type == ET_DYN)) {
    segments = reader.ReadArray<Elf64_Phdr>(header.e_phoff, uint64_t{header.e_phnum} * sizeof(Elf64_Phdr),
                                            kMaxHeaders * sizeof(Elf64_Phdr));
  }
  if (!segments || segments->empty()) {
    facts.malformed = true;
    return facts;
  }
  for (const Elf64_Phdr& segment : *segments) {
    if (segment.p_type == PT_INTERP) {
      facts.interpreter = reader.ReadString(segment.p_offset);
      facts.malformed = facts.malformed || facts.interpreter.empty();
    } else if (segment.p_type == PT_DYNAMIC && !facts.has_dynamic) {
      facts.has_dynamic = true;
      ReadDynamic(reader, segment, *segments, &facts);
    }
  }
  ReadSections(reader, header, &facts);
  for (const std::string& needed : facts.needed) {
    for (const SanitizerSign& sign : kSanitizers) {
      if (needed.starts_with(sign.library) || needed.starts_with(sign.clang_library)) facts.sanitizer = sign.name;
    }
  }
  return facts;
}

}  // namespace tbprof
