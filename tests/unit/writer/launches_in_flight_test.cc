// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/launches_in_flight.h"

#include <gtest/gtest.h>

namespace tbprof {
namespace {

// Five launches of each step and two other calls, as CUPTI numbers them; all launches have work.
void AddSteps(uint32_t from, uint32_t to, LaunchesInFlight* calls) {
  for (uint32_t step = from; step < to; ++step) {
    for (uint32_t launch = 0; launch < 5; ++launch) {
      const uint32_t number = step * 7 + launch + 1;
      calls->Launch(number, uint64_t{1000} + number);
      calls->Work(number);
    }
  }
}

TEST(LaunchesInFlight, AllWorkIsRecorded_None) {
  LaunchesInFlight calls;
  EXPECT_EQ(calls.EarliestTicks(0), 0u);
  AddSteps(0, 100, &calls);
  EXPECT_EQ(calls.EarliestTicks(0), 0u);
}

TEST(LaunchesInFlight, LaunchesWithoutWork_EarliestOfTheLastTime) {
  LaunchesInFlight calls;
  AddSteps(0, 10, &calls);
  calls.Launch(71, 1071);
  AddSteps(11, 20, &calls);
  calls.Launch(141, 1141);
  EXPECT_EQ(calls.EarliestTicks(0), 1071u);
  EXPECT_EQ(calls.EarliestTicks(1100), 1141u);
  EXPECT_EQ(calls.EarliestTicks(2000), 0u);
}

TEST(LaunchesInFlight, ThreadsThatAreDeliveredOneAfterTheOther_NoHole) {
  LaunchesInFlight calls;
  for (uint32_t thread = 0; thread < 2; ++thread) {
    for (uint32_t launch = 0; launch < 100; ++launch) {
      calls.Launch(launch * 2 + thread, launch);
      calls.Work(launch * 2 + thread);
    }
  }
  EXPECT_EQ(calls.EarliestTicks(0), 0u);
}

TEST(LaunchesInFlight, AnyNumbers_NoFault) {
  LaunchesInFlight calls;
  for (const uint32_t number : {0u, UINT32_MAX, 7u, 7u, 0u, UINT32_MAX - 1}) calls.Launch(number, number);
  EXPECT_NE(calls.EarliestTicks(0), UINT64_MAX);
}

}  // namespace
}  // namespace tbprof
