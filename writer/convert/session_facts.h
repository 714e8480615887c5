// SPDX-License-Identifier: Apache-2.0
//
// What the launcher wrote about the session at its start: the JSON of the spool's first frame.
//
// Process: converter. Untrusted: members may be missing or of another kind.
#ifndef TBPROF_WRITER_CONVERT_SESSION_FACTS_H_
#define TBPROF_WRITER_CONVERT_SESSION_FACTS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace tbprof {

struct SessionFacts {
  std::string host, run, window, ranks, step_marker;
  int rank = -1, scheduler = -1;  // of the launcher, of wire/ranks.h
  double ticks_per_ns = 1;
  uint32_t families = 0;
  bool only_command = false;
  // Measured by the launcher at the start.
  double clock_cost_ns = 0, record_cost_ns = 0, allocation_cost_ns = 0, page_cost_ns = 0;
  uint64_t wait_threshold_ns = 0;
  double malloc_stamp_every = 0;     // 0: not every block is recorded
  std::vector<std::string> command;  // without secrets
};

// An error where the text is no description of a session.
absl::StatusOr<SessionFacts> ParseSession(std::string_view json);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_SESSION_FACTS_H_
