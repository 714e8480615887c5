// SPDX-License-Identifier: Apache-2.0
//
// A published file of a run directory, for the summaries.
//
// Process: the converter and the launcher.
#ifndef TBPROF_WRITER_OUTPUTS_PUBLISHED_FILE_H_
#define TBPROF_WRITER_OUTPUTS_PUBLISHED_FILE_H_

#include <cstdint>
#include <string>

namespace tbprof {

struct PublishedFile {
  std::string path;  // absolute, final
  uint64_t bytes = 0;
  std::string verified;  // e.g. `verified: 3 planes, 12 lines, 10432 events`; empty if not verified
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_PUBLISHED_FILE_H_
