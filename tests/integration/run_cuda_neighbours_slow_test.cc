// SPDX-License-Identifier: Apache-2.0
// Programs with a profiler of their own, many times each: neither they nor tbprof lose a kernel.
#include "neighbour_harness.h"

namespace tbprof::integration {
namespace {

class CudaNeighboursOften : public Cuda, public testing::WithParamInterface<std::string> {
 protected:
  void ExpectAlwaysWhole(const std::string& mode) {
    for (int run = 0; run < Repetitions(15) && !HasFailure(); ++run) {
      SCOPED_TRACE(run);
      ExpectBothWhole({.order = GetParam(), .mode = mode, .opens = run % 2 != 0, .sessions = 3});
      ExpectBothWhole({.order = GetParam(), .mode = mode, .opens = run % 2 == 0, .window = false, .sessions = 3});
    }
  }
};

TEST_P(CudaNeighboursOften, Auto_BothWhole) { ExpectAlwaysWhole("auto"); }
TEST_P(CudaNeighboursOften, Cupti_BothWhole) { ExpectAlwaysWhole("cupti"); }
TEST_P(CudaNeighboursOften, Hooks_BothWhole) { ExpectAlwaysWhole("hooks"); }

INSTANTIATE_TEST_SUITE_P(Orders, CudaNeighboursOften, testing::ValuesIn(NeighbourOrders()),
                         [](const auto& entry) { return entry.param; });

using CuptiCallsOften = Cuda;

// Each repetition runs 500 sequences.
TEST_F(CuptiCallsOften, RandomOrder_AnswersAndRecordsAreAsBare) {
  for (const char* mode : {"cupti", "hooks"}) {
    for (int share = 0; share < Repetitions(8) && !HasFailure(); ++share) {
      SCOPED_TRACE(std::string(mode) + " " + std::to_string(share));
      RunOptions options = On("cuda13", share % 4 == 3 ? "version=22" : "");
      options.tbprof = {std::string("--cuda=") + mode};
      const Pair pair = RunBoth({Subject("cupti_calls"), "500", std::to_string(share * 100'003)}, options);
      ASSERT_TRUE(SameOutput(pair.bare, pair.profiled)) << pair.profiled.AllPrinted();
      ASSERT_EQ(pair.profiled.code(), 0);
    }
  }
}

TEST_F(CuptiCallsOften, TwoThreadsAtOnce_NeitherHangNorCrash) {
  for (int share = 0; share < Repetitions(8) && !HasFailure(); ++share) {
    const Pair pair = RunBoth({Subject("cupti_calls"), "500", std::to_string(share), "together"}, On("cuda13"));
    ASSERT_TRUE(SameOutput(pair.bare, pair.profiled)) << pair.profiled.AllPrinted();
    ASSERT_EQ(pair.profiled.code(), 0);
  }
}

}  // namespace
}  // namespace tbprof::integration
