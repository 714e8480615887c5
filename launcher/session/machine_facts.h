// SPDX-License-Identifier: Apache-2.0
//
// The machine that a session runs on: what runs are distinguished by when they are compared.
//
// Process: launcher, at the session's start.
#ifndef TBPROF_LAUNCHER_SESSION_MACHINE_FACTS_H_
#define TBPROF_LAUNCHER_SESSION_MACHINE_FACTS_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace tbprof {

struct MachineFacts {
  std::string cpu_model, kernel;  // empty: not known
  int32_t cpus = 0;               // 0: not known
  uint64_t memory_bytes = 0;      // likewise
};

MachineFacts ReadMachineFacts();

// Of the text of /proc/cpuinfo: the first processor's; empty: it has no name there.
std::string CpuModelOf(std::string_view cpuinfo);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SESSION_MACHINE_FACTS_H_
