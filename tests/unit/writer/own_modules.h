// SPDX-License-Identifier: Apache-2.0
//
// The modules of the test itself, as a converter knows those of a target.
#ifndef TBPROF_TESTS_UNIT_WRITER_OWN_MODULES_H_
#define TBPROF_TESTS_UNIT_WRITER_OWN_MODULES_H_

#include <link.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>

#include "writer/symbols/elf_file.h"
#include "writer/symbols/unwind.h"

namespace tbprof {

inline int AddOwnModule(dl_phdr_info* info, size_t, void* argument) {
  Module module;
  module.load_bias = info->dlpi_addr;
  module.start = UINT64_MAX;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    module.start = std::min<uint64_t>(module.start, info->dlpi_addr + segment.p_vaddr);
    module.end = std::max<uint64_t>(module.end, info->dlpi_addr + segment.p_vaddr + segment.p_memsz);
  }
  auto* modules = static_cast<ModuleMap*>(argument);
  module.path = info->dlpi_name;
  if (module.path.empty() && modules->modules().empty()) {
    module.path = std::filesystem::read_symlink("/proc/self/exe");
  }
  if (auto file = ElfFile::Open(module.path)) module.build_id = file->build_id();
  modules->Add(module);
  return 0;
}

inline ModuleMap OwnModules() {
  ModuleMap modules;
  dl_iterate_phdr(AddOwnModule, &modules);
  return modules;
}

// The address of an instruction in it, wherever it is inlined.
__attribute__((always_inline)) inline uint64_t AddressHere() {
  uint64_t address;
#if defined(__x86_64__)
  asm volatile("lea 0(%%rip), %0" : "=r"(address));
#else
  asm volatile("adr %0, ." : "=r"(address));
#endif
  return address;
}

// The same modules, but the module at `address` comes from another file.
inline ModuleMap WithFile(uint64_t address, const std::string& path, const std::string& build_id = {}) {
  ModuleMap modules = OwnModules();
  Module changed = *modules.Find(address);
  changed.path = path;
  changed.build_id = build_id;
  modules.Add(changed);
  return modules;
}

}  // namespace tbprof

#endif  // TBPROF_TESTS_UNIT_WRITER_OWN_MODULES_H_
