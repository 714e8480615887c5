// SPDX-License-Identifier: Apache-2.0
// A target that writes anything into what it shares with the launcher, at any time: the launcher ends as the command
// did, and what it writes is a whole profile. The readers themselves are fuzzed in tests/fuzz.
#include <gmock/gmock.h>

#include "../integration/harness.h"

namespace tbprof::integration {
namespace {

class HostileTarget : public testing::TestWithParam<const char*> {
 protected:
  RunResult Run(int seed) {
    RunOptions options;
    options.tbprof = {"--wait-threshold=0", "--max-profile-size=8MiB"};
    return RunUnderTbprof({Program("scribbles_on_segment"), GetParam(), std::to_string(seed)}, options);
  }
};

TEST_P(HostileTarget, CorruptSegment_LauncherAndProfileAreWhole) {
  for (int seed = 1; seed <= 5; ++seed) {
    const RunResult result = Run(seed);
    ASSERT_EQ(result.Fact("found"), 1u);
    EXPECT_EQ(result.code(), 11) << seed << ": signal " << result.signal() << "\n" << result.AllPrinted();
    EXPECT_EQ(result.err, "");
    EXPECT_FALSE(result.Printed("the conversion was ended")) << seed << "\n" << result.AllPrinted();
    // Whole by the launcher's own reader, or the cause.
    ASSERT_NE(result.profile, nullptr) << seed << "\n" << result.AllPrinted();
    EXPECT_TRUE(result.Printed("verified")) << result.AllPrinted();
    ASSERT_TRUE(result.summary.is_object());
    for (const auto& plane : result.profile->space().planes()) {
      for (const auto& line : plane.lines()) {
        for (const auto& event : line.events()) {
          ASSERT_GE(event.offset_ps(), 0);
          ASSERT_GE(event.duration_ps(), 0);
        }
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Modes, HostileTarget,
                         testing::Values("random", "headers", "chunks", "ones", "times", "race", "resize"),
                         [](const auto& mode) { return std::string(mode.param); });

TEST(HostileTarget, CorruptRecords_AreCounted) {
  RunOptions options;
  options.tbprof = {"--wait-threshold=0"};
  const RunResult result = RunUnderTbprof({Program("scribbles_on_segment"), "times", "3"}, options);
  ASSERT_NE(result.profile, nullptr) << result.AllPrinted();
  EXPECT_GT(result.summary["records"]["corrupt"].get<int64_t>(), 0) << result.summary["records"];
  EXPECT_TRUE(result.Printed("corrupt record")) << result.AllPrinted();
  EXPECT_TRUE(result.profile->HasWarning("corrupt")) << "in the file, too";
}

TEST(HostileTarget, Segment_CannotBeResized) {
  RunOptions options;
  options.tbprof = {"--wait-threshold=0"};
  const RunResult result = RunUnderTbprof({Program("scribbles_on_segment"), "resize", "1"}, options);
  EXPECT_EQ(result.Fact("shrunk"), 0u);
  EXPECT_EQ(result.Fact("grown"), 0u);
  ASSERT_NE(result.profile, nullptr);
  // What was recorded before is there, though the program unmapped it.
  EXPECT_EQ(result.profile->Count("read"), 3000);
}

}  // namespace
}  // namespace tbprof::integration
