// SPDX-License-Identifier: Apache-2.0
//
// Baselines: runs that are kept under a name, to compare later ones with. The store is a directory with a file
// NAME.json each, or one file with all of them, for a repository.
//
//   absl::StatusOr<SavedBaseline> saved = SaveBaseline(store, "main", side, {.add = true});
//   absl::StatusOr<Side> base = LoadBaseline(store, "main");
//   std::optional<RunNoise> noise = NoiseOf(*base);
//
// A file is replaced as a whole (temporary file, fsync, rename), under a lock on its directory: processes that save at
// the same time lose nothing. Nothing is written outside the store's directory, and no link of another user is
// followed. Errors are one line.
//
// Process: launcher, for `tbprof baseline`, `compare`, `ab` and `run --baseline`, main thread.
#ifndef TBPROF_LAUNCHER_GATE_BASELINE_STORE_H_
#define TBPROF_LAUNCHER_GATE_BASELINE_STORE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "launcher/gate/baseline_json.h"
#include "launcher/gate/comparison.h"
#include "launcher/gate/statistics.h"

namespace tbprof {

inline constexpr char kDefaultStore[] = ".tbprof-baselines";
// How `compare` names a baseline among paths: `baseline:main`.
inline constexpr std::string_view kBaselinePrefix = "baseline:";

// `store` ends in `.json` or is a file: one file for all. Else a directory. Relative to the working directory. `add`:
// the runs are added to those that the baseline has. It keeps the `keep` runs that were saved last.
struct SaveOptions {
  bool add = false;
  size_t keep = kMostBaselineRuns;
};
struct SavedBaseline {
  size_t runs = 0;     // that it has now
  size_t dropped = 0;  // older ones that it had before
};
absl::StatusOr<SavedBaseline> SaveBaseline(const std::string& store, const std::string& name, const Side& side,
                                           const SaveOptions& options);
absl::StatusOr<Baseline> ReadBaseline(const std::string& store, const std::string& name);
absl::StatusOr<Side> LoadBaseline(const std::string& store, const std::string& name);

// By name. What cannot be read is left out, with a line each in `faults`. No store: none.
absl::StatusOr<std::vector<Baseline>> ListBaselines(const std::string& store, std::vector<std::string>* faults);

// Nothing: fewer than 3 runs whose times can be compared.
std::optional<RunNoise> NoiseOf(const Side& side);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_GATE_BASELINE_STORE_H_
