// SPDX-License-Identifier: Apache-2.0
//
// The order of runs and the looks of `tbprof ab`, and the load of the machine by other programs.
#include "launcher/gate/ab_plan.h"
#include "launcher/gate/machine_load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tbprof {
namespace {

using ::testing::HasSubstr;

TEST(AbOrder, EachTwoPairs_AreAbbaOrBaab) {
  AbOrder order(7);
  int begun_by_new = 0;
  for (int block = 0; block < 1000; ++block) {
    const bool first = order.Next(), second = order.Next();
    ASSERT_NE(first, second);
    begun_by_new += first ? 1 : 0;
  }
  EXPECT_GT(begun_by_new, 400);
  EXPECT_LT(begun_by_new, 600);
}

TEST(Looks, OneBudget_IsSharedByAll) {
  for (const uint64_t pairs : {uint64_t{3}, uint64_t{4}, uint64_t{5}, uint64_t{10}, uint64_t{40}, uint64_t{200}}) {
    const std::vector<Look> looks = PlanLooks(pairs);
    ASSERT_FALSE(looks.empty());
    EXPECT_EQ(looks.back().pairs, pairs);
    double sum = 0;
    for (size_t i = 0; i < looks.size(); ++i) {
      sum += looks[i].share;
      if (i > 0) EXPECT_GT(looks[i].pairs, looks[i - 1].pairs);
      if (i > 0) EXPECT_GT(looks[i].share, looks[i - 1].share);
    }
    EXPECT_NEAR(sum, 1, 1e-9);
    EXPECT_NEAR(ShareLeft(looks, 0), 1, 1e-9);
    EXPECT_EQ(ShareLeft(looks, looks.size()), 0);
  }
}

TEST(MachineLoad, Stat_HasBusyAndStolenTime) {
  LoadReading reading;
  ASSERT_TRUE(ParseStat("cpu  100 10 50 800 20 5 5 10 3 0\ncpu0 1 2 3 4\n", 100, &reading));
  EXPECT_DOUBLE_EQ(reading.busy_s, 1.7);
  EXPECT_DOUBLE_EQ(reading.steal_s, 0.1);
  EXPECT_DOUBLE_EQ(reading.all_s, 10);
  EXPECT_FALSE(ParseStat("cpu  100 10\n", 100, &reading));
  EXPECT_FALSE(ParseStat("", 100, &reading));
  EXPECT_FALSE(ParseStat("intr 5\n", 100, &reading));
}

TEST(MachineLoad, BetweenTwoReadings_IsWhatOthersUsed) {
  const LoadReading before = {.busy_s = 10, .steal_s = 1, .all_s = 100, .own_s = 3, .throttles = 5, .gpus = {}};
  const LoadReading after = {.busy_s = 14, .steal_s = 1.5, .all_s = 110, .own_s = 5, .throttles = 7, .gpus = {}};
  const RunLoad load = LoadBetween(before, after);
  EXPECT_DOUBLE_EQ(load.others, 0.2);
  EXPECT_DOUBLE_EQ(load.steal, 0.05);
  EXPECT_EQ(load.throttles, 2u);
  // Unknown: nothing is reported.
  EXPECT_EQ(LoadBetween({}, {}).others, 0);
}

TEST(MachineLoad, ThisMachine_IsRead) {
  GpuLoadReader gpus("libno_such_library.so");
  const LoadReading reading = ReadLoad(&gpus);
  EXPECT_EQ(reading.gpus.devices, 0u);
  EXPECT_GT(reading.all_s, 0);
  EXPECT_GE(reading.all_s, reading.busy_s);
}

std::vector<RunLoad> Loads(std::initializer_list<double> others) {
  std::vector<RunLoad> loads;
  for (const double share : others) loads.push_back({.others = share});
  return loads;
}

TEST(MachineLoad, LoadThatGoesWithOneSide_TakesTheAnswerBack) {
  EXPECT_EQ(FindContamination(Loads({0.1, 0.2, 0.15, 0.1}), Loads({0.2, 0.1, 0.1, 0.15})).why, "");
  EXPECT_THAT(FindContamination(Loads({0.02, 0.03, 0.02, 0.01}), Loads({0.2, 0.25, 0.22, 0.2})).why,
              HasSubstr("other programs used 2 % of the CPUs beside the base and 22 % beside the new side"));
  EXPECT_THAT(FindContamination(Loads({0.5, 0.5, 0.45}), Loads({0.5, 0.4, 0.5})).why, HasSubstr("other programs"));
  EXPECT_EQ(FindContamination(Loads({0.0}), Loads({0.3})).why, "") << "one run a side is no evidence";
}

// CPU time, and changes that load cannot explain, are compared beside it.
TEST(MachineLoad, LoadAsLargeBesideBothSides_IsEven) {
  const std::vector<RunLoad> half = Loads({0.5, 0.52, 0.5}), more = Loads({0.4, 0.7, 0.6});
  EXPECT_TRUE(FindContamination(half, half).is_even_load);
  EXPECT_FALSE(FindContamination(half, more).is_even_load) << "7 points more beside one side";
  EXPECT_FALSE(FindContamination(Loads({0.1, 0.1}), Loads({0.1, 0.1})).is_even_load) << "too little to matter";
  std::vector<RunLoad> hot = half, stolen = half;
  for (size_t i = 0; i < hot.size(); ++i) hot[i].throttles = 40 + i;
  EXPECT_FALSE(FindContamination(half, hot).is_even_load) << "heat as well";
  for (RunLoad& load : stolen) load.steal = 0.3;
  EXPECT_FALSE(FindContamination(stolen, stolen).is_even_load) << "the hypervisor as well";
}

TEST(MachineLoad, StealAndHeat_AreNamed) {
  std::vector<RunLoad> cool(4), stolen(4), hot(4);
  for (RunLoad& load : stolen) load.steal = 0.2;
  EXPECT_THAT(FindContamination(stolen, stolen).why, HasSubstr("hypervisor"));
  for (size_t i = 0; i < hot.size(); ++i) hot[i].throttles = 40 + i;
  EXPECT_THAT(FindContamination(cool, hot).why, HasSubstr("heat"));
  EXPECT_EQ(FindContamination(hot, hot).why, "");
}

TEST(MachineLoad, WhatElseIsOnTheGpus_IsNamed) {
  std::vector<RunLoad> alone(4), shared(4), slowed(4);
  for (RunLoad& load : shared) load.gpu_processes = 2;
  EXPECT_THAT(FindContamination(alone, shared).why, HasSubstr("on the GPUs: 0.0 a run of the base and 2.0"));
  EXPECT_EQ(FindContamination(shared, shared).why, "");
  for (RunLoad& load : slowed) load.gpu_slowed_s = 1.5;
  EXPECT_THAT(FindContamination(slowed, alone).why, HasSubstr("slowed down: 1.5 a run of the base"));
}

class Gpus : public ::testing::Test {
 protected:
  ~Gpus() override { unsetenv("SIMULATED_NVML"); }
  static GpuReading Read(const char* state) {
    setenv("SIMULATED_NVML", state, 1);
    return GpuLoadReader(TBPROF_SIMULATED_NVML).Read();
  }
};

TEST_F(Gpus, Library_IsAskedInAChild) {
  const GpuReading reading = Read("2 3 500");
  EXPECT_EQ(reading.devices, 2u);
  EXPECT_EQ(reading.processes, 6u);
  EXPECT_EQ(reading.slowed_ns, 1000u);
}

TEST_F(Gpus, LibraryThatFails_GivesNothing) {
  for (const char* state : {"crashes", "no numbers", "0 0 0"}) EXPECT_EQ(Read(state).devices, 0u) << state;
}

TEST_F(Gpus, LibraryThatHangs_IsLeftAndNotAskedAgain) {
  setenv("SIMULATED_NVML", "hangs", 1);
  GpuLoadReader gpus(TBPROF_SIMULATED_NVML);
  EXPECT_EQ(gpus.Read().devices, 0u);
  // The library would answer now.
  setenv("SIMULATED_NVML", "1 1 1", 1);
  EXPECT_EQ(gpus.Read().devices, 0u);
}

}  // namespace
}  // namespace tbprof
