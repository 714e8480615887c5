// SPDX-License-Identifier: Apache-2.0
// Runs each neighbour of run_cuda_drivers_test often, for errors that depend on the order of threads and on addresses.
#include <atomic>
#include <thread>

#include "cuda_neighbours.h"

namespace tbprof::integration {
namespace {

using CudaDriversLoad = Cuda;

// One thread for each mode, each with its own runs.
TEST_F(CudaDriversLoad, Neighbour_ManyRuns_OutputIsTheBareOne) {
  const int runs = Repetitions(15);
  for (const Neighbour& neighbour : Neighbours()) {
    const RunResult bare = RunBare(neighbour.command, OptionsOf(neighbour, "auto", true));
    ASSERT_EQ(bare.code(), 0) << neighbour.name << bare.err;
    std::atomic<int> same = 0;
    std::vector<std::thread> threads;
    for (const std::string mode : {"auto", "cupti", "hooks"}) {
      threads.emplace_back([&, mode] {
        for (int i = 0; i < runs; ++i) {
          const RunResult run = RunUnderTbprof(neighbour.command, OptionsOf(neighbour, mode, i % 2 == 0));
          const testing::AssertionResult is_same = SameOutput(bare, run);
          EXPECT_TRUE(is_same) << neighbour.name << " --cuda=" << mode;
          same += is_same ? 1 : 0;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(same, 3 * runs) << neighbour.name;
  }
}

}  // namespace
}  // namespace tbprof::integration
