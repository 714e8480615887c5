// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/writer/step_maker.h"
#include "writer/steps/step_detector.h"

namespace tbprof {
namespace {

constexpr int64_t kUs = 1'000'000;
constexpr int64_t kMs = 1'000 * kUs;
constexpr int64_t kSecond = 1'000 * kMs;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kSeeds = 1;
#else
constexpr int kSeeds = 4;
#endif

class Program {
 public:
  void Launch(uint64_t symbol, int64_t length_ps, uint8_t flags = 0) {
    launches.push_back({now, now + length_ps / 4, symbol, flags});
    now += length_ps;
  }
  // The start of JAX as recorded on an H200: it fills a few arrays, compiles a few programs, then the program of the
  // step.
  void Start() {
    for (const int64_t wait_us : {52, 2'810, 35, 53'670, 169'529, 378'706, 64, 12, 68'564, 638, 233, 427'682}) {
      Launch(random() % 4, wait_us * kUs);
    }
    for (const int64_t wait_us : {36, 8, 793, 331, 1'420, 30, 9, 629, 161, 231, 13, 8, 420, 132, 2'158, 27, 8}) {
      Launch(random() % 4, wait_us * kUs);
    }
    Launch(3, 1'687'572 * kUs);
  }
  // Each step is one graph.
  void TrainByGraph(int steps, int64_t step_ps) {
    for (int i = 0; i < steps; ++i) {
      begins.push_back(now);
      Launch(77, step_ps + static_cast<int64_t>(random() % 200) * (step_ps / 1000), StepLaunch::kExecutable);
    }
  }
  // Each step launches its kernels one by one; then only the host works, for `host_ps`.
  void Train(int steps, int64_t host_ps, uint8_t optimizer = 0) {
    for (int i = 0; i < steps; ++i) {
      begins.push_back(now);
      for (uint64_t kernel = 0; kernel < 10; ++kernel) {
        const int64_t length = (95 + static_cast<int64_t>(random() % 10)) * kUs;
        Launch(100 + kernel, length + (kernel == 9 ? host_ps : 0), kernel == 9 ? optimizer : uint8_t{0});
      }
    }
  }

  // There are twice as many pauses of half the length, so that no length is typical.
  void Pause(int number) {
    const auto halved = std::bit_width(static_cast<uint64_t>(62 - number) * 11 % 63 + 1) - 1;
    now += 51'200 * kMs >> halved;
  }

  std::vector<StepLaunch> launches;
  std::vector<int64_t> begins;
  int64_t now = 5 * kSecond;
  std::mt19937 random{1};
};

size_t Regular(const StepDetection& found) {
  return static_cast<size_t>(std::ranges::count(found.steps, DetectedStep::Kind::kRegular, &DetectedStep::kind));
}

void ExpectBegins(const Program& program, const StepDetection& found) {
  for (const DetectedStep& step : found.steps) {
    EXPECT_TRUE(std::ranges::binary_search(program.begins, step.start_ps)) << step.start_ps;
  }
}

TEST(LaunchPauses, GraphAfterALongStart_EachLaunchIsAStep) {
  for (const int steps : {40, 400}) {
    Program program;
    program.Start();
    program.TrainByGraph(steps, kMs);
    EXPECT_TRUE(DetectLongSteps(program.launches).steps.empty());
    const StepDetection found = DetectStepsBetweenPauses(program.launches);
    EXPECT_GE(Regular(found), static_cast<size_t>(steps) - 2);
    EXPECT_LE(found.steps.size(), static_cast<size_t>(steps));
    EXPECT_NEAR(static_cast<double>(found.period_ps), 1.1 * kMs, 0.02 * kMs);
    EXPECT_GT(found.confidence, kSureConfidence);
    EXPECT_LE(found.confidence, 0.9) << "most of the time is in no step";
    EXPECT_TRUE(found.cut_known);
    ExpectBegins(program, found);
  }
}

TEST(LaunchPauses, LongEnd_NoStepReachesIntoIt) {
  Program program;
  program.TrainByGraph(100, kMs);
  const int64_t end = program.now;
  for (int i = 0; i < 8; ++i) {
    program.now += (1 + i % 3) * kSecond;
    program.Launch(500 + i % 2, 20 * kUs);
  }
  EXPECT_TRUE(DetectLongSteps(program.launches).steps.empty());
  const StepDetection found = DetectStepsBetweenPauses(program.launches);
  ASSERT_GE(Regular(found), 98u);
  EXPECT_LE(found.steps.back().end_ps, end);
  ExpectBegins(program, found);
}

TEST(LaunchPauses, LongEvaluationsElsewhere_AreIrregularSteps) {
  Program program;
  std::vector<int64_t> pauses;
  for (const int64_t length : {1, 4, 16, 0}) {
    program.TrainByGraph(100, kMs);
    pauses.push_back(program.now);
    program.now += length * kSecond;
  }
  pauses.pop_back();
  EXPECT_TRUE(DetectLongSteps(program.launches).steps.empty());
  const StepDetection found = DetectStepsBetweenPauses(program.launches);
  EXPECT_GE(Regular(found), 394u);
  EXPECT_GT(found.confidence, kSureConfidence);
  size_t over = 0;
  for (const DetectedStep& step : found.steps) {
    if (std::ranges::none_of(pauses, [&](int64_t at) { return step.start_ps < at && at < step.end_ps; })) continue;
    ++over;
    EXPECT_EQ(step.kind, DetectedStep::Kind::kIrregular);
    EXPECT_EQ(step.cause, DetectedStep::Cause::kPause);
    EXPECT_GE(step.end_ps - step.start_ps, kSecond);
  }
  EXPECT_EQ(over, pauses.size());
  ExpectBegins(program, found);
}

TEST(LaunchPauses, StepsWithGapsOfTheirOwn_AreNotCutToParts) {
  Program program;
  for (int i = 0; i < 20; ++i) program.Launch(static_cast<uint64_t>(i % 4), 3 * kSecond);
  program.Train(60, 50 * kMs, StepLaunch::kOptimizer);
  EXPECT_TRUE(DetectLongSteps(program.launches).steps.empty());
  const StepDetection found = DetectStepsBetweenPauses(program.launches);
  EXPECT_GE(Regular(found), 57u);
  EXPECT_NEAR(static_cast<double>(found.period_ps), 51 * kMs, kMs);
  EXPECT_GT(found.confidence, kSureConfidence);
  ExpectBegins(program, found);
}

TEST(LaunchPauses, NeitherGraphNorOptimizer_IsNotSure) {
  Program program;
  program.Start();
  program.Train(400, 300 * kUs);
  EXPECT_TRUE(DetectLongSteps(program.launches).steps.empty());
  const StepDetection found = DetectStepsBetweenPauses(program.launches);
  EXPECT_GE(Regular(found), 390u);
  EXPECT_LE(found.confidence, kSureConfidence);
}

// One kernel in many forms, each launched many times: an autotuner, not a training.
TEST(LaunchPauses, LoopsOfABenchmark_HaveNoSteps) {
  Program program;
  for (int form = 0; form < 63; ++form) {
    program.Pause(form);
    for (int i = 0; i < 100; ++i) {
      program.Launch(1, 30 * kUs);
      program.Launch(2, 70 * kUs + static_cast<int64_t>(program.random() % 5) * kUs);
    }
  }
  EXPECT_TRUE(DetectStepsBetweenPauses(program.launches).steps.empty());
}

TEST(LaunchPauses, Requests_TheirLayersAreNoSteps) {
  Program program;
  for (int request = 0; request < 63; ++request) {
    program.Pause(request);
    for (int layer = 0; layer < 24; ++layer) {
      for (uint64_t kernel = 0; kernel < 8; ++kernel) program.Launch(10 + kernel, 20 * kUs);
    }
  }
  EXPECT_TRUE(DetectStepsBetweenPauses(program.launches).steps.empty());
}

TEST(LaunchPauses, NoLongPause_SameAsWithThem) {
  for (const StepCase& one : HeldOutCases()) {
    const MadeSteps made = MakeSteps(one.shape, kHeldOutSeeds + 1);
    const StepDetection whole = DetectLongSteps(made.launches), found = DetectStepsBetweenPauses(made.launches);
    EXPECT_EQ(whole.confidence, found.confidence) << one.name;
    EXPECT_EQ(whole.steps.size(), found.steps.size()) << one.name;
  }
}

// Adds a start with few launches and long pauses, and an end.
void PutBetweenStartAndEnd(MadeSteps* made, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto uniform = [&random] { return std::uniform_real_distribution<double>(0, 1)(random); };
  const double length = static_cast<double>(made->launches.back().end_ps - made->launches.front().start_ps);
  const auto wait = [&] {
    const double pause = uniform() < 0.25 ? 2 * length * uniform() : 0;
    return static_cast<int64_t>(10 * kUs * (1 + 3 * uniform()) + pause);
  };
  std::vector<StepLaunch> all = made->launches;
  int64_t now = all.front().start_ps - static_cast<int64_t>(length);
  const size_t before = 10 + random() % 30, after = 3 + random() % 30;
  for (size_t i = 0; i < before; ++i) {
    all.insert(all.begin(), {now, now + 2 * kUs, random() % 8, 0});
    now -= wait();
  }
  now = all.back().end_ps + static_cast<int64_t>(length);
  for (size_t i = 0; i < after; ++i) {
    all.push_back({now, now + 2 * kUs, random() % 8, 0});
    now += wait();
  }
  made->launches = std::move(all);
}

TEST(LaunchPauses, GeneratedPrograms_AreFoundBetweenStartAndEnd) {
  double f1 = 0, f1_with_pauses = 0;
  int periodic = 0, shown_in_nothing = 0, sure_and_wrong = 0;
  for (const StepCase& one : HeldOutCases()) {
    for (uint64_t seed = kHeldOutSeeds; seed < kHeldOutSeeds + kSeeds; ++seed) {
      MadeSteps made = MakeSteps(one.shape, seed);
      PutBetweenStartAndEnd(&made, seed);
      const StepDetection whole = DetectLongSteps(made.launches);
      const StepDetection found = DetectStepsBetweenPauses(made.launches);
      if (!made.periodic) {
        shown_in_nothing += found.steps.empty() ? 0 : 1;
        continue;
      }
      const double score = ScoreSteps(made, found).f1;
      ++periodic;
      f1 += score;
      f1_with_pauses += ScoreSteps(made, whole).f1;
      sure_and_wrong += score < 0.85 && found.confidence > kSureConfidence;
    }
  }
  RecordProperty("f1", std::to_string(f1 / periodic));
  RecordProperty("f1_with_pauses", std::to_string(f1_with_pauses / periodic));
  EXPECT_LT(f1_with_pauses / periodic, 0.3) << "what pauses hide";
  EXPECT_GE(f1 / periodic, 0.85);
  EXPECT_EQ(shown_in_nothing, 0);
  EXPECT_LE(sure_and_wrong, periodic / 100);
}

TEST(LaunchPauses, HostileTimes_GiveValidSteps) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min(), kMax = std::numeric_limits<int64_t>::max();
  std::mt19937_64 random(5);
  for (int kind = 0; kind < 8; ++kind) {
    Program program;
    program.Start();
    program.TrainByGraph(100, kMs);
    std::vector<StepLaunch>& launches = program.launches;
    for (size_t i = 0; i < launches.size(); ++i) {
      StepLaunch& launch = launches[i];
      if (kind == 0) launch.start_ps = launch.end_ps = 7;
      if (kind == 1) launch.start_ps = -launch.start_ps;
      if (kind == 2) launch.start_ps = launch.end_ps = i % 2 == 0 ? kMin : kMax;
      if (kind == 3) launch.end_ps = kMin;
      if (kind == 4) launch.end_ps = kMax;
      if (kind == 5) launch = {static_cast<int64_t>(random()), static_cast<int64_t>(random()), random() % 5, 0xff};
      if (kind == 6 && i < 20) launch.start_ps = kMin;
      if (kind == 7 && i > 120) launch.start_ps = kMax;
    }
    const StepDetection found = DetectStepsBetweenPauses(launches);
    for (size_t i = 0; i < found.steps.size(); ++i) {
      EXPECT_LE(found.steps[i].start_ps, found.steps[i].end_ps) << kind;
      if (i > 0) {
        EXPECT_LE(found.steps[i - 1].end_ps, found.steps[i].start_ps) << kind;
      }
    }
  }
  EXPECT_TRUE(DetectStepsBetweenPauses({}).steps.empty());
  const std::vector<StepLaunch> few(5);
  EXPECT_TRUE(DetectStepsBetweenPauses(few).steps.empty());
}

}  // namespace
}  // namespace tbprof
