// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/known_calls.h"

#include <gtest/gtest.h>

namespace tbprof {
namespace {

struct Frame {
  uint32_t code;
  int32_t instruction;
};
// Innermost first, in the reader's order.
const std::vector<Frame> kMainCallsF = {{2, 0}, {1, 10}};
const std::vector<Frame> kMainCallsFCallsG = {{3, 4}, {2, 6}, {1, 10}};

TEST(KnownCalls, CallSeenOnce_IsInDoubt) {
  KnownCalls calls;
  calls.Add(kMainCallsF);
  EXPECT_EQ(calls.Sure(kMainCallsF, 1), 1u);
  calls.Add(kMainCallsF);
  EXPECT_EQ(calls.Sure(kMainCallsF, 1), 2u);
}

TEST(KnownCalls, StackOfKnownCalls_IsSureAsFarAsTheyGo) {
  KnownCalls calls;
  for (int i = 0; i < 2; ++i) calls.Add(kMainCallsF);
  EXPECT_EQ(calls.Sure(kMainCallsFCallsG, 1), 2u) << "the call of g was never seen";
  for (int i = 0; i < 2; ++i) calls.Add(kMainCallsFCallsG);
  EXPECT_EQ(calls.Sure(kMainCallsFCallsG, 1), 3u);
}

TEST(KnownCalls, SameFunctionFromAnotherPlace_IsAnotherCall) {
  KnownCalls calls;
  for (int i = 0; i < 2; ++i) calls.Add(kMainCallsF);
  const std::vector<Frame> from_another_line = {{2, 0}, {1, 12}};
  EXPECT_EQ(calls.Sure(from_another_line, 1), 1u);
  const std::vector<Frame> another_function = {{4, 0}, {1, 10}};
  EXPECT_EQ(calls.Sure(another_function, 1), 1u);
}

TEST(KnownCalls, WhatIsSureAlready_StaysSure) {
  const KnownCalls calls;
  EXPECT_EQ(calls.Sure(kMainCallsFCallsG, 3), 3u);
  EXPECT_EQ(calls.Sure(kMainCallsFCallsG, 2), 2u);
  EXPECT_EQ(calls.Sure(std::vector<Frame>{}, 0), 0u);
}

TEST(KnownCalls, OutermostFrame_IsInDoubtForNoCall) {
  const KnownCalls calls;
  EXPECT_EQ(calls.Sure(kMainCallsF, 0), 1u);
}

}  // namespace
}  // namespace tbprof
