// SPDX-License-Identifier: Apache-2.0
// Programs with a profiler of their own: neither they nor tbprof lose a kernel.
#include <gmock/gmock.h>

#include <map>

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

// The program's references have the symbol version libcupti.so.11.8.
TEST_F(Cuda, Neighbour_LinkedWithCupti11_BothWhole) {
  for (const char* mode : {"auto", "cupti", "hooks"}) {
    ExpectBothWhole({.order = "kineto_subscribed", .mode = mode, .has_cupti_11 = true, .sessions = 3});
    ExpectBothWhole({.order = "xla", .mode = mode, .window = false, .has_cupti_11 = true, .sessions = 3});
  }
}

// tbprof waits for the records of finished work before a forced flush, which would truncate them.
TEST_F(Cuda, Neighbour_RecordsThatComeLate_AreWhole) {
  RunOptions options = On("cuda13", "late_ms=20");
  options.tbprof = {"--cuda=cupti", "--window=all"};
  options.environment.emplace_back("NEIGHBOUR_AWAITS", "1");
  options.environment.emplace_back("NEIGHBOUR_QUIET_MS", "10");
  const Pair pair = RunBoth({Subject("neighbour_linked"), "kineto", "3"}, options);
  ASSERT_TRUE(SameOutput(pair.bare, pair.profiled)) << pair.profiled.AllPrinted();
  int64_t timed = 0;
  for (const Event& event : pair.profiled.profile->events()) {
    timed += event.name.starts_with("outside") && event.Has("kernel_details") && event.duration_ps < 10'000'000;
  }
  // The exit truncates the last five records.
  EXPECT_GE(timed, 15);
}

// The first session ends in order and tbprof records again; the second session leaves something in use.
TEST_F(Cuda, Neighbour_LeavesSomething_GapNamesItAndTheFirstCall) {
  struct Leaving {
    const char *order, *left, *first_call, *remedy;
  };
  constexpr Leaving kLeavings[] = {
      {"leaves_kinds", "activity_kinds", "cuptiActivityEnable", "end its profiling"},
      {"leaves_unflushed", "unflushed_records", "cuptiActivityEnable", "cuptiActivityFlushAll"},
      {"leaves_callbacks", "callbacks", "cuptiSubscribe", "disable its callbacks"},
      {"leaves_subscriber_v2", "subscriber_v2", "cuptiSubscribe_v2", "cuptiUnsubscribe"},
  };
  for (const char* mode : {"cupti", "hooks"}) {
    for (const Leaving& leaving : kLeavings) {
      SCOPED_TRACE(std::string(leaving.order) + " --cuda=" + mode);
      RunOptions options = On("cuda13", "version=130100");
      options.tbprof = {std::string("--cuda=") + mode, "--window=all"};
      options.environment.emplace_back("NEIGHBOUR_AWAITS", "1");
      options.environment.emplace_back("NEIGHBOUR_QUIET_MS", "10");
      const Pair pair = RunBoth({Subject("neighbour_opened"), leaving.order, "2"}, options);
      ASSERT_TRUE(SameOutput(pair.bare, pair.profiled)) << pair.profiled.AllPrinted();
      const auto& gaps = pair.profiled.summary["processes"][0]["gpu"]["gaps"];
      ASSERT_EQ(gaps.size(), 2u) << gaps;
      EXPECT_EQ(gaps[0].value("first_call", ""), "cuptiActivityRegisterCallbacks");
      EXPECT_EQ(gaps[1].value("first_call", ""), leaving.first_call);
      EXPECT_EQ(gaps[1].value("left", ""), leaving.left);
      EXPECT_THAT(gaps[1].value("remedy", ""), testing::HasSubstr(leaving.remedy));
      for (const auto& gap : gaps) EXPECT_EQ(gap.value("caller_module", ""), "neighbour_opened");
      const std::string cause =
          std::string("first call ") + leaving.first_call + " from neighbour_opened; kept open by ";
      EXPECT_THAT(PageText(*pair.profiled.profile), testing::HasSubstr(cause));
    }
  }
}

// The library is opened after tbprof has recorded the list of libraries.
TEST_F(Cuda, Neighbour_InALibraryOpenedLate_GapNamesTheLibrary) {
  RunOptions options = On("cuda13", "version=130100");
  options.tbprof = {"--cuda=cupti", "--window=all"};
  const RunResult run =
      RunUnderTbprof({Subject("neighbour_plugged"), Subject("libsim_neighbour.so"), "leaves_kinds", "1"}, options);
  ASSERT_EQ(run.code(), 0) << run.AllPrinted();
  const auto& gaps = run.summary["processes"][0]["gpu"]["gaps"];
  ASSERT_EQ(gaps.size(), 1u) << gaps;
  EXPECT_EQ(gaps[0].value("first_call", ""), "cuptiActivityRegisterCallbacks");
  EXPECT_EQ(gaps[0].value("caller_module", ""), "libsim_neighbour.so");
}

TEST_F(Cuda, Neighbour_AfterTheShippedQuietTime_IsRecordedAgain) {
  ExpectBothWhole({.order = "kineto_subscribed", .quiet_ms = 0});
}

// Kernels lie behind their launches, although CUPTI's clock is the CPU's counter from the first session on.
TEST_F(Cuda, Neighbour_ReplacesTheClock_KernelsFollowTheirLaunches) {
  RunOptions options = On("cuda13", "version=130100");
  options.tbprof = {"--cuda=cupti", "--window=all"};
  options.environment.emplace_back("NEIGHBOUR_AWAITS", "1");
  options.environment.emplace_back("NEIGHBOUR_QUIET_MS", "10");
  const RunResult run = RunUnderTbprof({Subject("neighbour_linked"), "kineto_clock", "2"}, options);
  ASSERT_EQ(run.code(), 0) << run.AllPrinted();
  EXPECT_FALSE(run.Printed("clock jumped")) << run.AllPrinted();
  std::map<std::string, int64_t> launches;
  for (const Event& event : run.profile->events()) {
    if (event.plane == "/host:CPU" && !LinkOf(event).empty()) launches[LinkOf(event)] = event.start_ps;
  }
  int followed = 0;
  for (const Event& event : run.profile->events()) {
    if (!event.Has("kernel_details")) continue;
    ASSERT_TRUE(launches.contains(LinkOf(event)));
    EXPECT_GE(event.start_ps, launches[LinkOf(event)]);
    // Each kernel takes 3,000 ns, independent of the clock's unit.
    EXPECT_NEAR(static_cast<double>(event.duration_ps), 3e6, 0.1e6);
    ++followed;
  }
  EXPECT_EQ(followed, 15);
}

TEST_F(Cuda, CuptiCalls_RandomOrder_AnswersAndRecordsAreAsBare) {
  // Up to CUPTI 12.8 no buffer may be refused.
  for (const char* version : {"", "version=22"}) {
    for (const char* mode : {"cupti", "hooks"}) {
      RunOptions options = On("cuda13", version);
      options.tbprof = {std::string("--cuda=") + mode};
      const Pair pair = RunBoth({Subject("cupti_calls"), "300", "7"}, options);
      ASSERT_TRUE(SameOutput(pair.bare, pair.profiled)) << mode << version << pair.profiled.AllPrinted();
      ASSERT_EQ(pair.profiled.code(), 0) << mode << version;
      EXPECT_EQ(Reported(pair.profiled, "sequences"), 300);
    }
  }
}

TEST_F(Cuda, CuptiCalls_TwoThreadsAtOnce_NeitherHangNorCrash) {
  const Pair pair = RunBoth({Subject("cupti_calls"), "500", "2", "together"}, On("cuda13"));
  ASSERT_TRUE(SameOutput(pair.bare, pair.profiled)) << pair.profiled.AllPrinted();
  EXPECT_EQ(pair.profiled.code(), 0);
}

// Lets each CUPTI call of tbprof fail in turn: `failing_call` in tests/sim/cupti_entry.cc.
TEST_F(Cuda, Cupti_AnyCallFails_ProgramIsAsBare) {
  for (int call = 1; call <= 18; ++call) {
    SCOPED_TRACE(call);
    RunOptions options = On("cuda13", "fails_call=" + std::to_string(call));
    const Pair pair = RunBoth({Subject("train"), "3"}, options);
    ASSERT_TRUE(pair.Same());
    ASSERT_NE(pair.profiled.profile, nullptr);
    EXPECT_EQ(pair.profiled.code(), 0);
    // Recording is incomplete without these: subscribe, enable, register, flush, step through a buffer, version.
    const std::set<int> needed = {1, 3, 7, 8, 9, 18};
    if (needed.contains(call)) {
      EXPECT_TRUE(pair.profiled.Printed("CUPTI")) << pair.profiled.AllPrinted();
    }
  }
}

TEST_F(Cuda, Cupti_IncompleteRecord_TheRestOfTheBufferIsCounted) {
  const Pair pair = RunBoth({Subject("train"), "20"}, On("cuda13", "incomplete=40"));
  ASSERT_TRUE(pair.Same());
  const auto& gpu = pair.profiled.summary["processes"][0]["gpu"];
  EXPECT_GT(gpu.value("unread_bytes", 0), 0) << gpu;
  EXPECT_TRUE(pair.profiled.Printed("could not be read")) << pair.profiled.AllPrinted();
  EXPECT_TRUE(pair.profiled.Printed("CUPTI error 21")) << pair.profiled.AllPrinted();
}

TEST_F(Cuda, Kernels_WithoutValidTimes_AreRecordedAgainAfterARestart) {
  RunOptions options = On("cuda13", "bad_times_after=5000");
  options.tbprof = {"--window=all"};
  const Pair pair = RunBoth({Subject("train"), "4000"}, options);
  ASSERT_TRUE(pair.Same());
  EXPECT_TRUE(pair.profiled.Printed("no valid times")) << pair.profiled.AllPrinted();
  const auto& gaps = pair.profiled.summary["processes"][0]["gpu"]["gaps"];
  ASSERT_FALSE(gaps.empty());
  EXPECT_THAT(gaps[0].value("reason", ""), testing::HasSubstr("was started again"));
}

// Each flush completes a nearly empty buffer per thread. These buffers must not cause another flush.
TEST_F(Cuda, Flushes_SixteenThreadsThatDoLittle_AreAtMostEightASecond) {
  RunOptions options = On("cuda13");
  options.tbprof = {"--cuda=cupti", "--window=all"};
  const RunResult run = RunUnderTbprof({Subject("idle_threads"), "16", "1000"}, options);
  ASSERT_EQ(run.code(), 0) << run.AllPrinted();
  const std::vector<Event> flushes = run.profile->Named("CUPTI buffer flush");
  const double seconds = static_cast<double>(Reported(run, "took_ns")) / 1e9;
  RecordProperty("flushes_a_second", std::to_string(static_cast<double>(flushes.size()) / seconds));
  EXPECT_GE(flushes.size(), 3u);
  // The first flush and the last flushes are not periodic.
  EXPECT_LE(static_cast<double>(flushes.size()), 8 * seconds + 3);
}

// A flush would take locks that the thread inside cuInit holds.
TEST_F(Cuda, FirstFlush_ThreadInCuInit_WaitsForItsEnd) {
  const Pair pair = RunBoth({Subject("train"), "5"}, On("cuda13", "flush_in_init_crashes", "init_ms=700"));
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(pair.profiled.code(), 0);
  EXPECT_EQ(DeviceWork(*pair.profiled.profile).kernels, Reported(pair.profiled, "kernels"));
}

}  // namespace
}  // namespace tbprof::integration
