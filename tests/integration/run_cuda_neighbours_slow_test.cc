// SPDX-License-Identifier: Apache-2.0
// Programs with a profiler of their own, 50 times each: neither they nor tbprof lose a kernel.
#include "neighbour_harness.h"

namespace tbprof::integration {
namespace {

constexpr int kRuns = 50;

class CudaNeighboursOften : public Cuda, public testing::WithParamInterface<std::string> {
 protected:
  void ExpectAlwaysWhole(const std::string& mode) {
    for (int run = 0; run < kRuns && !HasFailure(); ++run) {
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

}  // namespace
}  // namespace tbprof::integration
