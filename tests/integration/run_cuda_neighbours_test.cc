// SPDX-License-Identifier: Apache-2.0
// Programs with a profiler of their own: neither they nor tbprof lose a kernel.
#include "neighbour_harness.h"

namespace tbprof::integration {
namespace {

class CudaNeighbours : public Cuda, public testing::WithParamInterface<std::string> {};

TEST_P(CudaNeighbours, Auto_WindowOpen_BothWhole) {
  ExpectBothWhole({.order = GetParam(), .mode = "auto", .opens = true, .sessions = 3});
}
TEST_P(CudaNeighbours, Cupti_WindowOpen_BothWhole) {
  ExpectBothWhole({.order = GetParam(), .mode = "cupti", .sessions = 3});
}
TEST_P(CudaNeighbours, Hooks_WindowOpen_BothWhole) {
  ExpectBothWhole({.order = GetParam(), .mode = "hooks", .sessions = 3});
}
TEST_P(CudaNeighbours, EveryMode_NoWindow_ProgramIsWhole) {
  for (const char* mode : {"auto", "cupti", "hooks"}) {
    ExpectBothWhole({.order = GetParam(), .mode = mode, .opens = true, .window = false, .sessions = 3});
  }
}

INSTANTIATE_TEST_SUITE_P(Orders, CudaNeighbours, testing::ValuesIn(NeighbourOrders()),
                         [](const auto& entry) { return entry.param; });

TEST_F(Cuda, Neighbour_AfterTheShippedQuietTime_IsRecordedAgain) {
  ExpectBothWhole({.order = "kineto_subscribed", .quiet_ms = 0});
}

}  // namespace
}  // namespace tbprof::integration
