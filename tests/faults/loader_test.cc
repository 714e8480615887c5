// SPDX-License-Identifier: Apache-2.0
// Libraries loaded in ways that pass us by. What they call is not recorded; nothing else changes.
#include <gmock/gmock.h>

#include "../integration/harness.h"

namespace tbprof::integration {
namespace {

class Loading : public testing::TestWithParam<const char*> {};

TEST_P(Loading, EachWayOfLoading_IsAsBare) {
  const Pair pair = RunBoth(Program("loads_libraries"), {GetParam()}, {"--wait-threshold=0", "--malloc-interval=4096"});
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(pair.profiled.code(), 3);
  EXPECT_GT(atoi(pair.profiled.out.c_str()), 0) << pair.profiled.out;
  EXPECT_EQ(pair.profiled.profile->Named("usleep", "main").size(), 1u) << "the program's own calls are there";
  EXPECT_EQ(pair.profiled.summary["records"]["corrupt"], 0);
}
INSTANTIATE_TEST_SUITE_P(Ways, Loading, testing::Values("deepbind", "namespace", "again"),
                         [](const auto& way) { return std::string(way.param); });

}  // namespace
}  // namespace tbprof::integration
