// SPDX-License-Identifier: Apache-2.0
//
// Writes and reads baselines as JSON. A file from a repository or a cache is untrusted: input that does not match the
// format exactly is an error of one line, texts are made printable, numbers are finite.
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
  int64_t saved_unix_ns = 0;  // time of the last save to this baseline
  Side side;
};

inline constexpr int kBaselineSchemaVersion = 1;
inline constexpr size_t kMostBaselineRuns = 100;
inline constexpr size_t kMostBaselines = 200;                                  // per file
inline constexpr size_t kMostBaselineSteps = 500, kMostBaselineAmounts = 200;  // per run; per kind of a run
inline constexpr uint64_t kMostBaselineBytes = 64 << 20;

// Each run keeps at most kMostBaselineSteps step times (an even choice) and the kMostBaselineAmounts largest amounts of
// each kind; numbers have 7 digits; probable secrets in command lines are masked. A run is one line, for diffs.
std::string BaselinesAsJson(const std::vector<Baseline>& baselines);

// `path`: the file's name in messages.
absl::StatusOr<std::vector<Baseline>> BaselinesFromJson(std::string_view text, const std::string& path);

// Letters, digits, `.`, `_` and `-`, at most 100 characters, the first one a letter or digit.
bool IsBaselineName(std::string_view name);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_GATE_BASELINE_JSON_H_
