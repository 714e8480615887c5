// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/option_gate.h"

#include <charconv>
#include <string>

#include "launcher/cli/option_values.h"

namespace tbprof {
absl::Status SetMargin(Options& options, std::string_view value) {
  double percent = 0;
  const char* const end_of_number = value.data() + value.size() - (value.ends_with('%') ? 1 : 0);
  const auto [end, error] = std::from_chars(value.data(), end_of_number, percent);
  const bool is_number = error == std::errc() && end == end_of_number && end + 1 == value.data() + value.size();
  if (!is_number || !(percent >= 0.1 && percent <= 100)) return Expected("a share from 0.1% to 100%, such as 3%");
  options.margin = percent / 100;
  return absl::OkStatus();
}

absl::Status SetUnclear(Options& options, std::string_view value) {
  options.unclear_passes = value == "pass";
  options.unclear_fails = value == "fail";
  return options.unclear_passes || options.unclear_fails ? absl::OkStatus() : Expected("pass or fail");
}

absl::Status SetMaxTime(Options& options, std::string_view value) {
  const absl::StatusOr<absl::Duration> duration = ParseDuration(value);
  if (!duration.ok()) return duration.status();
  options.max_time = *duration;
  return absl::OkStatus();
}

// Accepts `baseline:NAME` as well, as `compare` does.
absl::Status SetBaseline(Options& options, std::string_view value) {
  constexpr std::string_view kPrefix = "baseline:";
  if (value.starts_with(kPrefix)) value.remove_prefix(kPrefix.size());
  options.baseline = std::string(value);
  return absl::OkStatus();
}

}  // namespace tbprof
