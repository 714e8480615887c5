// SPDX-License-Identifier: Apache-2.0
//
// What is mapped where: Module records, so that addresses have names after the process is gone.
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

// Whose code is at `address`; null: of no object. Before the constructor and before glibc 2.35 by the loader's lock.
const link_map* ObjectAt(const void* address);
// Null: another C library.
const link_map* Glibc();

// The build id of a shared library that cannot be unloaded now; its length, 0 if it has none or it is longer than
// `room`.
size_t BuildIdOf(const link_map* library, uint8_t* id, size_t room);

// What a library that cannot be unloaded now exports under that name; null: nothing. Past the loader and its lock: read
// from the library's own tables (DT_GNU_HASH, else DT_HASH).
void* SymbolOf(const link_map* library, const char* name);

// What the dynamic section of an object at `base` leads to.
struct DynamicTables {
  const uint32_t* gnu_hashes;  // these two: null where it has none
  const uint32_t* hashes;
  const ElfW(Sym) * symbols;
  const char* texts;
  const char* soname;                 // null: it has none
  const ElfW(Rela) * relocations[2];  // DT_RELA, DT_JMPREL
  size_t relocation_count[2];
  size_t relative_count;  // of DT_RELA, at its beginning: without a symbol

  DynamicTables(uint64_t base, const ElfW(Dyn) * dynamic);
  const ElfW(Sym) * Find(const char* name) const;  // defined there; null: it is not
};

// Null: a static program's.
const ElfW(Dyn) * DynamicOf(const dl_phdr_info& object);

// libc's dl_iterate_phdr, which does not wait for a constructor that dlopen runs on another thread. A program may have
// one of its own with the objects of its start alone (ClickHouse, Seastar). Before FindVisitor, which the first hook
// calls and which takes the loader's lock, nothing is visited. False: another library stands before libc's, e.g.
// ThreadSanitizer's, whose function crashes until its own constructor has run.
bool FindVisitor();
using Visit = int (*)(dl_phdr_info* info, size_t size, void* data);
int VisitObjects(Visit visit, void* data);

void RecordLoadedModules(ThreadState* thread, const char* executable);

// Direct-mapped filter over 64 KiB regions that one known module fills. Two libraries may share another region, small
// ones wholly: of these the pages are known.
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
