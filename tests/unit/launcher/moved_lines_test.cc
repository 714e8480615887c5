// SPDX-License-Identifier: Apache-2.0
#include "launcher/gate/moved_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tbprof {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

// Three lines were inserted above a call of validate(), and the call itself.
TEST(MovedLines, LinesBelowAnInsertion_AreMatched) {
  EXPECT_THAT(MatchMovedLines({{76, 0.8, 0.8}, {79, 8.1, 0.6}, {82, 0.5, 8.6}, {84, 0, 6.3}, {85, 0, 0.5}}),
              ElementsAre(Pair(0, 0), Pair(1, 2), Pair(2, 3)));
}

TEST(MovedLines, SameLines_StayAsTheyAre) {
  EXPECT_THAT(MatchMovedLines({{1, 3, 3}, {2, 5, 5}}), IsEmpty());
  EXPECT_THAT(MatchMovedLines({{1, 1, 5}, {2, 5, 5}}), IsEmpty()) << "the first became slower";
  EXPECT_THAT(MatchMovedLines({{1, 3, 3}, {2, 0, 7}}), IsEmpty()) << "a new line";
  EXPECT_THAT(MatchMovedLines({{1, 3, 3}, {2, 7, 0}}), IsEmpty()) << "a line was removed";
  EXPECT_THAT(MatchMovedLines({{1, 0, 0}, {2, 0, 0}}), IsEmpty());
  EXPECT_THAT(MatchMovedLines({}), IsEmpty());
}

TEST(MovedLines, AllLinesMoved_AreMatched) {
  EXPECT_THAT(MatchMovedLines({{10, 3, 0}, {11, 5, 3}, {12, 0, 5}}), ElementsAre(Pair(0, 1), Pair(1, 2)));
}

}  // namespace
}  // namespace tbprof
