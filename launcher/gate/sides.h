// SPDX-License-Identifier: Apache-2.0
//
// The runs of one side of a comparison, from what was named: files, run directories, log directories.
//
//   absl::StatusOr<Side> base = ReadSide({"logs-of-main", "more/summary.json"}, std::nullopt);
//
// Process: launcher, for `tbprof compare`. Files may be anybody's.
#ifndef TBPROF_LAUNCHER_GATE_SIDES_H_
#define TBPROF_LAUNCHER_GATE_SIDES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "launcher/gate/comparison.h"

namespace tbprof {

// A log directory means all of its runs that have ended and are no captures. In the order of their starts.
// `baseline:NAME` means the runs of that baseline in `store`.
absl::StatusOr<Side> ReadSide(const std::vector<std::string>& paths, std::optional<int64_t> rank,
                              const std::string& store);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_GATE_SIDES_H_
