// SPDX-License-Identifier: Apache-2.0
//
// Reads the runs of one side of a comparison from files, run directories and log directories.
//
//   absl::StatusOr<Side> base = ReadSide({"logs-of-main", "more/summary.json"}, std::nullopt);
//
// Process: launcher, for `tbprof compare`. Files are untrusted.
#ifndef TBPROF_LAUNCHER_GATE_SIDES_H_
#define TBPROF_LAUNCHER_GATE_SIDES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "launcher/gate/comparison.h"

namespace tbprof {

// A log directory stands for all of its runs that have ended and are not captures. `baseline:NAME` stands for the runs
// of that baseline in `store`. A name that is no path stands for that run in `logdir`, if that is not empty. The runs
// are sorted by start time.
absl::StatusOr<Side> ReadSide(const std::vector<std::string>& paths, std::optional<int64_t> rank,
                              const std::string& store, const std::string& logdir = "");

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_GATE_SIDES_H_
