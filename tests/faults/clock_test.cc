// SPDX-License-Identifier: Apache-2.0
// A program that takes the clock away, and one whose clock is another one's.
#include <gmock/gmock.h>

#include "../integration/harness.h"

namespace tbprof::integration {
namespace {

// Every hook reads the counter: it must stop before the first read faults.
TEST(Counter, FaultingCounter_EndsTheRecording) {
  const Pair pair = RunBoth(Program("faulting_counter"), {}, {"--wait-threshold=0"});
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(pair.profiled.code(), 4);
  EXPECT_EQ(pair.profiled.profile->Named("usleep", "main").size(), 1u) << "what came before is there";
  EXPECT_EQ(pair.profiled.profile->HasWarning("PR_SET_TSC"), pair.bare.out.find("set: 1") != std::string::npos);
}

}  // namespace
}  // namespace tbprof::integration
