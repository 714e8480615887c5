// SPDX-License-Identifier: Apache-2.0
//
// The events of a profile of tbprof's, counted by kind, and what the profile itself says of their number
// (docs/conservation.md). Every event is read, but nothing of it apart from its name's number.
//
//   XspaceCounts counts = CountXspace(fd);
//   if (counts.parsed && !counts.conservation.empty()) ...
//
// Process: launcher. Any thread. Content is taken as hostile.
#ifndef TBPROF_WRITER_OUTPUTS_XSPACE_COUNTS_H_
#define TBPROF_WRITER_OUTPUTS_XSPACE_COUNTS_H_

#include <cstdint>
#include <map>
#include <string>

namespace tbprof {

struct XspaceCounts {
  bool parsed = false;
  std::string conservation;  // the text of the stat; empty: another program's, or an older tbprof's
  // On the lines of threads, by the text of the stat `kind` that their name has.
  std::map<std::string, uint64_t> events;
};

XspaceCounts CountXspace(int fd);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_XSPACE_COUNTS_H_
