// SPDX-License-Identifier: Apache-2.0
// Finds a thread-local variable of CPython. Rules: RULES.md.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "preload/python_state.h"

#include <string.h>

#include "preload/modules.h"

namespace tbprof {
namespace {

// The longest chain of objects that is followed, each of which needs the one before it.
constexpr uint32_t kMostUsers = 4;

struct NeedSearch {
  const char* name;
  uint32_t depth;
  uint32_t visited;
};

bool IsNeededFromStart(const char* name, uint32_t depth);

int LookAtNeeds(dl_phdr_info* info, size_t, void* data) {
  auto* const search = static_cast<NeedSearch*>(data);
  const bool is_program = search->visited++ == 0;
  const ElfW(Dyn)* const dynamic = DynamicOf(*info);
  if (dynamic == nullptr) return 0;
  const DynamicTables tables(info->dlpi_addr, dynamic);
  if (tables.texts == nullptr) return 0;
  for (const ElfW(Dyn)* entry = dynamic; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag != DT_NEEDED || strcmp(tables.texts + entry->d_un.d_val, search->name) != 0) continue;
    if (is_program) return 1;
    if (search->depth == kMostUsers || tables.soname == nullptr) return 0;
    return IsNeededFromStart(tables.soname, search->depth + 1) ? 1 : 0;
  }
  return 0;
}

// Whether the program needs a library of that name, directly or through a library that it needs. A library that a
// constructor has loaded by dlopen is not needed from the start, and its variables have another offset in each thread.
bool IsNeededFromStart(const char* name, uint32_t depth) {
  NeedSearch search = {name, depth, 0};
  return dl_iterate_phdr(LookAtNeeds, &search) != 0;
}

int LookAtProgram(dl_phdr_info* info, size_t, void* base) {
  *static_cast<uint64_t*>(base) = info->dlpi_addr;
  return 1;
}

bool WasThereAtStart(const dl_phdr_info& object) {
  uint64_t program = 0;
  dl_iterate_phdr(LookAtProgram, &program);
  if (program == object.dlpi_addr) return true;
  const ElfW(Dyn)* const dynamic = DynamicOf(object);
  if (dynamic == nullptr) return false;
  const char* const name = DynamicTables(object.dlpi_addr, dynamic).soname;
  return name != nullptr && IsNeededFromStart(name, 1);
}

}  // namespace

int64_t FindOwnPythonState(const dl_phdr_info& object, size_t info_bytes, const uint8_t* (*own_state)()) {
  if (info_bytes < offsetof(dl_phdr_info, dlpi_tls_data) + sizeof(object.dlpi_tls_data)) return 0;
  if (object.dlpi_tls_data == nullptr || !WasThereAtStart(object)) return 0;
  uint64_t bytes = 0;
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    if (object.dlpi_phdr[i].p_type == PT_TLS) bytes = object.dlpi_phdr[i].p_memsz;
  }
  // The variable is hidden, and no debug offset gives its place. So each word of this thread's variables in turn holds
  // a unique mark during a call of own_state: the word whose mark the function returns is the variable. No Python runs
  // yet.
  constexpr uint64_t kMostBytes = 4096;
  const auto* const mark = reinterpret_cast<const uint8_t*>(&g_probed_pages);
  const auto block = reinterpret_cast<uint64_t>(object.dlpi_tls_data);
  for (uint64_t at = (block + 7) & ~uint64_t{7}; at + 8 <= block + (bytes < kMostBytes ? bytes : kMostBytes); at += 8) {
    auto* const word = reinterpret_cast<const uint8_t* volatile*>(at);
    const uint8_t* const kept = *word;
    *word = mark;
    const uint8_t* const read = own_state();
    *word = kept;
    if (read == mark) return static_cast<int64_t>(at - ThreadPointer());
  }
  return 0;
}

}  // namespace tbprof
