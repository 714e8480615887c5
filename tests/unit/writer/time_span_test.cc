// SPDX-License-Identifier: Apache-2.0
#include "writer/timeline/time_span.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tbprof {
namespace {

std::string Text(const std::vector<TimeSpan>& spans) {
  std::string text;
  for (const TimeSpan& span : spans) text += std::to_string(span.start_ps) + "-" + std::to_string(span.end_ps) + " ";
  return text;
}

TEST(TimeSpan, Without_CutsHolesOut) {
  const std::vector<TimeSpan> spans = {{0, 10}, {20, 30}, {40, 50}};
  EXPECT_EQ(Text(Without(spans, {})), "0-10 20-30 40-50 ");
  EXPECT_EQ(Text(Without(spans, {{2, 4}, {6, 8}})), "0-2 4-6 8-10 20-30 40-50 ");
  EXPECT_EQ(Text(Without(spans, {{5, 25}})), "0-5 25-30 40-50 ");
  EXPECT_EQ(Text(Without(spans, {{10, 20}, {30, 40}})), "0-10 20-30 40-50 ");
  EXPECT_EQ(Text(Without(spans, {{20, 30}})), "0-10 40-50 ");
  EXPECT_EQ(Text(Without(spans, {{0, 100}})), "");
  EXPECT_EQ(Text(Without({}, {{0, 100}})), "");
}

}  // namespace
}  // namespace tbprof
