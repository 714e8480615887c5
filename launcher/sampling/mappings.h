// SPDX-License-Identifier: Apache-2.0
//
// The mappings of a process: the text of /proc/PID/maps, and paths at which the mapped files can be opened.
//
//   std::string_view rest = maps;
//   while (const std::optional<MapsLine> line = TakeMapsLine(&rest)) ...
//   const std::string path = OpenablePath(mapping, {mapping.path, PathInRoot(pid, mapping), PathOfRange(pid,
//   mapping)});
//
// Process: launcher, any thread. Untrusted: all input.
#ifndef TBPROF_LAUNCHER_SAMPLING_MAPPINGS_H_
#define TBPROF_LAUNCHER_SAMPLING_MAPPINGS_H_

#include <sys/types.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tbprof {

struct MapsLine {
  uint64_t start = 0, end = 0, offset = 0, inode = 0;
  bool readable = false, executable = false;
  std::string_view path;  // also `[heap]`, or empty
};
// Removes the first valid line from `maps`, and the invalid ones before it; std::nullopt: there is none.
std::optional<MapsLine> TakeMapsLine(std::string_view* maps);

// A mapping of a file.
struct FileMapping {
  uint64_t start = 0, end = 0, offset = 0, inode = 0;
  std::string path;
};
// The executable mappings of files.
std::vector<FileMapping> ParseCodeMappings(std::string_view maps);
// Each mapped file once, with its first mapping.
std::vector<FileMapping> ParseMappedFiles(std::string_view maps);

// The file's path in the root of the process, which may be in a container.
std::string PathInRoot(pid_t pid, const FileMapping& mapping);
// The kernel's link to the mapped file, which also leads to a file that was replaced. Needs privileges.
std::string PathOfRange(pid_t pid, const FileMapping& mapping);
// The first of `paths` that leads to a readable file with the inode of the mapping; empty: none does.
std::string OpenablePath(const FileMapping& mapping, std::initializer_list<std::string> paths);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_MAPPINGS_H_
