// SPDX-License-Identifier: Apache-2.0
// Which operations are recorded, for simulated programs that are only clocks and counters.
// tests/bench/torch_sampling.py tests real programs.
#include "preload/torch_sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace tbprof {
namespace {

constexpr uint64_t kMs = 1'000'000, kSecond = 1000 * kMs;
constexpr uint64_t kOperationNs = 1000;
constexpr uint32_t kLot = 128;

// A program of one thread, whose operations and steps go to the sampling in the way of the observer.
class Program {
 public:
  explicit Program(uint64_t seed) { StartSampling(&sampling_, at(), seed); }

  void Operations(const std::string& phase, int count, uint64_t ns_each) {
    for (int i = 0; i < count; ++i) {
      now_ += ns_each;
      ++all_[phase];
      if (sampling_.recording) {
        ++recorded_[phase];
        ++recorded_operations_;
        estimated_[phase] += sampling_.weight;
      } else {
        ++passed_over_;
      }
      if (!sampling_.recording && !sampling_.counted) {
        ++uncounted_;
        continue;
      }
      if (!sampling_.recording) ++told_;
      if (++operations_ % kLot != 0 || !IsOver(sampling_, at())) continue;
      if (EndsUnit(&sampling_, at(), false)) Begin(false);
    }
  }
  void Idle(uint64_t ns) {
    now_ += ns;
    idle_ += ns;
  }
  void StepEnds() {
    if (EndsUnit(&sampling_, at(), true)) Begin(true);
  }

  double Share(const std::map<std::string, double>& of, const std::string& phase) const {
    double whole = 0;
    for (const auto& [name, count] : of) whole += count;
    return 100 * of.at(phase) / whole;
  }
  double EstimatedShare(const std::string& phase) const { return Share(estimated_, phase); }
  double TrueShare(const std::string& phase) const { return Share(all_, phase); }
  double RecordedShare() const {
    return static_cast<double>(recorded_operations_) / static_cast<double>(recorded_operations_ + passed_over_);
  }
  uint64_t cost() const { return recorded_operations_ * kOperationNs; }
  uint64_t now() const { return now_; }
  TorchProgress at() const { return {now_, cost(), operations_, now_ - idle_}; }
  const TorchSampling& sampling() const { return sampling_; }
  TorchSampling& sampling() { return sampling_; }
  int stretches() const { return stretches_; }
  int amid_steps() const { return amid_steps_; }
  uint64_t last_recorded_ns() const { return last_recorded_ns_; }
  double uncounted_share() const { return static_cast<double>(uncounted_) / static_cast<double>(passed_over_); }
  // The share of the skipped operations that is reported.
  double told_share() const { return static_cast<double>(told_) / static_cast<double>(passed_over_); }

 private:
  void Begin(bool step) {
    const bool before = sampling_.recording;
    const bool records = BeginUnit(&sampling_, at(), step);
    EXPECT_LT(sampling_.ended_class, kTorchUnitClasses);
    told_ += sampling_.estimated;
    if (records) last_recorded_ns_ = now_;
    if (records == before) return;
    stretches_ += records;
    amid_steps_ += !step;
  }

  TorchSampling sampling_;
  uint64_t now_ = 5 * kSecond, operations_ = 0, recorded_operations_ = 0, last_recorded_ns_ = 0;
  std::map<std::string, double> all_, recorded_, estimated_;
  uint64_t idle_ = 0, passed_over_ = 0, uncounted_ = 0, told_ = 0;
  int stretches_ = 0, amid_steps_ = 0;
};

constexpr uint64_t kSeeds = 24;

// Rollouts without an optimizer, longer than all else between two steps.
void Reinforce(Program* program, int iterations) {
  for (int i = 0; i < iterations; ++i) {
    program->Operations("rollout", 10'000, 20'000);
    program->Operations("gains", 2'000, 5'000);
    for (int k = 0; k < 16; ++k) {
      program->Operations("forward", 150, 20'000);
      program->Operations("backward", 250, 20'000);
      program->StepEnds();
    }
  }
}

TEST(TorchSampling, RolloutsAndUpdates_EstimatedSharesAreTheTrueOnes) {
  std::map<std::string, double> mean;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Program program(seed);
    Reinforce(&program, 60);
    for (const char* phase : {"rollout", "gains", "forward", "backward"}) {
      const double off = program.EstimatedShare(phase) - program.TrueShare(phase);
      // The variation of a single run by chance.
      EXPECT_LT(std::abs(off), 12) << phase << " seed " << seed;
      mean[phase] += off / kSeeds;
    }
  }
  for (const auto& [phase, off] : mean) EXPECT_LT(std::abs(off), 1.5) << phase;
}

TEST(TorchSampling, RolloutsAndUpdates_RecordingNeverStopsForGood) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Program program(seed);
    Reinforce(&program, 60);
    EXPECT_GT(program.stretches(), 20) << seed;
    EXPECT_GT(program.last_recorded_ns(), program.now() - 4 * kSecond) << seed;
  }
}

TEST(TorchSampling, WithoutSteps_EstimatedSharesAreTheTrueOnes) {
  double mean = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Program program(seed);
    for (int i = 0; i < 60; ++i) {
      program.Operations("one", 8'000, 10'000);
      program.Operations("other", 2'000, 50'000);
      program.Idle(20 * kMs);
    }
    mean += (program.EstimatedShare("one") - program.TrueShare("one")) / kSeeds;
    EXPECT_GT(program.stretches(), 10) << seed;
  }
  EXPECT_LT(std::abs(mean), 2.5);
}

TEST(TorchSampling, LongRuns_CostStaysWithinTheBudget) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Program program(seed);
    const uint64_t start = program.now();
    for (int i = 0; i < 3000; ++i) {
      program.Operations("step", 1'000, 3'000);
      program.StepEnds();
      if (i % 500 != 499) continue;
      const uint64_t passed = program.now() - start;
      EXPECT_LT(program.cost(), passed / 100 + 10 * kMs + passed / 200) << "seed " << seed << " after " << i;
    }
    const double spent = static_cast<double>(program.cost()) / static_cast<double>(program.now() - start);
    EXPECT_GT(spent, 0.008) << "the budget is used";
  }
}

TEST(TorchSampling, CheapPrograms_AllIsRecorded) {
  Program program(1);
  for (int i = 0; i < 1000; ++i) {
    program.Operations("step", 100, 150'000);
    program.StepEnds();
  }
  EXPECT_EQ(program.RecordedShare(), 1);
  EXPECT_EQ(program.sampling().weight, 1u);
}

TEST(TorchSampling, Steps_AreRecordedWholly) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Program program(seed);
    int before_known = 0;
    // Each step has 10,000 operations, more than the burst.
    for (int i = 0; i < 200; ++i) {
      program.Operations("forward", 4'000 + i % 7 * 100, 10'000);
      program.Operations("backward", 6'000, 10'000);
      program.StepEnds();
      if (i == 5) before_known = program.amid_steps();
    }
    EXPECT_GT(program.stretches(), 10);
    EXPECT_EQ(program.amid_steps(), before_known) << seed;
  }
}

TEST(TorchSampling, StepsThatTheMachineKeepsWaiting_AreNotCut) {
  Program program(5);
  int before_known = 0;
  for (int i = 0; i < 300; ++i) {
    program.Operations("step", 2'000, 5'000);
    program.Idle(i % 3 * 200 * kMs);
    program.Operations("step", 2'000, 5'000);
    program.StepEnds();
    if (i == 5) before_known = program.amid_steps();
  }
  EXPECT_EQ(program.amid_steps(), before_known);
}

TEST(TorchSampling, ShortSteps_AreJoined) {
  Program program(3);
  for (int i = 0; i < 100'000; ++i) {
    program.Operations("step", 20, 2'000);
    program.StepEnds();
  }
  // Each recorded interval changes the list of observers twice.
  EXPECT_LT(program.stretches(), 200);
  EXPECT_GT(program.stretches(), 10);
}

TEST(TorchSampling, ShortSteps_FewUnitsAreCountedAndTheOthersEstimated) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Program program(seed);
    for (int i = 0; i < 40'000; ++i) {
      program.Operations("step", 60 + i % 5 * 10, 2'000);
      program.StepEnds();
    }
    EXPECT_GT(program.uncounted_share(), 0.8) << seed;
    EXPECT_NEAR(program.told_share(), 1, 0.02) << seed;
  }
}

TEST(TorchSampling, LongSteps_AllAreCounted) {
  Program program(2);
  for (int i = 0; i < 500; ++i) {
    program.Operations("step", 10'000, 2'000);
    program.StepEnds();
  }
  EXPECT_LT(program.RecordedShare(), 0.2);
  EXPECT_EQ(program.uncounted_share(), 0);
}

// An evaluation after each 500 short steps.
TEST(TorchSampling, PhasesWithoutSteps_AreFoundThoughFewUnitsAreCounted) {
  std::map<std::string, double> mean;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Program program(seed);
    for (int i = 0; i < 40; ++i) {
      for (int k = 0; k < 500; ++k) {
        program.Operations("step", 100, 4'000);
        program.StepEnds();
      }
      program.Operations("evaluation", 20'000, 4'000);
    }
    EXPECT_NEAR(program.told_share(), 1, 0.05) << seed;
    for (const char* phase : {"step", "evaluation"}) {
      mean[phase] += (program.EstimatedShare(phase) - program.TrueShare(phase)) / kSeeds;
    }
  }
  for (const auto& [phase, off] : mean) EXPECT_LT(std::abs(off), 3) << phase;
}

TEST(TorchSampling, WhereTheMachineStalls_UnitsArePassedOverUncountedAllTheSame) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Program program(seed);
    for (int i = 0; i < 40'000; ++i) {
      program.Operations("step", 100, 2'000);
      if (i % 97 == 0) program.Idle(20 * kMs);
      program.StepEnds();
    }
    EXPECT_GT(program.uncounted_share(), 0.6) << seed;
  }
}

TEST(TorchSampling, AfterACapture_ItsCostIsNotOfTheBudget) {
  Program with(1), without(1);
  for (Program* program : {&with, &without}) {
    for (int i = 0; i < 500; ++i) {
      program->Operations("step", 1'000, 10'000);
      program->StepEnds();
    }
  }
  const uint64_t before = with.cost();
  TorchProgress at = with.at();
  at.cost += 5 * kSecond;
  SkipCost(&with.sampling(), at, before);
  EXPECT_EQ(with.sampling().cost_at_since, without.sampling().cost_at_since + 5 * kSecond);
  BeginUnit(&with.sampling(), at, false);
  EXPECT_LT(with.sampling().units, 400u);
}

}  // namespace
}  // namespace tbprof
