// SPDX-License-Identifier: Apache-2.0
//
// The description of a session, valid and invalid.
#include "writer/convert/session_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tbprof {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

TEST(SessionFactsTest, TextThatIsNoObject_IsAnError) {
  EXPECT_FALSE(ParseSession("").ok());
  EXPECT_FALSE(ParseSession("{\"host\":").ok());
  EXPECT_FALSE(ParseSession("[1,2]").ok());
  EXPECT_FALSE(ParseSession("{\"host\":\"\xff\"}").ok());
  EXPECT_TRUE(ParseSession("{}").ok());
}

TEST(SessionFactsTest, MembersOfAnotherKind_CountAsMissing) {
  const auto missing = ParseSession("{}");
  const auto wrong = ParseSession(
      R"({"host":1,"run":[],"rank":"7","scheduler":{},"ticks_per_ns":"2","families":"all","only_command":1,)"
      R"("clock_cost_ns":null,"wait_threshold_ns":"long","malloc_stamp_every":[1],"command":"python"})");
  ASSERT_TRUE(missing.ok() && wrong.ok());
  EXPECT_EQ(wrong->host, "");
  EXPECT_EQ(wrong->rank, -1);
  EXPECT_EQ(wrong->scheduler, -1);
  EXPECT_EQ(wrong->ticks_per_ns, 1.0);
  EXPECT_EQ(wrong->families, 0u);
  EXPECT_FALSE(wrong->only_command);
  EXPECT_EQ(wrong->clock_cost_ns, missing->clock_cost_ns);
  EXPECT_EQ(wrong->wait_threshold_ns, missing->wait_threshold_ns);
  EXPECT_EQ(wrong->malloc_stamp_every, 0);
  EXPECT_TRUE(wrong->command.empty());
}

TEST(SessionFactsTest, RateOfClockThatCannotBe_IsOne) {
  for (const char* rate : {"0", "-3", "0.001", "1000", "1e300"}) {
    const auto facts = ParseSession(std::string("{\"ticks_per_ns\":") + rate + "}");
    ASSERT_TRUE(facts.ok());
    EXPECT_EQ(facts->ticks_per_ns, 1.0) << rate;
  }
  EXPECT_EQ(ParseSession("{\"ticks_per_ns\":2.5}")->ticks_per_ns, 2.5);
}

TEST(SessionFactsTest, SecretsOfCommand_AreMasked) {
  const auto facts = ParseSession(R"({"command":["python","train.py","--token","s3cret",5,"last"]})");
  ASSERT_TRUE(facts.ok());
  EXPECT_THAT(facts->command, Not(Contains(HasSubstr("s3cret"))));
  ASSERT_EQ(facts->command.size(), 5u);
  EXPECT_EQ(facts->command[4], "last");
}

TEST(SessionFactsTest, StepMarkerThatIsNoExpression_IsDropped) {
  EXPECT_EQ(ParseSession(R"({"step_marker":"step [0-9]+"})")->step_marker, "step [0-9]+");
  EXPECT_EQ(ParseSession(R"({"step_marker":"step (["})")->step_marker, "");
}

}  // namespace
}  // namespace tbprof
