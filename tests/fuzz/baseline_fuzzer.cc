// SPDX-License-Identifier: Apache-2.0
//
// A file of baselines: what is read can be written, and reads back as the same.
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "launcher/gate/baseline_json.h"
#include "tests/fuzz/check_timeline.h"
#include "writer/base/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tbprof;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<std::vector<Baseline>> baselines = BaselinesFromJson(text, "file");
  if (!baselines.ok()) {
    const std::string line(baselines.status().message());
    Require(!line.empty() && PrintableUtf8(line) == line);
    return 0;
  }
  for (const Baseline& baseline : *baselines) {
    Require(IsBaselineName(baseline.name) && !baseline.side.runs.empty());
    for (const RunNumbers& run : baseline.side.runs) {
      Require(PrintableUtf8(run.path) == run.path && std::isfinite(run.median_step_s));
      for (const double step : run.steps_s) Require(std::isfinite(step) && step >= 0);
    }
  }
  const std::string written = BaselinesAsJson(*baselines);
  const absl::StatusOr<std::vector<Baseline>> again = BaselinesFromJson(written, "file");
  Require(again.ok() && BaselinesAsJson(*again) == written);
  return 0;
}
