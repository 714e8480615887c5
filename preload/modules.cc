// SPDX-License-Identifier: Apache-2.0
// Rules: RULES.md.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "preload/modules.h"
#include "preload/resolve.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include "preload/hooks.h"
#include "preload/python.h"
#include "preload/record.h"

namespace tbprof {
namespace {

constexpr size_t kMaxPath = 4096;
constexpr uint32_t kMaxRecorded = 4096;
constexpr uint64_t kRegion = 1 << 16;
uint64_t g_recorded_starts[kMaxRecorded];
uint32_t g_recorded_count;

using FindObject = int (*)(void*, dl_find_object*);
FindObject g_find_object;
int (*g_visit_objects)(Visit visit, void* data);

struct BuildId {
  const uint8_t* bytes = nullptr;
  uint32_t length = 0;
};

// Whether `part` is loaded. Tools that edit ELF files leave notes behind that are in no loaded segment.
bool IsLoaded(const ElfW(Phdr) * headers, size_t count, const ElfW(Phdr) & part) {
  for (size_t i = 0; i < count; ++i) {
    if (headers[i].p_type == PT_LOAD && (headers[i].p_flags & PF_R) != 0 && part.p_vaddr >= headers[i].p_vaddr &&
        part.p_vaddr + part.p_memsz <= headers[i].p_vaddr + headers[i].p_memsz) {
      return true;
    }
  }
  return false;
}

BuildId FindBuildId(const ElfW(Phdr) * headers, size_t count, uint64_t bias) {
  for (size_t i = 0; i < count; ++i) {
    if (headers[i].p_type != PT_NOTE || !IsLoaded(headers, count, headers[i])) continue;
    const auto* at = reinterpret_cast<const uint8_t*>(bias + headers[i].p_vaddr);
    uint64_t left = headers[i].p_memsz;
    while (left >= sizeof(ElfW(Nhdr))) {
      const auto* note = reinterpret_cast<const ElfW(Nhdr)*>(at);
      const uint64_t name = (note->n_namesz + 3u) & ~3u;
      const uint64_t description = (note->n_descsz + 3u) & ~3u;
      const uint64_t size = sizeof(*note) + name + description;
      if (size > left) break;
      const uint8_t* text = at + sizeof(*note);
      if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && text[0] == 'G' && text[1] == 'N' &&
          text[2] == 'U') {
        return {text + name, note->n_descsz};
      }
      at += size;
      left -= size;
    }
  }
  return {};
}

void RecordModule(ThreadState* thread, uint64_t bias, uint64_t start, uint64_t end, const BuildId& id,
                  const char* path) {
  const uint32_t place = __atomic_fetch_add(&g_recorded_count, 1, __ATOMIC_RELAXED);
  if (place < kMaxRecorded) __atomic_store_n(&g_recorded_starts[place], start, __ATOMIC_RELAXED);
  const size_t length = TextLength(path, kMaxPath);
  Reservation reservation;
  if (!BeginRecord(g_attachment.segment, &thread->writer, 3 + SlotsFor(length), &reservation)) return;
  auto* record = reinterpret_cast<ModuleRecord*>(reservation.slots);
  record->ticks = Ticks();
  record->load_bias = bias;
  record->start = start;
  record->end = end;
  record->build_id_length = id.length < sizeof(record->build_id) ? id.length : sizeof(record->build_id);
  for (uint32_t i = 0; i < record->build_id_length; ++i) record->build_id[i] = id.bytes[i];
  record->path_length = static_cast<uint32_t>(length);
  auto* text = reinterpret_cast<char*>(record + 1);
  for (size_t i = 0; i < length; ++i) text[i] = path[i];
  CommitRecord(g_attachment.segment, &thread->writer, reservation, RecordKind::kModule, 0, 0);
}

// For a library that has its ELF header in its first page.
BuildId BuildIdAt(uint64_t start, uint64_t bias) {
  const auto* header = reinterpret_cast<const ElfW(Ehdr)*>(start);
  if (header->e_ident[0] != ELFMAG0 || header->e_ident[1] != ELFMAG1 || header->e_ident[2] != ELFMAG2 ||
      header->e_ident[3] != ELFMAG3 || header->e_phoff + header->e_phnum * sizeof(ElfW(Phdr)) > kPage) {
    return {};
  }
  return FindBuildId(reinterpret_cast<const ElfW(Phdr)*>(start + header->e_phoff), header->e_phnum, bias);
}

struct IterateArgument {
  ThreadState* thread;
  const char* executable;
  bool first;
};

int RecordOne(dl_phdr_info* info, size_t, void* data) {
  auto* argument = static_cast<IterateArgument*>(data);
  uint64_t start = UINT64_MAX, end = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
    const uint64_t from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    const uint64_t to = from + info->dlpi_phdr[i].p_memsz;
    if (from < start) start = from;
    if (to > end) end = to;
  }
  if (start < end) {
    const char* path = argument->first ? argument->executable : info->dlpi_name;
    RecordModule(argument->thread, info->dlpi_addr, start & ~(kPage - 1), RoundToPage(end),
                 FindBuildId(info->dlpi_phdr, info->dlpi_phnum, info->dlpi_addr), path == nullptr ? "" : path);
    for (uint64_t region = (start + kRegion - 1) / kRegion; (region + 1) * kRegion <= end; ++region) {
      g_known_regions[region % kKnownRegions] = region;
    }
  }
  argument->first = false;
  return 0;
}

}  // namespace

uint64_t g_known_regions[kKnownRegions];

namespace {

constexpr uint32_t kKnownPages = 1024;
uint64_t g_known_pages[kKnownPages];

}  // namespace

// _dl_find_object is looked up, not linked: the dynamic linker defines it, and only from glibc 2.35 on. dladdr reads
// all symbols of the object, which takes 0.1 ms for libc.
void FindTheFinder() {
  static bool looked;
  if (looked) return;
  looked = true;
  g_find_object = reinterpret_cast<FindObject>(RealDlsym(RTLD_DEFAULT, "_dl_find_object"));
}

const link_map* ObjectAt(const void* address) {
  FindTheFinder();
  if (g_find_object != nullptr) {
    dl_find_object found;
    return g_find_object(const_cast<void*>(address), &found) == 0 ? found.dlfo_link_map : nullptr;
  }
  Dl_info info;
  void* map = nullptr;
  if (dladdr1(address, &info, &map, RTLD_DL_LINKMAP) == 0) return nullptr;
  return static_cast<const link_map*>(map);
}

size_t BuildIdOf(const link_map* library, uint8_t* id, size_t room) {
  // A shared library's addresses are relative to its header.
  const BuildId found = BuildIdAt(library->l_addr, library->l_addr);
  if (found.length > room) return 0;
  for (uint32_t i = 0; i < found.length; ++i) id[i] = found.bytes[i];
  return found.length;
}

namespace {

// The address of a table with or without the load address added: the right one is nearer to the object's dynamic
// section. An object may be linked at any address, as by prelink; the vDSO of Linux before 3.16 was at the end of the
// address space.
uint64_t Distance(uint64_t a, uint64_t b) { return a < b ? b - a : a - b; }

}  // namespace

DynamicTables::DynamicTables(uint64_t base, const ElfW(Dyn) * dynamic)
    : gnu_hashes(), hashes(), symbols(), texts(), soname(), relocations(), relocation_count(), relative_count() {
  uint64_t name = 0;
  for (const ElfW(Dyn)* entry = dynamic; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_SONAME) name = entry->d_un.d_val;
    // glibc has added the library's address to these pointers if the section is writable.
    const uint64_t given = entry->d_un.d_ptr, added = given + base, section = reinterpret_cast<uint64_t>(dynamic);
    const uint64_t address = Distance(added, section) < Distance(given, section) ? added : given;
    if (entry->d_tag == DT_GNU_HASH) gnu_hashes = reinterpret_cast<const uint32_t*>(address);
    if (entry->d_tag == DT_HASH) hashes = reinterpret_cast<const uint32_t*>(address);
    if (entry->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(address);
    if (entry->d_tag == DT_STRTAB) texts = reinterpret_cast<const char*>(address);
    if (entry->d_tag == DT_RELA) relocations[0] = reinterpret_cast<const ElfW(Rela)*>(address);
    if (entry->d_tag == DT_JMPREL) relocations[1] = reinterpret_cast<const ElfW(Rela)*>(address);
    if (entry->d_tag == DT_RELASZ) relocation_count[0] = entry->d_un.d_val / sizeof(ElfW(Rela));
    if (entry->d_tag == DT_RELACOUNT) relative_count = entry->d_un.d_val;
    if (entry->d_tag == DT_PLTRELSZ) relocation_count[1] = entry->d_un.d_val / sizeof(ElfW(Rela));
  }
  if (texts != nullptr && name != 0) soname = texts + name;
}

const ElfW(Sym) * DynamicTables::Find(const char* name) const {
  if (symbols == nullptr || texts == nullptr) return nullptr;
  const auto is = [&](uint32_t at) {
    return symbols[at].st_shndx != SHN_UNDEF && SameText(texts + symbols[at].st_name, name);
  };
  if (gnu_hashes != nullptr) {
    if (gnu_hashes[0] == 0) return nullptr;
    uint32_t hash = 5381;
    for (const char* c = name; *c != '\0'; ++c) hash = hash * 33 + static_cast<uint8_t>(*c);
    constexpr uint32_t kBits = 8 * sizeof(ElfW(Addr));
    const uint32_t bucket_count = gnu_hashes[0], first = gnu_hashes[1], words = gnu_hashes[2], shift = gnu_hashes[3];
    const auto* const filter = reinterpret_cast<const ElfW(Addr)*>(gnu_hashes + 4);
    const ElfW(Addr) word = filter[hash / kBits % words];
    if ((word >> hash % kBits & word >> (hash >> shift) % kBits & 1) == 0) return nullptr;
    const auto* const buckets = reinterpret_cast<const uint32_t*>(filter + words);
    const uint32_t* const chains = buckets + bucket_count;
    uint32_t at = buckets[hash % bucket_count];
    if (at < first) return nullptr;
    for (;; ++at) {
      const uint32_t here = chains[at - first];
      // The last bit marks the end of the chain.
      if ((here | 1) == (hash | 1) && is(at)) return &symbols[at];
      if ((here & 1) != 0) return nullptr;
    }
  }
  if (hashes == nullptr || hashes[0] == 0) return nullptr;
  uint32_t hash = 0;
  for (const char* c = name; *c != '\0'; ++c) {
    hash = (hash << 4) + static_cast<uint8_t>(*c);
    hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
  }
  for (uint32_t at = hashes[2 + hash % hashes[0]]; at != STN_UNDEF; at = hashes[2 + hashes[0] + at]) {
    if (is(at)) return &symbols[at];
  }
  return nullptr;
}

void* SymbolOf(const link_map* library, const char* name) {
  const ElfW(Sym)* const symbol = DynamicTables(library->l_addr, library->l_ld).Find(name);
  return symbol == nullptr ? nullptr : reinterpret_cast<void*>(library->l_addr + symbol->st_value);
}

const ElfW(Dyn) * DynamicOf(const dl_phdr_info& object) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    if (object.dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    return reinterpret_cast<const ElfW(Dyn)*>(object.dlpi_addr + object.dlpi_phdr[i].p_vaddr);
  }
  return nullptr;
}

const link_map* Glibc() { return ObjectAt(RealDlsym(RTLD_NEXT, "gnu_get_libc_version")); }

bool FindVisitor() {
  g_visit_objects = reinterpret_cast<decltype(g_visit_objects)>(RealDlsym(RTLD_NEXT, "dl_iterate_phdr"));
  return ObjectAt(reinterpret_cast<void*>(g_visit_objects)) == Glibc();
}

int VisitObjects(Visit visit, void* data) { return g_visit_objects == nullptr ? 0 : g_visit_objects(visit, data); }

void RecordLoadedModules(ThreadState* thread, const char* executable) {
  FindTheFinder();
  IterateArgument argument{thread, executable, true};
  dl_iterate_phdr(RecordOne, &argument);
}

__attribute__((noinline)) void NoteCodeAddressSlow(ThreadState* thread, uint64_t address) {
  const uint64_t region = address / kRegion, page = address / kPage;
  uint64_t* const known_page = &g_known_pages[page % kKnownPages];
  if (__atomic_load_n(known_page, __ATOMIC_RELAXED) == page) return;
  uint64_t* const known_region = &g_known_regions[region % kKnownRegions];
  dl_find_object found;
  if (g_find_object == nullptr || g_find_object(reinterpret_cast<void*>(address), &found) != 0) {
    // Code of a JIT compiler, or an older glibc without _dl_find_object.
    __atomic_store_n(known_region, region, __ATOMIC_RELAXED);
    __atomic_fetch_add(&g_attachment.segment.header->modules_missed, 1, __ATOMIC_RELAXED);
    return;
  }
  const uint64_t start = reinterpret_cast<uint64_t>(found.dlfo_map_start);
  const bool fills_region =
      start <= region * kRegion && (region + 1) * kRegion <= reinterpret_cast<uint64_t>(found.dlfo_map_end);
  if (fills_region) {
    __atomic_store_n(known_region, region, __ATOMIC_RELAXED);
  } else {
    __atomic_store_n(known_page, page, __ATOMIC_RELAXED);
  }
  uint32_t count = __atomic_load_n(&g_recorded_count, __ATOMIC_RELAXED);
  if (count > kMaxRecorded) count = kMaxRecorded;
  for (uint32_t i = 0; i < count; ++i) {
    if (__atomic_load_n(&g_recorded_starts[i], __ATOMIC_RELAXED) == start) return;
  }
  __atomic_fetch_add(&g_attachment.segment.header->modules_missed, 1, __ATOMIC_RELAXED);
  RecordModule(thread, found.dlfo_link_map->l_addr, start, reinterpret_cast<uint64_t>(found.dlfo_map_end),
               BuildIdAt(start, found.dlfo_link_map->l_addr), found.dlfo_link_map->l_name);
  LookForPython(thread, found.dlfo_link_map);
}

}  // namespace tbprof
