// SPDX-License-Identifier: Apache-2.0
// System calls that a program makes by their numbers.
#include <gmock/gmock.h>

#include "../integration/harness.h"

namespace tbprof::integration {
namespace {

TEST(Syscall, CallsByNumber_AreAsBareAndWaitsAreShown) {
  const Pair pair = RunBoth(Program("calls_by_number"));
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(pair.bare.code(), 0) << pair.bare.out;
  // The turns of the main thread, each at least 2 ms, and the wait that timed out.
  const auto waits = pair.profiled.profile->Named("futex", "WaitOnWord");
  EXPECT_GE(waits.size(), 21u);
  EXPECT_EQ(pair.profiled.summary["records"]["corrupt"], 0);
}

TEST(Syscall, LocksNotRecorded_CallsAreAsBare) {
  const Pair pair = RunBoth(Program("calls_by_number"), {}, {"--trace=io"});
  EXPECT_TRUE(pair.Same());
}

}  // namespace
}  // namespace tbprof::integration
