// SPDX-License-Identifier: Apache-2.0
//
// Lengths of steps that change, and that do not, with seeds.
#include "writer/steps/length_change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <vector>

namespace tbprof {
namespace {

constexpr size_t kCounts[] = {80, 150, 400, 2000};
constexpr size_t kSeeds = 100;
constexpr double kUsualMs = 40;

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  double Normal() { return std::normal_distribution<double>(0, 1)(engine_); }
  double Even() { return std::uniform_real_distribution<double>(0, 1)(engine_); }
  // A length with log-normal noise.
  double Noisy(double ms, double deviation) { return ms * std::exp(deviation * Normal()); }

 private:
  std::mt19937_64 engine_;
};

// The length of step `i` of `count`, in ms.
using LengthOfStep = std::function<double(Random* random, size_t i, size_t count)>;

std::vector<TimeSpan> StepsOf(size_t count, uint64_t seed, const LengthOfStep& length) {
  Random random(seed);
  std::vector<TimeSpan> steps;
  int64_t at = 0;
  for (size_t i = 0; i < count; ++i) {
    const auto ps = static_cast<int64_t>(length(&random, i, count) * 1e9);
    steps.push_back({at, at + ps});
    at += ps;
  }
  return steps;
}

LengthChange ChangeOf(size_t count, uint64_t seed, const LengthOfStep& length) {
  const std::vector<TimeSpan> steps = StepsOf(count, seed, length);
  return FindLengthChange(steps, LengthsOf(steps));
}

// How many of the runs have a change.
size_t Found(const LengthOfStep& length) {
  size_t found = 0;
  for (const size_t count : kCounts) {
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      found += ChangeOf(count, seed * 7919 + count, length).kind != ChangeKind::kNone;
    }
  }
  return found;
}

TEST(LengthChange, IndependentNoise_HasNone) {
  for (const double deviation : {0.05, 0.2, 0.5, 1.0}) {
    EXPECT_EQ(Found([=](Random* random, size_t, size_t) { return random->Noisy(kUsualMs, deviation); }), 0u)
        << deviation;
  }
}

TEST(LengthChange, HeavyTails_HaveNone) {
  EXPECT_EQ(Found([](Random* random, size_t, size_t) { return kUsualMs * std::pow(random->Even() + 1e-9, -1 / 1.2); }),
            0u);
}

TEST(LengthChange, StepsOfTwoLengths_HaveNone) {
  EXPECT_EQ(
      Found([](Random* random, size_t i, size_t) { return random->Noisy(i % 4 == 3 ? 4 * kUsualMs : kUsualMs, 0.05); }),
      0u)
      << "every fourth is long";
  EXPECT_EQ(
      Found([](Random* random, size_t i, size_t) { return random->Noisy(i % 2 == 1 ? 4 * kUsualMs : kUsualMs, 0.05); }),
      0u)
      << "every second is long";
  EXPECT_EQ(Found([](Random* random, size_t, size_t) {
              return random->Noisy(random->Even() < 0.3 ? 4 * kUsualMs : kUsualMs, 0.05);
            }),
            0u)
      << "at random";
}

TEST(LengthChange, LengthsOfSequences_HaveNone) {
  EXPECT_EQ(Found([](Random* random, size_t, size_t) {
              const double even = random->Even();
              return kUsualMs * (0.2 + even * even);
            }),
            0u);
}

TEST(LengthChange, EvaluationsAndWarmUp_HaveNone) {
  EXPECT_EQ(Found([](Random* random, size_t i, size_t) {
              return random->Noisy(i % 50 == 49 ? 40 * kUsualMs : i < 10 ? 5 * kUsualMs : kUsualMs, 0.1);
            }),
            0u);
  EXPECT_EQ(
      Found([](Random* random, size_t i, size_t) { return random->Noisy(i % 40 < 8 ? 2 * kUsualMs : kUsualMs, 0.1); }),
      0u)
      << "the first steps of each epoch";
}

TEST(LengthChange, SlowWaves_HaveNone) {
  EXPECT_EQ(Found([](Random* random, size_t i, size_t count) {
              const double turns = 3 * static_cast<double>(i) / static_cast<double>(count);
              return random->Noisy(kUsualMs * std::exp(0.3 * std::sin(6.28 * turns)), 0.05);
            }),
            0u);
}

TEST(LengthChange, LessThanAQuarter_IsNone) {
  EXPECT_EQ(Found([](Random* random, size_t i, size_t count) {
              return random->Noisy(i > count / 2 ? 1.15 * kUsualMs : kUsualMs, 0.05);
            }),
            0u);
}

// Noise with a memory of 10 to 100 steps, as other programs make it: seldom a change. With a memory as long as the run
// it is one.
TEST(LengthChange, NoiseWithAMemory_SeldomHasOne) {
  for (const double kept : {0.5, 0.9, 0.97}) {
    double wave = 0;
    const size_t found = Found([&](Random* random, size_t i, size_t) {
      if (i == 0) wave = 0.1 * random->Normal();
      wave = kept * wave + std::sqrt(1 - kept * kept) * 0.1 * random->Normal();
      return random->Noisy(kUsualMs, 0.02) * std::exp(wave);
    });
    EXPECT_LE(found, std::size(kCounts) * kSeeds / 100) << kept;
  }
}

TEST(LengthChange, StepsThatGetLonger_AreAJump) {
  for (const size_t count : kCounts) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const LengthChange change = ChangeOf(count, seed, [](Random* random, size_t i, size_t of) {
        return random->Noisy(i >= of / 3 ? 3 * kUsualMs : kUsualMs, 0.15);
      });
      ASSERT_EQ(change.kind, ChangeKind::kJump) << count;
      EXPECT_NEAR(static_cast<double>(change.first), static_cast<double>(count / 3), 2);
      EXPECT_EQ(change.end, count);
      EXPECT_NEAR(static_cast<double>(change.before_ps), kUsualMs * 1e9, 8e9);
      EXPECT_NEAR(static_cast<double>(change.after_ps), 3 * kUsualMs * 1e9, 15e9);
      EXPECT_EQ(change.sides[0], StepSide::kNeither) << "warm-up";
      EXPECT_EQ(change.sides[count / 3 - 5], StepSide::kBefore);
      EXPECT_EQ(change.sides[count - 1], StepSide::kAfter);
    }
  }
}

// Behind the jump the machine is slower for a while: all of these steps are longer than those before.
TEST(LengthChange, StepsThatVaryBehindAJump_AreOne) {
  const LengthOfStep hump = [](Random* random, size_t i, size_t count) {
    if (i < count / 2) return random->Noisy(22.7, 0.06);
    const bool is_slow = (i - count / 2) * 8 / count == 1;  // the second eighth behind it
    return random->Noisy(is_slow ? 38.0 : 33.0, 0.06);
  };
  size_t found = 0;
  for (const size_t count : {size_t{150}, size_t{288}}) {
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      const LengthChange change = ChangeOf(count, seed, hump);
      found += change.kind == ChangeKind::kJump && change.first + 6 > count / 2 && change.first < count / 2 + 6;
    }
  }
  EXPECT_GE(found, 2 * kSeeds * 9 / 10);
}

TEST(LengthChange, StepsThatGetShorter_AreAJump) {
  const LengthChange change = ChangeOf(
      400, 1, [](Random* random, size_t i, size_t) { return random->Noisy(i >= 200 ? kUsualMs : 2 * kUsualMs, 0.1); });
  ASSERT_EQ(change.kind, ChangeKind::kJump);
  EXPECT_GT(change.before_ps, change.after_ps);
}

TEST(LengthChange, EvaluationsBesideAJump_AreOnNoSide) {
  const LengthChange change = ChangeOf(400, 1, [](Random* random, size_t i, size_t) {
    return random->Noisy(i % 50 == 49 ? 40 * kUsualMs : i >= 200 ? 2 * kUsualMs : kUsualMs, 0.1);
  });
  ASSERT_EQ(change.kind, ChangeKind::kJump);
  EXPECT_EQ(change.sides[99], StepSide::kNeither);
  EXPECT_EQ(change.sides[100], StepSide::kBefore);
}

TEST(LengthChange, SlowPhase_IsAnInterim) {
  const LengthChange change = ChangeOf(400, 1, [](Random* random, size_t i, size_t) {
    return random->Noisy(i >= 200 && i < 300 ? 2 * kUsualMs : kUsualMs, 0.1);
  });
  ASSERT_EQ(change.kind, ChangeKind::kInterim);
  EXPECT_NEAR(static_cast<double>(change.first), 200, 2);
  EXPECT_NEAR(static_cast<double>(change.end), 300, 2);
}

TEST(LengthChange, StepsThatGrow_AreADrift) {
  for (const size_t count : kCounts) {
    const LengthChange change = ChangeOf(count, 3, [](Random* random, size_t i, size_t of) {
      return random->Noisy(kUsualMs * (1 + 2 * static_cast<double>(i) / static_cast<double>(of)), 0.15);
    });
    ASSERT_EQ(change.kind, ChangeKind::kDrift) << count;
    EXPECT_GT(change.after_ps, 2 * change.before_ps);
  }
}

TEST(LengthChange, FewOrShortSteps_HaveNone) {
  const auto jump = [](double ms) {
    return [=](Random* random, size_t i, size_t of) { return random->Noisy(i >= of / 2 ? 3 * ms : ms, 0.05); };
  };
  EXPECT_EQ(ChangeOf(44, 1, jump(kUsualMs)).kind, ChangeKind::kNone);
  EXPECT_EQ(ChangeOf(400, 1, jump(0.1)).kind, ChangeKind::kNone) << "20 ms before it";
  EXPECT_EQ(FindLengthChange({}, {}).kind, ChangeKind::kNone);
}

}  // namespace
}  // namespace tbprof
