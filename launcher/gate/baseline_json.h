// SPDX-License-Identifier: Apache-2.0
//
// A baseline as JSON, and back. A file of a repository or of a cache may be anybody's: what does not match exactly is
// an error of one line, texts are made printable, numbers are finite.
//
// Process: launcher. Pure functions.
#ifndef TBPROF_LAUNCHER_GATE_BASELINE_JSON_H_
#define TBPROF_LAUNCHER_GATE_BASELINE_JSON_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "launcher/gate/comparison.h"

namespace tbprof {

struct Baseline {
  std::string name;
  int64_t saved_unix_ns = 0;  // when runs were last saved to it
  Side side;
};

inline constexpr int kBaselineSchemaVersion = 1;
inline constexpr size_t kMostBaselineRuns = 100;
inline constexpr size_t kMostBaselines = 200;                                  // in a file
inline constexpr size_t kMostBaselineSteps = 500, kMostBaselineAmounts = 200;  // of a run; of each kind
inline constexpr uint64_t kMostBaselineBytes = 64 << 20;

// Of each run at most kMostBaselineSteps step times (an even choice) and the kMostBaselineAmounts largest amounts of a
// kind; numbers in 7 digits; command lines without what looks like a secret. A run is one line, for diffs.
std::string BaselinesAsJson(const std::vector<Baseline>& baselines);

// `path` is the name for messages.
absl::StatusOr<std::vector<Baseline>> BaselinesFromJson(std::string_view text, const std::string& path);

// Letters, digits, `.`, `_` and `-`, at most 100, beginning with a letter or digit.
bool IsBaselineName(std::string_view name);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_GATE_BASELINE_JSON_H_
