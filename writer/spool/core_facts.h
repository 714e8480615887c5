// SPDX-License-Identifier: Apache-2.0
//
// Reads from a spool the facts about core files of processes that a signal ended. PythonFacts and NativeFacts have
// their codes and frames.
//
// Process: converter, one thread. Untrusted: all numbers and texts; invalid facts are counted. Memory: bounded by the
// limits below.
#ifndef TBPROF_WRITER_SPOOL_CORE_FACTS_H_
#define TBPROF_WRITER_SPOOL_CORE_FACTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "writer/spool/spool.h"
#include "writer/symbols/unwind.h"

namespace tbprof {

inline constexpr size_t kMostCores = 256;
// Limits of one core file.
inline constexpr size_t kMostCoreThreads = 1024;
inline constexpr size_t kMostCoreModules = 4096;

struct CoreFacts {
  CoreFact fact{};
  std::vector<CoreThread> threads;
  std::vector<Module> modules;
  std::string path, reason;
};

class CoreFileFacts {
 public:
  // False: the frame is not of a core file.
  bool Take(const Frame& frame);

  // By segment and serial of the process.
  const std::map<std::pair<uint32_t, uint32_t>, CoreFacts>& cores() const { return cores_; }
  uint64_t corrupt() const { return corrupt_; }

 private:
  bool TakeCore(const Frame& frame);

  std::map<std::pair<uint32_t, uint32_t>, CoreFacts> cores_;
  uint64_t corrupt_ = 0;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_SPOOL_CORE_FACTS_H_
