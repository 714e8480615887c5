// SPDX-License-Identifier: Apache-2.0
//
// Finds the core file of one process that has ended. The core file is a regular file that belongs to the process's user
// or to tbprof's user, was written after the process began, and whose notes name the process. It is opened read-only.
//
//   CoreSearch search = {.pattern = pattern, .directories = {cwd}, .pid = 4711, .user = 1000, .begun_ns = start};
//   FoundCore found = FindCore(search, until);
//   if (found.core != nullptr) ... else found.reason
//
// Process: launcher, the thread of CoreReader. Waits for the disk. Untrusted: every candidate file.
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
  CorePattern pattern;  // kind() is kFile
  // Absolute directories for a relative pattern: the last known working directory of the process, and the directory
  // where it was started. Empty: not known.
  std::vector<std::string> directories;
  int32_t pid = 0;       // in the process's own pid namespace
  uid_t user = 0;        // of the process
  int64_t begun_ns = 0;  // start of the process, since 1970
};

struct FoundCore {
  std::unique_ptr<CoreFile> core;
  std::string path;
  std::string reason;  // one line if no core file was found
};

FoundCore FindCore(const CoreSearch& search, std::chrono::steady_clock::time_point until);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_CORE_SEARCH_H_
