// SPDX-License-Identifier: Apache-2.0
// A program whose steps get longer from some step on: when, by how much, and where.
#include <gmock/gmock.h>

#include <cstdlib>

#include "harness.h"

namespace tbprof::integration {
namespace {

using ::testing::HasSubstr;

TEST(StepChange, StepsOfTenTimesTheWork_AreReportedWithTheirFunction) {
  const RunResult result = RunUnderTbprof({Program("slows_down"), "120", "80", "9"});
  ASSERT_EQ(result.code(), 0) << result.AllPrinted();
  const nlohmann::json& change = result.summary["steps"]["change"];
  ASSERT_TRUE(change.is_object()) << result.summary["steps"].dump(1);
  SCOPED_TRACE(change.dump(1));
  EXPECT_EQ(change["kind"], "jump");
  EXPECT_EQ(change["slower"], true);
  EXPECT_LE(std::abs(change["step"].get<int64_t>() - 80), 1) << "a nap beside other programs may be as long";
  EXPECT_EQ(change["part"], "sleep");
  EXPECT_EQ(change["line_part"], "sleep");
  EXPECT_THAT(change["function"], HasSubstr("Augment"));
  EXPECT_GE(change["line_s"].get<double>(), 0.09);
  EXPECT_GE(change["after_s"].get<double>(), 0.1);
  EXPECT_TRUE(result.Printed("slower: from ")) << result.AllPrinted();
  EXPECT_TRUE(result.Printed(" at Augment")) << result.AllPrinted();
  ExpectSchema(result.summary);
}

TEST(StepChange, StepsOfTheSameWork_HaveNone) {
  const RunResult result = RunUnderTbprof({Program("slows_down"), "120", "120", "0"});
  ASSERT_EQ(result.code(), 0) << result.AllPrinted();
  const nlohmann::json& change = result.summary["steps"]["change"];
  EXPECT_TRUE(change.is_null()) << change.dump(1);
  EXPECT_FALSE(result.Printed("slower: ")) << result.AllPrinted();
  EXPECT_FALSE(result.Printed("faster: ")) << result.AllPrinted();
}

}  // namespace
}  // namespace tbprof::integration
