// SPDX-License-Identifier: Apache-2.0
// Promise 2: every record that a hook has finished is in the profile, however the program ends.
#include <gtest/gtest.h>
#include <signal.h>

#include "harness.h"

namespace tbprof::integration {
namespace {

constexpr int64_t kRecords = 1'000'000;

class Survival : public testing::TestWithParam<const char*> {};

TEST_P(Survival, MillionRecords_AreRecorded) {
  const Pair pair = RunBoth(Program("survive"), {std::to_string(kRecords), GetParam()},
                            {"--wait-threshold=0", "--max-profile-size=1GiB"});
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(pair.profiled.Fact("returned"), static_cast<uint64_t>(kRecords));
  const Profile& profile = *pair.profiled.profile;
  EXPECT_EQ(profile.Count("read"), kRecords / 2);
  EXPECT_EQ(profile.Count("write"), kRecords / 2);
  EXPECT_TRUE(pair.profiled.summary["records"]["dropped"].empty()) << pair.profiled.summary["records"];
  EXPECT_EQ(pair.profiled.summary["records"]["over_budget"], 0);
  EXPECT_EQ(pair.profiled.summary["records"]["corrupt"], 0);
  const nlohmann::json command = pair.profiled.summary["command"];
  if (pair.bare.exited()) {
    EXPECT_EQ(command["exit_code"], pair.bare.code());
  } else {
    EXPECT_EQ(command["exit_signal"], pair.bare.signal());
  }
}
INSTANTIATE_TEST_SUITE_P(Ends, Survival, testing::Values("kill", "segv", "abort", "_exit", "return"),
                         [](const auto& end) { return std::string(end.param[0] == '_' ? end.param + 1 : end.param); });

// Above the budget the totals stay complete, and the file reports the omitted events.
TEST(Budget, ThinnedProfile_ReportsIt) {
  const Pair pair =
      RunBoth(Program("survive"), {"100000", "_exit"}, {"--wait-threshold=0", "--max-profile-size=256KiB"});
  ASSERT_TRUE(pair.Same());
  EXPECT_GT(pair.profiled.summary["records"]["over_budget"], 0);
  EXPECT_TRUE(pair.profiled.profile->HasWarning("size budget"));
  int64_t calls = 0;
  for (const auto& operation : pair.profiled.summary["processes"][0]["operations"]) {
    if (operation["operation"] == "read" || operation["operation"] == "write")
      calls += operation["calls"].get<int64_t>();
  }
  EXPECT_EQ(calls, 100000);
}

// With little buffer memory and a launcher that is too slow, every drop is counted.
TEST(Buffer, RecordsAndDrops_AddUp) {
  const Pair pair = RunBoth(Program("survive"), {"200000", "kill"},
                            {"--wait-threshold=0", "--max-profile-size=1GiB", "--buffer-size=4MiB"});
  ASSERT_TRUE(pair.Same());
  int64_t dropped = 0;
  for (const auto& [cause, count] : pair.profiled.summary["records"]["dropped"].items())
    dropped += count.get<int64_t>();
  const int64_t seen = pair.profiled.profile->Count("read") + pair.profiled.profile->Count("write");
  EXPECT_EQ(seen + dropped, 200000);
  EXPECT_EQ(dropped > 0, pair.profiled.profile->HasWarning("records lost"));
}

}  // namespace
}  // namespace tbprof::integration
