// SPDX-License-Identifier: Apache-2.0
// Rules: RULES.md.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "preload/late_names.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "preload/modules.h"
#include "preload/resolve.h"
#include "preload/state.h"
#include "wire/raw.h"

extern "C" __attribute__((visibility("hidden"))) const ElfW(Ehdr) __ehdr_start;

namespace tbprof {
namespace {

// The hooked names of libc begin with neither `cu` nor `nccl`.
bool IsLateName(const char* name) {
  return (name[0] == 'c' && name[1] == 'u') || (name[0] == 'n' && name[1] == 'c' && name[2] == 'c' && name[3] == 'l');
}

uint64_t OwnBase() { return reinterpret_cast<uint64_t>(&__ehdr_start); }

struct Range {
  uint64_t begin, end;
  bool Contains(uint64_t address) const { return address >= begin && address < end; }
};

// By the kernel's page size, which is up to 64 KiB on aarch64: mprotect works on whole pages.
uint64_t PageBegin(uint64_t address) { return address & ~(uint64_t{getauxval(AT_PAGESZ)} - 1); }

// Writes a word of an object that the loader may have made read-only after relocation.
bool WriteWord(uint64_t address, uint64_t value, const Range& read_only) {
  const uint64_t page = PageBegin(address);
  const bool is_read_only = read_only.Contains(address);
  if (is_read_only && raw::Call(SYS_mprotect, page, 1, PROT_READ | PROT_WRITE) != 0) return false;
  __atomic_store_n(reinterpret_cast<uint64_t*>(address), value, __ATOMIC_RELEASE);
  if (is_read_only) raw::Call(SYS_mprotect, page, 1, PROT_READ);
  return true;
}

struct Search {
  const char* name;
  bool is_there;
};

int HasName(dl_phdr_info* info, size_t, void* data) {
  auto* const search = static_cast<Search*>(data);
  const ElfW(Dyn)* const dynamic = DynamicOf(*info);
  if (dynamic == nullptr || dynamic == _DYNAMIC) return 0;
  search->is_there = DynamicTables(info->dlpi_addr, dynamic).Find(search->name) != nullptr;
  return search->is_there ? 1 : 0;
}

// Whether an object other than this library defines the name.
bool IsThere(const char* name) {
  Search search{name, false};
  VisitObjects(HasName, &search);
  return search.is_there;
}

// ---- references of objects that were there at the start

#if defined(__x86_64__)
constexpr uint32_t kAddressTypes[] = {R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT, R_X86_64_64};
#else
constexpr uint32_t kAddressTypes[] = {R_AARCH64_GLOB_DAT, R_AARCH64_JUMP_SLOT, R_AARCH64_ABS64};
#endif

bool IsAddress(uint32_t type) {
  for (const uint32_t one : kAddressTypes) {
    if (type == one) return true;
  }
  return false;
}

struct Object {
  uint64_t base;
  Range read_only;
  const ElfW(Phdr) * parts;
  int part_count;

  // False for code: the loader makes it writable only while it relocates it (DT_TEXTREL).
  bool IsData(uint64_t address) const {
    for (int i = 0; i < part_count; ++i) {
      const Range part{base + parts[i].p_vaddr, base + parts[i].p_vaddr + parts[i].p_memsz};
      if (parts[i].p_type == PT_LOAD && part.Contains(address)) return (parts[i].p_flags & PF_W) != 0;
    }
    return false;
  }
};

constexpr uint32_t kMostSymbols = 768, kMostLate = 512;

// Results of look-ups by symbol of this library: each object of the program may refer to the same name.
enum class Answer : uint8_t { kNone, kThere, kNowhere } g_answers[kMostSymbols];

bool IsElsewhere(const DynamicTables& own, const ElfW(Sym) * ours, const char* name) {
  const auto at = static_cast<size_t>(ours - own.symbols);
  if (at >= kMostSymbols) return true;
  if (g_answers[at] == Answer::kNone) g_answers[at] = IsThere(name) ? Answer::kThere : Answer::kNowhere;
  return g_answers[at] == Answer::kThere;
}

void PutBack(const Object& object, const DynamicTables& tables, const DynamicTables& own,
             const ElfW(Rela) & relocation) {
  const ElfW(Sym)& symbol = tables.symbols[ELF64_R_SYM(relocation.r_info)];
  if (ELF64_ST_BIND(symbol.st_info) != STB_WEAK || symbol.st_shndx != SHN_UNDEF) return;
  const char* const name = tables.texts + symbol.st_name;
  if (!IsLateName(name) || !IsAddress(ELF64_R_TYPE(relocation.r_info))) return;
  const ElfW(Sym)* const ours = own.Find(name);
  if (ours == nullptr || IsElsewhere(own, ours, name)) return;
  const uint64_t addend = ELF64_R_TYPE(relocation.r_info) == kAddressTypes[2] ? relocation.r_addend : 0;
  const uint64_t slot = object.base + relocation.r_offset;
  if (!object.IsData(slot)) return;
  if (*reinterpret_cast<const uint64_t*>(slot) != OwnBase() + ours->st_value + addend) return;
  WriteWord(slot, addend, object.read_only);
}

int PutBackIn(dl_phdr_info* info, size_t, void* data) {
  const auto& own = *static_cast<const DynamicTables*>(data);
  Object object{info->dlpi_addr, {}, info->dlpi_phdr, info->dlpi_phnum};
  const ElfW(Dyn)* const dynamic = DynamicOf(*info);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info->dlpi_phdr[i];
    if (part.p_type == PT_GNU_RELRO) {
      // As the loader does: the page in which the range ends stays writable.
      object.read_only = {PageBegin(object.base + part.p_vaddr), PageBegin(object.base + part.p_vaddr + part.p_memsz)};
    }
  }
  if (dynamic == nullptr || dynamic == _DYNAMIC) return 0;
  const DynamicTables tables(object.base, dynamic);
  if (tables.symbols == nullptr || tables.texts == nullptr) return 0;
  for (int table = 0; table < 2; ++table) {
    const ElfW(Rela)* const relocations = tables.relocations[table];
    for (size_t i = table == 0 ? tables.relative_count : 0;
         relocations != nullptr && i < tables.relocation_count[table]; ++i) {
      if (ELF64_R_SYM(relocations[i].r_info) != 0) PutBack(object, tables, own, relocations[i]);
    }
  }
  return 0;
}

// ---- references that come later

ElfW(Sym) g_symbols[kMostSymbols];
const ElfW(Sym) * g_given;  // the original table, as the linker made it
const char* g_texts;
uint16_t g_late[kMostLate];  // their indices in the symbol table

uint32_t CountSymbols(const DynamicTables& tables) {
  if (tables.gnu_hashes == nullptr) return 0;
  const uint32_t bucket_count = tables.gnu_hashes[0], first = tables.gnu_hashes[1];
  const auto* const buckets = tables.gnu_hashes + 4 + tables.gnu_hashes[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
  uint32_t last = 0;
  for (uint32_t i = 0; i < bucket_count; ++i) last = buckets[i] > last ? buckets[i] : last;
  if (last < first) return 0;
  while ((buckets[bucket_count + last - first] & 1) == 0) ++last;
  return last + 1;
}

extern "C" __attribute__((visibility("hidden"))) const unsigned char tbprof_late_resolvers[];
constexpr uint64_t kResolverBytes = 16;

// False: this library's symbols are not as expected and stay unchanged.
bool PrepareSymbols(const DynamicTables& own) {
  const uint32_t count = CountSymbols(own);
  if (count == 0 || count > kMostSymbols) return false;
  uint32_t late = 0;
  for (uint32_t i = 0; i < count; ++i) {
    g_symbols[i] = own.symbols[i];
    if (own.symbols[i].st_shndx == SHN_UNDEF || !IsLateName(own.texts + own.symbols[i].st_name)) continue;
    if (late == kMostLate) return false;
    g_late[late] = static_cast<uint16_t>(i);
    g_symbols[i].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_GNU_IFUNC);
    g_symbols[i].st_value = reinterpret_cast<uint64_t>(tbprof_late_resolvers) + late * kResolverBytes - OwnBase();
    ++late;
  }
  g_given = own.symbols;
  g_texts = own.texts;
  return true;
}

// At every look-up the loader reads the address of a library's symbols from the dynamic section.
void MakeIndirect(const DynamicTables& own) {
  if (!PrepareSymbols(own)) return;
  for (ElfW(Dyn)* entry = _DYNAMIC; entry->d_tag != DT_NULL; ++entry) {
    // If the loader has not stored an absolute address here, it adds the library's base at each look-up; such an entry
    // is skipped.
    if (entry->d_tag != DT_SYMTAB || entry->d_un.d_ptr != reinterpret_cast<uint64_t>(own.symbols)) continue;
    const auto place = reinterpret_cast<uint64_t>(&entry->d_un.d_ptr);
    WriteWord(place, reinterpret_cast<uint64_t>(g_symbols), {place, place + 1});
  }
}

}  // namespace

// Called by the loader, under its lock or at the first call of a lazy reference. In doubt returns the hook, which finds
// out itself which function the caller means.
extern "C" __attribute__((visibility("hidden"))) void* tbprof_resolve_late(uint32_t late) {
  const ElfW(Sym)& symbol = g_given[g_late[late]];
  const int saved = errno;
  const bool is_there = IsThere(g_texts + symbol.st_name);
  ForgetCallers();
  errno = saved;
  return is_there ? reinterpret_cast<void*>(OwnBase() + symbol.st_value) : nullptr;
}

void HideLateNames() {
  static bool is_done;
  if (__atomic_exchange_n(&is_done, true, __ATOMIC_ACQ_REL)) return;
  const DynamicTables own(OwnBase(), _DYNAMIC);
  VisitObjects(PutBackIn, const_cast<DynamicTables*>(&own));
  MakeIndirect(own);
}

}  // namespace tbprof

// One resolver for each name.
#if defined(__x86_64__)
#define TBPROF_RESOLVE_LATE "movl $tbprof_late_number, %edi\njmp tbprof_resolve_late\n"
#elif defined(__aarch64__)
#define TBPROF_RESOLVE_LATE "mov w0, #tbprof_late_number\nb tbprof_resolve_late\n"
#endif
asm(R"(
  .pushsection .text
  .p2align 4
tbprof_late_resolvers:
  .set tbprof_late_number, 0
  .rept 512
  .p2align 4
)" TBPROF_RESOLVE_LATE R"(
  .set tbprof_late_number, tbprof_late_number + 1
  .endr
  .popsection
)");
