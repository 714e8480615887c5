// SPDX-License-Identifier: Apache-2.0
//
// Counts the events of a tbprof profile by kind, and reads the counts that the profile itself contains
// (docs/conservation.md). Every event is read, but only the id of its name.
//
//   XspaceCounts counts = CountXspace(fd);
//   if (counts.parsed && !counts.conservation.empty()) ...
//
// Process: launcher. Any thread. The content is treated as hostile.
#ifndef TBPROF_WRITER_OUTPUTS_XSPACE_COUNTS_H_
#define TBPROF_WRITER_OUTPUTS_XSPACE_COUNTS_H_

#include <cstdint>
#include <map>
#include <string>

namespace tbprof {

struct XspaceCounts {
  bool parsed = false;
  std::string conservation;  // the text of the stat; empty: written by another program or an older tbprof
  // Events on the lines of threads, by the text of the stat `kind` of their name.
  std::map<std::string, uint64_t> events;
};

XspaceCounts CountXspace(int fd);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_XSPACE_COUNTS_H_
