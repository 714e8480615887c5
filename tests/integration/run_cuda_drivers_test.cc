// SPDX-License-Identifier: Apache-2.0
// Forwarding drivers, several drivers in one process, and functions in several versions: the program never notices.
#include "cuda_neighbours.h"

namespace tbprof::integration {
namespace {

using CudaDrivers = Cuda;

int64_t KernelsOf(const RunResult& run) {
  int64_t kernels = 0;
  for (const auto& gpu : run.summary["gpus"]) kernels += gpu["kernels"].get<int64_t>() + gpu["untimed"].get<int64_t>();
  return kernels;
}

TEST_F(CudaDrivers, Neighbour_EveryMode_OutputIsTheBareOne) {
  for (const Neighbour& neighbour : Neighbours()) {
    const RunResult bare = RunBare(neighbour.command, OptionsOf(neighbour, "auto", true));
    ASSERT_EQ(bare.code(), 0) << neighbour.name << bare.err;
    for (const std::string mode : {"auto", "cupti", "hooks"}) {
      for (const bool is_open : {true, false}) {
        const RunResult run = RunUnderTbprof(neighbour.command, OptionsOf(neighbour, mode, is_open));
        EXPECT_TRUE(SameOutput(bare, run)) << neighbour.name << " --cuda=" << mode << (is_open ? "" : " --window=none");
      }
    }
  }
}

TEST_F(CudaDrivers, Neighbour_Hooks_RecordsEachKernelOnce) {
  for (const Neighbour& neighbour : Neighbours()) {
    if (neighbour.kernels == 0) continue;
    const RunResult run = RunUnderTbprof(neighbour.command, OptionsOf(neighbour, "hooks", true));
    ASSERT_EQ(run.code(), 0) << neighbour.name << run.err;
    ASSERT_FALSE(run.summary.is_null()) << neighbour.name << run.AllSaid();
    EXPECT_EQ(KernelsOf(run), neighbour.kernels) << neighbour.name;
  }
}

}  // namespace
}  // namespace tbprof::integration
