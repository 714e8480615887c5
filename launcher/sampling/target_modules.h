// SPDX-License-Identifier: Apache-2.0
//
// The code that is mapped into a process, for unwinding its stacks while it runs. The mappings come from /proc/PID/maps
// and from the kernel's records of later mappings.
//
//   TargetModules modules(pid, &files);
//   modules.Read();
//   unwinder.Unwind(modules.map(), snapshot, 256, &complete);
//
// Process: launcher, the sampler's thread. Not thread-safe. Reads /proc and files. Untrusted: both.
#ifndef TBPROF_LAUNCHER_SAMPLING_TARGET_MODULES_H_
#define TBPROF_LAUNCHER_SAMPLING_TARGET_MODULES_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "launcher/sampling/mappings.h"
#include "writer/symbols/elf_file.h"
#include "writer/symbols/unwind.h"

namespace tbprof {

// The code segments of module files. Each file is read once, even if several processes map it.
class ModuleFiles {
 public:
  // The load bias if `offset` of the file is mapped to `start`. std::nullopt: no ELF file, or no code there.
  std::optional<uint64_t> LoadBias(const std::string& path, uint64_t start, uint64_t offset);

 private:
  using Key = std::tuple<uint64_t, uint64_t, int64_t, int64_t, int64_t>;  // device, inode, size, time of change
  std::map<Key, std::vector<ElfFile::Segment>> files_;
};

class TargetModules {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `files` must outlive this.
  TargetModules(pid_t pid, ModuleFiles* files) : pid_(pid), files_(*files) {}

  // Reads all mappings again. If the process has ended, the known mappings are kept.
  void Read();
  // Adds a later mapping. It replaces the mappings that it overlaps.
  void Add(const FileMapping& mapping);
  // For an unknown address: reads all mappings again, at first at most every 200 ms, then less often. False: too early.
  bool ReadForUnknown(Time now);
  const ModuleMap& map() const { return map_; }

 private:
  void AddTo(const FileMapping& mapping, ModuleMap* map);

  pid_t pid_;
  ModuleFiles& files_;
  ModuleMap map_;
  Time next_read_{};
  std::chrono::milliseconds delay_{200};
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_TARGET_MODULES_H_
