// SPDX-License-Identifier: Apache-2.0
//
// Reads from a spool the limits of the CPUs that processes may use.
//
// Process: converter, one thread. Untrusted: all numbers; invalid facts are counted. Memory: bounded by the limits
// below.
#ifndef TBPROF_WRITER_SPOOL_CPU_LIMIT_FACTS_H_
#define TBPROF_WRITER_SPOOL_CPU_LIMIT_FACTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "writer/spool/spool.h"

namespace tbprof {

// Of all processes together.
inline constexpr size_t kMostCpuLimits = 1u << 18;

class CpuLimitFacts {
 public:
  // False: the frame has another type.
  bool Take(const Frame& frame);

  // In order of time; null: no limits of the process are known.
  const std::vector<CpuLimitsFact>* Of(uint32_t segment, uint32_t process_serial) const;
  uint64_t corrupt() const { return corrupt_; }

 private:
  std::map<std::pair<uint32_t, uint32_t>, std::vector<CpuLimitsFact>> facts_;  // by segment and serial of the process
  size_t count_ = 0;
  uint64_t corrupt_ = 0;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_SPOOL_CPU_LIMIT_FACTS_H_
