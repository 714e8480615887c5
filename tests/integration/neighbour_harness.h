// SPDX-License-Identifier: Apache-2.0
//
// Programs with a profiler of their own (tests/sim/subjects/neighbour.cc), bare and under tbprof.
#ifndef TBPROF_TESTS_INTEGRATION_NEIGHBOUR_HARNESS_H_
#define TBPROF_TESTS_INTEGRATION_NEIGHBOUR_HARNESS_H_

#include <algorithm>
#include <string>
#include <vector>

#include "cuda_harness.h"

namespace tbprof::integration {

inline const std::vector<std::string>& NeighbourOrders() {
  static const auto* const orders = new std::vector<std::string>{
      "xla", "kineto_subscribed", "kineto", "kineto_clock", "kineto_teardown", "collector", "registered_once"};
  return *orders;
}

struct Neighbour {
  std::string order;
  std::string mode = "auto";  // of --cuda
  bool opens = false;         // opens the library instead of being linked with it
  bool window = true;         // a window is open for the whole run, or never
  bool has_cupti_11 = false;  // is linked with CUPTI under its name in CUDA 11.8
  int sessions = 1;
  int quiet_ms = 10;  // 0: as shipped
  // This version works with the CPU's counter as clock: CUPTI 12.6 U2 to 13.0 lose kernel times with a registered
  // clock.
  std::string modes = "version=130100";
};

inline int64_t Named(const RunResult& run, std::string_view prefix) {
  return std::count_if(run.profile->events().begin(), run.profile->events().end(), [&](const Event& event) {
    return event.name.starts_with(prefix) && event.plane.find("GPU") != std::string::npos &&
           event.Has("kernel_details");
  });
}

// The program's output is the same as without tbprof, and its own profiler sees all of its kernels and no others.
// tbprof has each kernel that the program launched while tbprof recorded.
inline void ExpectBothWhole(const Neighbour& neighbour) {
  SCOPED_TRACE(neighbour.order + " --cuda=" + neighbour.mode + (neighbour.window ? "" : " without a window"));
  RunOptions options = On("cuda13", neighbour.modes);
  options.tbprof = {"--cuda=" + neighbour.mode, neighbour.window ? "--window=all" : "--window=none"};
  if (neighbour.has_cupti_11) options.environment[0].second = Sim("cuda11") + ":" + Sim("cuda13");
  if (neighbour.window) options.environment.emplace_back("NEIGHBOUR_AWAITS", "1");
  if (neighbour.quiet_ms != 0)
    options.environment.emplace_back("NEIGHBOUR_QUIET_MS", std::to_string(neighbour.quiet_ms));
  const std::string program = neighbour.opens          ? "neighbour_opened"
                              : neighbour.has_cupti_11 ? "neighbour_linked_11"
                                                       : "neighbour_linked";
  const Pair pair = RunBoth({Subject(program), neighbour.order, std::to_string(neighbour.sessions)}, options);
  ASSERT_TRUE(SameOutput(pair.bare, pair.profiled)) << pair.profiled.AllPrinted();
  ASSERT_EQ(pair.profiled.code(), 0) << pair.profiled.AllPrinted();
  EXPECT_EQ(Reported(pair.profiled, "own_seen"), Reported(pair.profiled, "own_launched"));
  EXPECT_EQ(Reported(pair.profiled, "outside_seen"), 0);
  EXPECT_EQ(Reported(pair.profiled, "dirty_buffers"), 0);
  if (!neighbour.window) return;
  ASSERT_NE(pair.profiled.profile, nullptr);
  // The collector keeps CUPTI between its sessions, so tbprof does not record then.
  const int64_t recorded = neighbour.order == "collector" ? 10 : Reported(pair.profiled, "outside_launched");
  EXPECT_EQ(Named(pair.profiled, "outside"), recorded) << pair.profiled.AllPrinted();
  EXPECT_EQ(pair.profiled.summary["processes"][0]["gpu"].value("state", ""), "recorded_with_gaps");
}

}  // namespace tbprof::integration

#endif  // TBPROF_TESTS_INTEGRATION_NEIGHBOUR_HARNESS_H_
