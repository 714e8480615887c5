// SPDX-License-Identifier: Apache-2.0
//
// Compares `memory` of summary.json with the own ledger of programs/ledger.c.
#ifndef TBPROF_TESTS_INTEGRATION_MEMORY_ROWS_H_
#define TBPROF_TESTS_INTEGRATION_MEMORY_ROWS_H_

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "harness.h"

namespace tbprof::integration {

// The row whose native place begins with `place`; {}: none.
inline nlohmann::json RowOf(const nlohmann::json& rows, const std::string& place) {
  for (const nlohmann::json& row : rows) {
    if (row["call_site"].is_string() && row["call_site"].get<std::string>().starts_with(place)) return row;
  }
  return nullptr;
}

inline int64_t BytesOf(const nlohmann::json& row) { return row.is_null() ? 0 : row["bytes"].get<int64_t>(); }

inline void ExpectAddsUp(const nlohmann::json& rows, int64_t whole) {
  int64_t sum = 0;
  for (const nlohmann::json& row : rows) sum += row["bytes"].get<int64_t>();
  EXPECT_EQ(sum, whole) << rows.dump(1);
}

// Checks the program's own row of `memory`: its peak, and the live blocks at the peak.
inline void ExpectLedger(const RunResult& result, bool exact) {
  ASSERT_TRUE(result.summary["memory"].is_object()) << result.AllPrinted();
  const nlohmann::json& memory = result.summary["memory"]["processes"][0];
  SCOPED_TRACE(memory.dump(1));
  ASSERT_TRUE(memory["live_at_peak"].is_array());
  const auto ledger = static_cast<double>(result.Fact("small") + result.Fact("medium") + result.Fact("large"));
  const auto peak = memory["peak_bytes"].get<int64_t>();
  // libc, the loader and stdio take some memory, too.
  EXPECT_GE(static_cast<double>(peak), ledger * (exact ? 1 : 0.999));
  EXPECT_LE(static_cast<double>(peak), ledger + 300'000);
  EXPECT_EQ(memory["basis"], exact ? "exact" : "sampled");
  EXPECT_EQ(memory["peak_is"], exact ? "exact" : "counted");
  ExpectAddsUp(memory["live_at_peak"], peak);
  constexpr double kInterval = 512 << 10;
  for (const auto& [function, mark, size] :
       {std::tuple{"Small", "small", 700.0}, {"Medium", "medium", 20000.0}, {"Large", "large", 3145728.0}}) {
    const nlohmann::json row = RowOf(memory["live_at_peak"], SiteAt(function, "ledger.c", mark));
    const auto truth = static_cast<double>(result.Fact(mark));
    ASSERT_FALSE(row.is_null()) << mark;
    EXPECT_EQ(row["estimated"], !exact);
    if (exact) {
      EXPECT_EQ(BytesOf(row), result.Fact(mark));
      continue;
    }
    // Six standard deviations for n blocks, each sampled with a probability of 1 - exp(-size / interval).
    const double probability = -std::expm1(-size / kInterval);
    EXPECT_NEAR(static_cast<double>(BytesOf(row)), truth,
                6 * std::sqrt(truth * size * (1 - probability) / probability) + truth * 0.01)
        << mark;
  }
  const nlohmann::json gone = RowOf(memory["live_at_peak"], SiteAt("Gone", "ledger.c", "gone"));
  EXPECT_EQ(BytesOf(gone), 0) << "all of them went before the peak";
}

}  // namespace tbprof::integration

#endif  // TBPROF_TESTS_INTEGRATION_MEMORY_ROWS_H_
