// SPDX-License-Identifier: Apache-2.0
//
// Writes Module records: which file is mapped where, so that addresses can be resolved after the process has ended.
//
// All modules are recorded at attach. Later ones (dlopen) are noticed when a call site in them is recorded:
// `_dl_find_object` of glibc 2.35 and later finds the module without a lock; where it is absent, and for modules that
// only appear deeper in a stack, the launcher gets a request to read the process's maps.
//
// Process: target. RecordLoadedModules in the constructor only (it takes the loader's lock); NoteCodeAddress anywhere.
#ifndef TBPROF_PRELOAD_MODULES_H_
#define TBPROF_PRELOAD_MODULES_H_

#include <link.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/state.h"

namespace tbprof {

// The object that contains `address`; null: none. Takes the loader's lock before the constructor, and before glibc
// 2.35.
const link_map* ObjectAt(const void* address);
// glibc's object; null: another C library.
const link_map* Glibc();

// Copies the build id of a shared library that cannot be unloaded now. Returns its length; 0: the library has no build
// id, or the build id is longer than `room`.
size_t BuildIdOf(const link_map* library, uint8_t* id, size_t room);

// The address that a library exports under `name`; null: none. The library must be one that cannot be unloaded now.
// Bypasses the loader and its lock: reads the library's own tables (DT_GNU_HASH, else DT_HASH).
void* SymbolOf(const link_map* library, const char* name);

// The tables to which the dynamic section of an object at `base` points.
struct DynamicTables {
  const uint32_t* gnu_hashes;  // gnu_hashes and hashes: null if the object has none
  const uint32_t* hashes;
  const ElfW(Sym) * symbols;
  const char* texts;
  const char* soname;                 // null: it has none
  const ElfW(Rela) * relocations[2];  // DT_RELA, DT_JMPREL
  size_t relocation_count[2];
  size_t relative_count;  // relocations without a symbol, at the beginning of DT_RELA

  DynamicTables(uint64_t base, const ElfW(Dyn) * dynamic);
  const ElfW(Sym) * Find(const char* name) const;  // null: the object does not define it
};

// The object's dynamic section; null: a static program.
const ElfW(Dyn) * DynamicOf(const dl_phdr_info& object);

// Finds libc's dl_iterate_phdr for VisitObjects. It does not wait for a constructor that dlopen runs on another thread.
// A program may have its own function, which visits only the objects of the program's start (ClickHouse, Seastar). The
// first hook calls FindVisitor, which takes the loader's lock; before that, VisitObjects visits nothing. False: another
// library's function precedes libc's, e.g. ThreadSanitizer's, which crashes until its own constructor has run.
bool FindVisitor();
using Visit = int (*)(dl_phdr_info* info, size_t size, void* data);
int VisitObjects(Visit visit, void* data);

void RecordLoadedModules(ThreadState* thread, const char* executable);

// Direct-mapped filter of 64 KiB regions that one known module fills. Libraries may share a region, and a small library
// may lie wholly in a shared one: there the filter remembers single pages.
inline constexpr uint32_t kKnownRegions = 4096;
extern __attribute__((visibility("hidden"))) uint64_t g_known_regions[kKnownRegions];

void NoteCodeAddressSlow(ThreadState* thread, uint64_t address);

// `address` must be in code that cannot be unloaded now, such as the caller's.
inline void NoteCodeAddress(ThreadState* thread, uint64_t address) {
  const uint64_t region = address >> 16;
  if (__builtin_expect(__atomic_load_n(&g_known_regions[region % kKnownRegions], __ATOMIC_RELAXED) == region, 1))
    return;
  NoteCodeAddressSlow(thread, address);
}

}  // namespace tbprof

#endif  // TBPROF_PRELOAD_MODULES_H_
