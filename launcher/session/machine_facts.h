// SPDX-License-Identifier: Apache-2.0
//
// The machine that a session runs on: what runs are distinguished by when they are compared.
//
// Process: launcher, at the session's start.
#ifndef TBPROF_LAUNCHER_SESSION_MACHINE_FACTS_H_
#define TBPROF_LAUNCHER_SESSION_MACHINE_FACTS_H_

#include <cstdint>
#include <string>

namespace tbprof {

struct MachineFacts {
  std::string cpu_model, kernel;  // empty: not known (the model: but on x86)
  int32_t cpus = 0;               // 0: not known
  uint64_t memory_bytes = 0;      // likewise
};

MachineFacts ReadMachineFacts();

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SESSION_MACHINE_FACTS_H_
