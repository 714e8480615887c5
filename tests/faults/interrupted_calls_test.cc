// SPDX-License-Identifier: Apache-2.0
// F42: programs with handlers for the signals that profilers like to take.
#include <gmock/gmock.h>

#include "../integration/harness.h"

namespace tbprof::integration {
namespace {

// No call is interrupted more or less often than without tbprof. (While windows open and close:
// capture_signal_storm_test: Windows.)
TEST(InterruptedCalls, Counts_EqualTheBareOnes) {
  const RunResult bare = RunBare({Program("interrupted_calls")});
  ASSERT_EQ(bare.code(), 0);
  ASSERT_THAT(bare.out, testing::HasSubstr("children: interrupted 50, handled 50\n"));
  ASSERT_THAT(bare.out, testing::HasSubstr("waited for 50, interrupted for no reason 0\n"));

  RunOptions options;
  options.tbprof = {"--wait-threshold=0"};
  const RunResult profiled = RunUnderTbprof({Program("interrupted_calls")}, options);
  EXPECT_EQ(profiled.code(), 0) << profiled.AllPrinted();
  EXPECT_EQ(profiled.out, bare.out);
  EXPECT_EQ(profiled.err, bare.err);
  ASSERT_NE(profiled.profile, nullptr) << profiled.AllPrinted();
  EXPECT_GE(profiled.profile->Count("read"), 300);
}

}  // namespace
}  // namespace tbprof::integration
