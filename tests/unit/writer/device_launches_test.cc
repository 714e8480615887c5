// SPDX-License-Identifier: Apache-2.0
#include "writer/steps/device_launches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "writer/steps/inferred_steps.h"

namespace tbprof {
namespace {

constexpr int64_t kUs = 1'000'000;
constexpr int64_t kMs = 1'000 * kUs;
constexpr char kRedzone[] = "_ZN15stream_executor3gpu26RedzoneAllocatorKernelImplEPhhmPj";

// A process whose threads launch on one device.
class DeviceLaunchesTest : public testing::Test {
 protected:
  DeviceLaunchesTest() {
    timeline_.processes.emplace_back().is_command = true;
    timeline_.threads.resize(3);
    timeline_.threads[0].is_main = true;
    timeline_.gpu_streams.emplace_back();
    timeline_.types = {{"cuLaunchKernel", EventFamily::kGpu, ObjectKind::kNone, ValueKind::kCorrelation},
                       {"cuGraphLaunch", EventFamily::kGpu, ObjectKind::kNone, ValueKind::kCorrelation},
                       {"cuStreamSynchronize", EventFamily::kGpu, ObjectKind::kNone, ValueKind::kNone}};
  }

  void Launch(uint32_t thread, const std::string& kernel, int64_t device_ps, uint64_t graph = 0) {
    timeline_.threads[thread].events.push_back({.start_ps = now_,
                                                .duration_ps = 5 * kUs,
                                                .value = static_cast<int64_t>(++launches_),
                                                .type = static_cast<uint16_t>(graph != 0 ? 1 : 0)});
    GpuEvent work;
    work.start_ps = now_ + 8 * kUs;
    work.duration_ps = device_ps;
    work.correlation = launches_;
    work.graph = graph;
    work.name = timeline_.strings.Intern(kernel);
    timeline_.gpu_streams[0].events.push_back(work);
    now_ += 40 * kUs;
    timeline_.duration_ps = now_;
  }
  // Launches like an autotuner: several kernels in turn, many times.
  void Try(uint32_t thread, bool redzone) {
    for (int round = 0; round < 15; ++round) {
      for (int i = 0; i < 4; ++i) {
        if (redzone) Launch(thread, kRedzone, 20 * kUs);
        Launch(thread, "gemm " + std::to_string(i), 500 * kUs);
      }
      now_ += kMs;
    }
    now_ += 500 * kMs;
  }
  void TrainByGraph(uint32_t thread, int steps) {
    for (int i = 0; i < steps; ++i) {
      Launch(thread, "step", 100 * kUs, 7);
      now_ += kMs;
    }
  }

  Timeline timeline_;
  int64_t now_ = 0;
  uint64_t launches_ = 0;
};

TEST_F(DeviceLaunchesTest, NoDevice_NoLaunches) {
  EXPECT_TRUE(LaunchesOnDevices(timeline_, 0).launches.empty());
  EXPECT_TRUE(LaunchesOnDevices(Timeline(), 0).launches.empty());
}

TEST_F(DeviceLaunchesTest, OfTheBusiestThread_WithItsWaits) {
  for (int i = 0; i < 20; ++i) {
    Launch(0, "small", kUs);
    Launch(2, "large", kMs);
    timeline_.threads[2].events.push_back({.start_ps = now_, .duration_ps = kMs, .type = 2});
    now_ += kMs;
  }
  const DeviceLaunches device = LaunchesOnDevices(timeline_, 0);
  EXPECT_EQ(device.thread, 2u);
  ASSERT_EQ(device.launches.size(), 40u);
  EXPECT_EQ(std::ranges::count(device.launches, StepLaunch::kBlocking, &StepLaunch::flags), 20);
}

TEST_F(DeviceLaunchesTest, GraphAgainAndAgain_CountsMoreThanWorkBeforeIt) {
  Try(1, false);
  TrainByGraph(0, 40);
  const DeviceLaunches device = LaunchesOnDevices(timeline_, 0);
  EXPECT_EQ(device.thread, 0u);
  EXPECT_EQ(device.launches.size(), 40u);
  EXPECT_TRUE(std::ranges::all_of(device.launches,
                                  [](const StepLaunch& launch) { return launch.flags == StepLaunch::kExecutable; }));
  const InferredSteps found = InferSteps(timeline_, 0);
  EXPECT_GE(found.steps.size(), 38u);
  EXPECT_GT(found.confidence, 0.7);
}

TEST_F(DeviceLaunchesTest, GraphBesideABusierThread_IsNotTheTraining) {
  for (int i = 0; i < 40; ++i) {
    for (int kernel = 0; kernel < 6; ++kernel) Launch(0, "kernel " + std::to_string(kernel), kMs);
    Launch(1, "small", kUs, 7);
  }
  EXPECT_EQ(LaunchesOnDevices(timeline_, 0).thread, 0u);
}

TEST_F(DeviceLaunchesTest, AGraphAFewTimes_CountsAsAnyWork) {
  Try(1, false);
  TrainByGraph(0, 5);
  EXPECT_EQ(LaunchesOnDevices(timeline_, 0).thread, 1u);
}

TEST_F(DeviceLaunchesTest, ThreadsThatTryKernels_AreNoTraining) {
  Try(1, false);
  ASSERT_FALSE(InferSteps(timeline_, 0).steps.empty()) << "by themselves they look like one";
  for (Thread& thread : timeline_.threads) thread.events.clear();
  Try(1, true);
  Try(2, true);
  EXPECT_TRUE(LaunchesOnDevices(timeline_, 0).launches.empty());
  EXPECT_TRUE(InferSteps(timeline_, 0).steps.empty());
  for (int i = 0; i < 60; ++i) Launch(0, "kernel " + std::to_string(i % 6), 10 * kUs);
  const DeviceLaunches device = LaunchesOnDevices(timeline_, 0);
  EXPECT_EQ(device.thread, 0u) << "though it has less work for the device";
  EXPECT_EQ(device.launches.size(), 60u);
}

}  // namespace
}  // namespace tbprof
