// SPDX-License-Identifier: Apache-2.0
//
// The code that is mapped into a process, for unwinding its stacks while it runs: from /proc/PID/maps, and from what
// the kernel reports of later mappings.
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
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "writer/symbols/unwind.h"

namespace tbprof {

// An executable mapping of a file.
struct CodeMapping {
  uint64_t start = 0, end = 0, offset = 0, inode = 0;
  std::string path;
};
// From the text of /proc/PID/maps.
std::vector<CodeMapping> ParseCodeMappings(std::string_view maps);

// Where the files of modules have their code; each file is read once, whatever processes map it.
class ModuleFiles {
 public:
  // What a file's code has as virtual address less file offset, for the code at `offset`. False: no ELF file.
  bool AddressOf(const std::string& path, uint64_t offset, uint64_t* difference);

 private:
  struct Segment {
    uint64_t offset = 0, end = 0, difference = 0;
  };
  using Key = std::tuple<uint64_t, uint64_t, int64_t, int64_t, int64_t>;  // device, inode, size, time of change
  std::map<Key, std::vector<Segment>> files_;
};

class TargetModules {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `files` must outlive this.
  TargetModules(pid_t pid, ModuleFiles* files) : pid_(pid), files_(*files) {}

  // Keeps what is known where the process has ended.
  void Read();
  // One that came later. It takes the place of what it overlaps.
  void Add(const CodeMapping& mapping);
  // Reads again where an address is not known: not more often than every 200 ms, and ever less often. False: too early.
  bool ReadForUnknown(Time now);
  const ModuleMap& map() const { return map_; }

 private:
  std::string OpenablePath(const CodeMapping& mapping) const;
  void AddTo(const CodeMapping& mapping, ModuleMap* map);

  pid_t pid_;
  ModuleFiles& files_;
  ModuleMap map_;
  Time next_read_{};
  std::chrono::milliseconds delay_{200};
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_TARGET_MODULES_H_
