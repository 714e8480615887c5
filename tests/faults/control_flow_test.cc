// SPDX-License-Identifier: Apache-2.0
// Jumps, coroutines, exceptions, small stacks, and calls before and after everything.
#include <gmock/gmock.h>

#include "../integration/harness.h"

namespace tbprof::integration {
namespace {

TEST(ControlFlow, HandlerJumpsOutDuringARecord_IsAsBare) {
  const Pair pair = RunBoth(Program("jumps_out_of_handlers"), {"3000"}, {"--wait-threshold=0"});
  EXPECT_EQ(pair.bare.code(), 0);
  ASSERT_TRUE(pair.Same());
  // A jump costs at most the record it left; the rest of the chunk is there.
  EXPECT_EQ(Recorded(pair.profiled, "pwrite") + Recorded(pair.profiled, "pwrite64"), 500)
      << pair.profiled.summary["records"];
  EXPECT_EQ(pair.profiled.summary["records"]["corrupt"], 0);
}

TEST(ControlFlow, SmallStacksCoroutinesAndExceptions_AreAsBare) {
  const Pair pair = RunBoth(Program("small_stacks"), {}, {"--wait-threshold=0", "--malloc-interval=4096"});
  EXPECT_EQ(pair.bare.out, "caught 50, spoiled 0\njoined 50\nhandled 50, spoiled 0\n");
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(pair.profiled.summary["threads"], 51);
  EXPECT_EQ(pair.profiled.summary["records"]["corrupt"], 0);
  EXPECT_GE(Recorded(pair.profiled, "read"), 50 * 7 + 50 + 50);
}

TEST(ControlFlow, CallsBeforeConstructorsAndAfterDestructors_AreAsBare) {
  const Pair pair = RunBoth(Program("early_and_late_calls"), {}, {"--wait-threshold=0", "--malloc-interval=4096"});
  EXPECT_EQ(pair.bare.out, "8 times\n42 1\n");
  ASSERT_TRUE(pair.Same());
  // What came before our own constructor is not recorded; all after it is.
  EXPECT_GE(Recorded(pair.profiled, "usleep"), 7);
}

}  // namespace
}  // namespace tbprof::integration
