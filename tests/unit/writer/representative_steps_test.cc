// SPDX-License-Identifier: Apache-2.0
//
// Steps of a part of the time, compared with what the whole time was spent on.
#include "writer/convert/representative_steps.h"

#include <gtest/gtest.h>

namespace tbprof {
namespace {

constexpr int64_t kMs = 1'000'000'000;  // picoseconds

// 20 steps of 50 ms fill the part from 10 s to 11 s of 60 s.
class RepresentativeSteps : public testing::Test {
 protected:
  RepresentativeSteps() {
    timeline_.duration_ps = 60'000 * kMs;
    timeline_.full_detail = {10'000 * kMs, 11'000 * kMs};
    timeline_.threads.resize(1);
    for (int64_t i = 0; i < 20; ++i) {
      Step step;
      step.start_ps = (10'000 + i * 50) * kMs;
      step.end_ps = step.start_ps + 50 * kMs;
      step.is_regular = true;
      steps_.push_back(step);
    }
  }

  void Kernel(const char* name, int64_t at_ms, int64_t total_ms) {
    if (timeline_.gpu_streams.empty()) timeline_.gpu_streams.emplace_back();
    if (timeline_.gpu_devices.empty()) timeline_.gpu_devices.emplace_back();
    GpuEvent event;
    event.name = timeline_.strings.Intern(name);
    event.start_ps = at_ms * kMs;
    event.duration_ps = kMs;
    timeline_.gpu_streams[0].events.push_back(event);
    timeline_.gpu_devices[0].kernel_totals.push_back({event.name, 1000, total_ms * kMs, kMs});
    timeline_.gpu_devices[0].kernel_ps += total_ms * kMs;
  }

  // Samples of a line of the program: `in_part` of them in the part with full detail.
  void Line(const char* file, int32_t line, uint32_t in_part, uint64_t all) {
    PythonTimeline& python = timeline_.python;
    if (python.stacks.empty()) {
      python.stacks.emplace_back();
      python.threads.emplace_back();
    }
    PythonFunction function;
    function.file = timeline_.strings.Intern(file);
    function.name = timeline_.strings.Intern("main");
    python.functions.push_back(function);
    const auto stack = static_cast<uint32_t>(python.stacks.size());
    python.stacks.push_back({0, static_cast<uint32_t>(python.functions.size() - 1), line});
    PythonRun run;
    run.from_ps = (in_part > 0 ? 10'100 : 30'000) * kMs;
    run.to_ps = run.from_ps + 100 * kMs;
    run.stack = stack;
    run.samples = in_part > 0 ? in_part : static_cast<uint32_t>(all);
    python.threads[0].runs.push_back(run);
    PythonTally tally;
    tally.stack = stack;
    tally.samples = all;
    python.threads[0].tallies.push_back(tally);
  }

  Timeline timeline_;
  std::vector<Step> steps_;
};

TEST_F(RepresentativeSteps, NothingToCompareWith_AreTaken) { EXPECT_TRUE(AreRepresentative(timeline_, steps_)); }

TEST_F(RepresentativeSteps, NoRegularSteps_AreNot) {
  for (Step& step : steps_) step.is_regular = false;
  EXPECT_FALSE(AreRepresentative(timeline_, steps_));
}

// An inner loop, and the other work of the loop around it.
TEST_F(RepresentativeSteps, HalfOfTheDetail_AreNot) {
  for (size_t i = 0; i < steps_.size(); i += 2) steps_[i].is_regular = false;
  EXPECT_FALSE(AreRepresentative(timeline_, steps_));
}

TEST_F(RepresentativeSteps, SameKernelsAsElsewhere_Are) {
  Kernel("gemm", 10'500, 20'000);
  Kernel("softmax", 10'600, 5000);
  Kernel("warm_up", 100, 2000);
  EXPECT_TRUE(AreRepresentative(timeline_, steps_));
}

TEST_F(RepresentativeSteps, OtherKernelsElsewhere_AreNot) {
  Kernel("evaluate", 10'500, 5000);
  Kernel("gemm", 30'000, 20'000);
  EXPECT_FALSE(AreRepresentative(timeline_, steps_));
}

TEST_F(RepresentativeSteps, SameLinesAsElsewhere_Are) {
  Line("train.py", 10, 60, 4000);
  Line("train.py", 12, 40, 1000);
  Line("train.py", 3, 0, 900);
  EXPECT_TRUE(AreRepresentative(timeline_, steps_));
}

TEST_F(RepresentativeSteps, OtherLinesElsewhere_AreNot) {
  Line("evaluate.py", 10, 100, 900);
  Line("train.py", 12, 0, 5000);
  EXPECT_FALSE(AreRepresentative(timeline_, steps_));
}

TEST_F(RepresentativeSteps, FewSamples_ShowNothing) {
  Line("train.py", 10, 10, 5000);
  EXPECT_FALSE(AreRepresentative(timeline_, steps_));
}

}  // namespace
}  // namespace tbprof
