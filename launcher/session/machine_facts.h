// SPDX-License-Identifier: Apache-2.0
//
// Facts of the machine that a session runs on; comparisons of runs use them to detect different machines.
//
// Process: launcher, at the session's start.
#ifndef TBPROF_LAUNCHER_SESSION_MACHINE_FACTS_H_
#define TBPROF_LAUNCHER_SESSION_MACHINE_FACTS_H_

#include <cstdint>
#include <string>

namespace tbprof {

struct MachineFacts {
  std::string cpu_model, kernel;  // empty: unknown; cpu_model is known on x86-64 only
  int32_t cpus = 0;               // 0: unknown
  uint64_t memory_bytes = 0;      // 0: unknown
};

MachineFacts ReadMachineFacts();

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SESSION_MACHINE_FACTS_H_
