// SPDX-License-Identifier: Apache-2.0
//
// Each oddity of modes.def can be seen.
#include <signal.h>
#include <unistd.h>

#include "tests/sim/sim_test.h"

namespace tbprof::sim {
namespace {

Outcome Collect(const std::string& modes, const std::string& flags = "", const std::string& kinds = "10,1,2,4") {
  return RunSubject("driver_linked", {"8"}, {.collect = true, .cupti_modes = modes, .kinds = kinds, .flags = flags});
}

TEST(Modes, Subscribe_EachMode_AnswersAsCupti) {
  EXPECT_EQ(Collect("unknown_999").collected["subscribe"], 999);
  EXPECT_EQ(Collect("unknown_999").collected["register"], 0);
  EXPECT_EQ(Collect("unknown_999").collected["enable_10"], 999);
  EXPECT_EQ(Collect("privileges").collected["subscribe"], 35);
  EXPECT_EQ(Collect("privileges").collected["enable_10"], 35);
  EXPECT_EQ(Collect("rival").collected["subscribe"], 39);
  EXPECT_EQ(Collect("enable_fails_kind=2").collected["enable_2"], 27);
}

TEST(Modes, NewerCuptiThanTheDriver_IsRefused) {
  const Outcome run =
      RunSubject("driver_linked", {"2"}, {.collect = true, .environment = {{"CUDASIM_DRIVER_VERSION", "12080"}}});
  EXPECT_TRUE(run.Exited(0));
  EXPECT_EQ(run.collected["subscribe"], 15);
}

TEST(Modes, SubscribersOfTheSecondVersion_AreSeveral) {
  // The rival does not set the field that CUDA 13.2 added: it is refused beside any other.
  const Outcome run = RunSubject("rival_linked", {"2"}, {.collect = true, .cupti_modes = "multi_subscriber"});
  EXPECT_EQ(run.facts["subscribe_result"], 39);
  const Outcome together = RunSubject("rival_linked", {"3"}, {.cupti_modes = "multi_subscriber"});
  EXPECT_EQ(together.facts["subscribe_result"], 0);
  EXPECT_EQ(together.facts["second_result"], 0);
  EXPECT_EQ(together.facts["first_version_result"], 39);
  const Outcome before = RunSubject("rival_linked", {"3"});
  EXPECT_EQ(before.facts["second_result"], 39) << "CUDA 13.0 has one subscriber, whatever the structure says";
}

TEST(Modes, FinalizeAndForkedChildren_AreAsCupti) {
  EXPECT_EQ(RunSubject("rival_linked", {"1", "1", "finalize"}).facts["finalize"], 0);
  const Outcome crash = RunSubject("rival_linked", {"1", "1", "finalize"}, {.cupti_modes = "finalize_crashes"});
  EXPECT_TRUE(WIFSIGNALED(crash.status));
  EXPECT_EQ(RunSubject("rival_linked", {"1", "1", "fork"}).facts["child_result"], 15);
  const Outcome hang = RunSubject("rival_linked", {"1", "1", "fork"}, {.cupti_modes = "fork_hangs"});
  EXPECT_EQ(hang.facts["child_signal"], SIGALRM);
}

TEST(Modes, LostRecords_AreCounted) {
  const Outcome run = Collect("drop=4");
  EXPECT_GT(run.collected["dropped"], 0);
  const Outcome whole = Collect("");
  EXPECT_EQ(run.collected["records"] + run.collected["dropped"], whole.collected["records"]);
  const Outcome refused = Collect("null_buffer_crashes=0", "none");
  EXPECT_TRUE(refused.Exited(0));
  EXPECT_EQ(refused.collected["dropped"], whole.collected["records"]);
}

TEST(Modes, NoBuffer_CrashesOldVersions) {
  const Outcome run = Collect("version=22", "none");
  EXPECT_TRUE(WIFSIGNALED(run.status));
  EXPECT_TRUE(Collect("version=27", "none").Exited(0));
}

TEST(Modes, LostTimes_AreZero) {
  EXPECT_EQ(Collect("zero_times=2", "", "10").collected["kernels_without_times"], 4);
  EXPECT_EQ(Collect("", "callback", "10").collected["kernels_without_times"], 8) << "the bug of 13.0";
  EXPECT_EQ(Collect("version=130100", "callback", "10").collected["kernels_ns"], 8 * 50000);
  EXPECT_EQ(Collect("timestamp_callback_refused", "callback", "10").collected["register_clock"], 27);
}

TEST(Modes, OrderAndUnknownKinds_AreAsCupti) {
  const Outcome run = Collect("unordered");
  EXPECT_EQ(run.collected["kernels"], 8);
  EXPECT_EQ(run.collected["kernels_ns"], run.facts["kernel_ns"]);
  const Outcome odd = Collect("unknown_kind=3");
  EXPECT_GT(odd.collected["kind_213"], 0);
  EXPECT_EQ(odd.collected["kernels"], 8);
}

TEST(Modes, LateRecords_ComeWithAForcedFlushOnly) {
  // Ten minutes: the plain flush keeps the buffer back, the forced one returns kernels without an end.
  const Outcome run = Collect("late_ms=600000,per_thread=0", "", "10");
  EXPECT_EQ(run.collected["flush"], 0);
  EXPECT_EQ(run.collected["buffers"], 1);
  EXPECT_EQ(run.collected.OrZero("kernels_unfinished") + run.collected.OrZero("kernels_without_times"), 8);
}

TEST(Modes, GenerationsOfRecords_HaveTheirSizes) {
  struct {
    const char* modes;
    size_t kernel;
  } const generations[] = {{"generation=4", 144}, {"generation=5", 160}, {"generation=6", 168},  {"generation=7", 176},
                           {"generation=8", 200}, {"generation=9", 208}, {"generation=10", 216}, {"version=22", 208},
                           {"version=17", 200},   {"version=13", 160},   {"version=12", 144}};
  for (const auto& generation : generations) {
    // One kind and one buffer: the dump is kernels alone.
    const Outcome run = Collect(std::string(generation.modes) + ",per_thread=0", "", "10");
    EXPECT_EQ(run.collected["kernels"], 8) << generation.modes;
    EXPECT_EQ(run.dump.size(), 8 + 8 * generation.kernel) << generation.modes;
  }
}

TEST(Modes, ClockSteps_DurationsAreRight) {
  const Outcome run = Collect("clock_step_ms=3600000,clock_step_after_ms=0", "", "10");
  EXPECT_EQ(run.collected["kernels"], 8);
  EXPECT_EQ(run.collected["kernels_ns"], 8 * 50000) << "before and after it the lengths are right";
}

TEST(Modes, SlowAndFatalFlushes_AreAsCupti) {
  const Outcome crash = Collect("flush_crashes_at=1");
  EXPECT_TRUE(WIFSIGNALED(crash.status));
  EXPECT_TRUE(Collect("slow_flush_ms=20").Exited(0));
}

TEST(Modes, DriversExitHandler_RecordsBehindItAreLost) {
  EXPECT_EQ(Collect("", "destructor").collected["kernels"], 8);
  const Outcome lost = Collect("exit_loses_buffers", "destructor");
  EXPECT_EQ(lost.collected["forced_flush"], 0);
  EXPECT_FALSE(lost.collected.Has("kernels"));
  EXPECT_EQ(Collect("exit_loses_buffers").collected["kernels"], 8) << "before it nothing is lost";
}

TEST(Modes, FullQueue_BlocksTheLaunch) {
  SIM_NEEDS_SUBJECT("launches");
  const Outcome run = RunSubject("launches", {"1", "200", "50000"},
                                 {.collect = true, .cuda_modes = "queue_depth=16", .kinds = "10,17"});
  EXPECT_EQ(run.collected["kernels_ns"], run.facts["kernel_ns"]);
  EXPECT_GT(run.collected["kind_17"], 0) << "overhead: command buffer full";
  const Outcome lazy =
      RunSubject("driver_linked", {"3"}, {.collect = true, .cuda_modes = "load_us=500", .kinds = "17"});
  EXPECT_GE(lazy.collected["kind_17"], 1) << "overhead: lazy loading";
}

TEST(Modes, CorrelationIds_Wrap) {
  const Outcome run = Collect("correlation_start=4294967290");
  EXPECT_EQ(run.collected["kernels"], 8);
  EXPECT_FALSE(run.collected.Has("kernels_without_correlation"));
}

TEST(Modes, FullBuffers_AreDelivered) {
  SIM_NEEDS_SUBJECT("launches");
  const Outcome run = RunSubject("launches", {"1", "2000"}, {.collect = true, .flags = "small,noflush"});
  EXPECT_GT(run.collected["buffers"], 50);
}

}  // namespace
}  // namespace tbprof::sim
