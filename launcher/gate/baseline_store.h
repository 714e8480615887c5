// SPDX-License-Identifier: Apache-2.0
//
// Baselines: runs that are kept under a name, for comparison with later runs. The store is a directory with one file
// NAME.json per baseline, or one file with all baselines, for a repository.
//
//   absl::StatusOr<SavedBaseline> saved = SaveBaseline(store, "main", side, {.add = true});
//   absl::StatusOr<Side> base = LoadBaseline(store, "main");
//   std::optional<RunNoise> noise = NoiseOf(*base);
//
// A file is replaced as a whole (temporary file, fsync, rename), under a lock on its directory: processes that save at
// the same time do not overwrite each other's baselines. All writes stay in the store's directory; links of other users
// are not followed. Errors are one line.
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
// Prefix of a baseline among the paths of `compare`: `baseline:main`.
inline constexpr std::string_view kBaselinePrefix = "baseline:";

struct SaveOptions {
  bool add = false;                 // to the runs that the baseline has; else they are replaced
  size_t keep = kMostBaselineRuns;  // the newest runs, by their start; older ones are dropped
};
struct SavedBaseline {
  size_t runs = 0;     // in the baseline now
  size_t again = 0;    // saved runs that it had already, or that were given twice
  size_t dropped = 0;  // the oldest runs, which exceeded `keep`
};
// `store`: a file or a path that ends in `.json` is one file for all baselines, any other path is a directory. Relative
// to the working directory.
absl::StatusOr<SavedBaseline> SaveBaseline(const std::string& store, const std::string& name, const Side& side,
                                           const SaveOptions& options);
absl::StatusOr<Baseline> ReadBaseline(const std::string& store, const std::string& name);
absl::StatusOr<Side> LoadBaseline(const std::string& store, const std::string& name);

// Sorted by name. Skips unreadable baselines and adds a line to `faults` for each. Empty if the store does not exist.
absl::StatusOr<std::vector<Baseline>> ListBaselines(const std::string& store, std::vector<std::string>* faults);

// std::nullopt: fewer than 3 runs have comparable step times.
std::optional<RunNoise> NoiseOf(const Side& side);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_GATE_BASELINE_STORE_H_
