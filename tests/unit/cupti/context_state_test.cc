// SPDX-License-Identifier: Apache-2.0
#include "cupti/context_state.h"

#include <gtest/gtest.h>

#include <set>

namespace tbprof::cupti {
namespace {

std::set<ContextState> ReachableFrom(ContextState start) {
  std::set<ContextState> reached = {start};
  for (size_t before = 0; before != reached.size();) {
    before = reached.size();
    for (const ContextTransition& one : kContextTransitions) {
      if (reached.contains(one.from)) reached.insert(one.to);
    }
  }
  return reached;
}

TEST(ContextState, EveryState_IsReachableFromFree) { EXPECT_EQ(ReachableFrom(kFree).size(), kContextStates); }

// The entry of a dead context is never reused: a thread that was too late may still use its events.
TEST(ContextState, EveryStateButDead_LeadsBackToFree) {
  for (uint32_t state = kFree; state < kContextStates; ++state) {
    EXPECT_EQ(ReachableFrom(static_cast<ContextState>(state)).contains(kFree), state != kDead) << state;
  }
}

// Events of a context that is being ended are never used again.
TEST(ContextState, Closing_NeverBecomesLiveAgain) {
  for (const ContextTransition& one : kContextTransitions) {
    if (one.to != kLive) continue;
    EXPECT_TRUE(one.from == kStarting || one.from == kPaused) << one.from;
  }
}

TEST(ContextState, Change_OfAnotherState_DoesNothing) {
  uint32_t state = kPausing;
  EXPECT_FALSE((ChangeState<kLive, kClosing>(&state)));
  EXPECT_EQ(state, kPausing);
  EXPECT_TRUE((ChangeState<kPausing, kPaused>(&state)));
  EXPECT_EQ(state, kPaused);
}

}  // namespace
}  // namespace tbprof::cupti
