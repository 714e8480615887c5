// SPDX-License-Identifier: Apache-2.0
//
// Where the kernel puts core files: /proc/sys/kernel/core_pattern (core(5)).
//
//   const CorePattern pattern = ParseCorePattern("core.%e.%p", false);
//   pattern.PathOf(pid);   // `core.*.4711`: `*` replaces the parts that only the kernel knew at the dump
//
// Process: launcher. Pure functions.
#ifndef TBPROF_LAUNCHER_SAMPLING_CORE_PATTERN_H_
#define TBPROF_LAUNCHER_SAMPLING_CORE_PATTERN_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace tbprof {

class CorePattern {
 public:
  enum Kind {
    kNone,  // the pattern is empty: no core files
    kFile,
    kPipe,  // the kernel pipes core files to a program
  };
  Kind kind() const { return kind_; }
  // kPipe: the path of the program.
  const std::string& program() const { return program_; }
  bool is_relative() const { return kind_ == kFile && !text_.starts_with('/'); }
  // kFile: a pattern for fnmatch. `pid`: in the process's own pid namespace. All slashes come from the core pattern.
  std::string PathOf(int32_t pid) const;

  friend CorePattern ParseCorePattern(std::string_view text, bool uses_pid);

 private:
  Kind kind_ = kNone;
  std::string text_, program_;
};

// `uses_pid`: /proc/sys/kernel/core_uses_pid.
CorePattern ParseCorePattern(std::string_view text, bool uses_pid);

// Whether a path of PathOf contains an unescaped `*`.
bool HasWildcard(std::string_view path);
// The pattern of fnmatch that matches `path` alone.
std::string EscapedPath(std::string_view path);
// Removes the escaping backslashes of a path without wildcards.
std::string UnescapedPath(std::string_view path);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_CORE_PATTERN_H_
