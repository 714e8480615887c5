// SPDX-License-Identifier: Apache-2.0
//
// The core file of one process that has ended, among the files that may be it: a regular file of the process's user or
// of our own, written after the process began, whose own notes name the process. It is opened for reading alone.
//
//   CoreSearch search = {.pattern = pattern, .directories = {cwd}, .pid = 4711, .user = 1000, .begun_ns = start};
//   FoundCore found = FindCore(search, until);
//   if (found.core != nullptr) ... else found.reason
//
// Process: launcher, the thread of CoreReader. Waits for the disk. Untrusted: every file there.
#ifndef TBPROF_LAUNCHER_SAMPLING_CORE_SEARCH_H_
#define TBPROF_LAUNCHER_SAMPLING_CORE_SEARCH_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "launcher/sampling/core_file.h"
#include "launcher/sampling/core_pattern.h"

namespace tbprof {

struct CoreSearch {
  CorePattern pattern;  // a file
  // That it may be relative to, absolute: where the process was seen last, where it was started. Empty: not known.
  std::vector<std::string> directories;
  int32_t pid = 0;       // as the process saw itself
  uid_t user = 0;        // of the process
  int64_t begun_ns = 0;  // the process, since 1970
};

struct FoundCore {
  std::unique_ptr<CoreFile> core;
  std::string path;
  std::string reason;  // one line, where there is none
};

FoundCore FindCore(const CoreSearch& search, std::chrono::steady_clock::time_point until);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_CORE_SEARCH_H_
