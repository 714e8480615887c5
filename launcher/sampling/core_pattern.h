// SPDX-License-Identifier: Apache-2.0
//
// Where the kernel puts core files: /proc/sys/kernel/core_pattern (core(5)).
//
//   const CorePattern pattern = ParseCorePattern("core.%e.%p", false);
//   pattern.NameOf(pid);   // `core.*.4711`: `*` stands for what only the dump itself knew
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
    kNone,  // empty: no core files
    kFile,
    kPipe,  // a program takes them
  };
  Kind kind() const { return kind_; }
  // Of kPipe: the program's path.
  const std::string& program() const { return program_; }
  bool is_relative() const { return kind_ == kFile && !text_.starts_with('/'); }
  // Of kFile: for fnmatch, with the number that the process had for itself. Slashes are those of the pattern alone.
  std::string PathOf(int32_t pid) const;

  friend CorePattern ParseCorePattern(std::string_view text, bool uses_pid);

 private:
  Kind kind_ = kNone;
  std::string text_, program_;
};

// `uses_pid`: /proc/sys/kernel/core_uses_pid.
CorePattern ParseCorePattern(std::string_view text, bool uses_pid);

// Whether a path of PathOf has characters that stand for others.
bool HasWildcard(std::string_view path);
// Without the backslashes of a path that has none.
std::string UnescapedPath(std::string_view path);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_CORE_PATTERN_H_
