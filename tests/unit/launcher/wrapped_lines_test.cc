// SPDX-License-Identifier: Apache-2.0
#include "launcher/base/wrapped_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tbprof {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(WrappedLines, ShortOrEmptyText_IsNotBroken) {
  EXPECT_THAT(WrappedLines("", 20, 3), IsEmpty());
  EXPECT_THAT(WrappedLines("equivalent", 10, 3), ElementsAre("equivalent"));
}

TEST(WrappedLines, LongText_IsBrokenAtBlanksAndIndented) {
  EXPECT_THAT(WrappedLines("one two three four five six", 14, 3),
              ElementsAre("one two three", "      four", "      five six"));
}

TEST(WrappedLines, NumberAndUnit_StayTogether) {
  EXPECT_THAT(WrappedLines("the step changes by -3.8 %, 4.23 ms", 25, 3),
              ElementsAre("the step changes by", "      -3.8 %, 4.23 ms"));
  EXPECT_THAT(WrappedLines("faster by 12 ms", 12, 3), ElementsAre("faster by", "      12 ms"));
  // A number that counts something has no unit.
  EXPECT_THAT(WrappedLines("faster in 12 runs", 13, 3), ElementsAre("faster in 12", "      runs"));
}

TEST(WrappedLines, MoreThanTheLines_IsCut) {
  EXPECT_THAT(WrappedLines("one two three four", 10, 2), ElementsAre("one two", "      thr…"));
  EXPECT_THAT(WrappedLines("unbreakable", 5, 3), ElementsAre("unbr…"));
}

}  // namespace
}  // namespace tbprof
