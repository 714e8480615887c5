// SPDX-License-Identifier: Apache-2.0
//
// The records of the simulated CUPTI agree with what the subject did.
#include "tests/sim/sim_test.h"

namespace tbprof::sim {
namespace {

TEST(Records, Training_IsRecorded) {
  SIM_NEEDS_SUBJECT("train");
  const Outcome run = RunSubject("train", {"10"}, {.collect = true});
  ASSERT_TRUE(run.Exited(0)) << run.out;
  const Facts& c = run.collected;
  EXPECT_EQ(c["subscribe"], 0);
  EXPECT_EQ(c["kernels"], run.facts["kernels"]);
  EXPECT_EQ(c["kernels_ns"], run.facts["kernel_ns"]);
  EXPECT_EQ(c["copies_1"], run.facts["copies_to_device"]);
  EXPECT_EQ(c["bytes_1"], run.facts["bytes_to_device"]);
  EXPECT_EQ(c["copies_2"], run.facts["copies_from_device"]);
  EXPECT_EQ(c["bytes_2"], run.facts["bytes_from_device"]);
  EXPECT_EQ(c["sets"], run.facts["sets"]);
  EXPECT_EQ(c["runtime_cbid_211"], run.facts["kernels"]) << "nvcc 13 launches are traced as cudaLaunchKernel";
  EXPECT_EQ(c["dropped"], 0);
  EXPECT_FALSE(c.Has("kernels_without_correlation"));
  EXPECT_FALSE(c.Has("started_before_call"));
  EXPECT_FALSE(c.Has("negative"));
}

TEST(Records, Graphs_ByNodeAndByLaunch_AreRecorded) {
  SIM_NEEDS_SUBJECT("graphs");
  const Outcome nodes = RunSubject("graphs", {"4"}, {.collect = true});
  EXPECT_EQ(nodes.collected["kernels"], nodes.facts["kernels"]);
  EXPECT_EQ(nodes.collected["kernels_ns"], nodes.facts["kernel_ns"]);
  EXPECT_EQ(nodes.collected["copies_2"], nodes.facts["copies_from_device"]);
  const Outcome launches = RunSubject("graphs", {"4"}, {.collect = true, .kinds = "10,1,2,5,51"});
  EXPECT_EQ(launches.collected["graphs"], launches.facts["graph_launches"]);
  EXPECT_FALSE(launches.collected.Has("kernels")) << "one or the other";
}

TEST(Records, EachRoute_IsRecorded) {
  for (const auto& [name, launch] : {std::pair{"driver_linked", "driver_cbid_307"},
                                     {"driver_opened", "driver_cbid_307"},
                                     {"ctypes_driver.py", "driver_cbid_307"},
                                     {"static_runtime", "runtime_cbid_211"}}) {
    const Outcome run = RunSubject(name, {"7"}, {.collect = true, .kinds = "10,1,2,4,5"});
    EXPECT_TRUE(run.Exited(0)) << name << run.out;
    EXPECT_EQ(run.collected["kernels"], 7) << name;
    EXPECT_EQ(run.collected["kernels_ns"], run.facts["kernel_ns"]) << name;
    EXPECT_EQ(run.collected[launch], 7) << name;
    EXPECT_FALSE(run.collected.Has("kernels_without_correlation")) << name;
  }
}

TEST(Records, HostFunctions_KernelsBehindThemAreRecorded) {
  SIM_NEEDS_SUBJECT("streams");
  const Outcome run = RunSubject("streams", {}, {.collect = true});
  EXPECT_TRUE(run.Exited(0)) << run.out;
  EXPECT_EQ(run.collected["kernels"], run.facts["kernels"]);
  EXPECT_EQ(run.collected["kernels_ns"], run.facts["kernel_ns"]);
}

TEST(Records, ManyThreads_AreRecorded) {
  SIM_NEEDS_SUBJECT("launches");
  const Outcome run = RunSubject("launches", {"4", "20000"}, {.collect = true});
  EXPECT_TRUE(run.Exited(0)) << run.out;
  EXPECT_EQ(run.collected["kernels"], run.facts["kernels"]);
  EXPECT_EQ(run.collected["runtime_cbid_211"], run.facts["kernels"]);
  const Outcome shared = RunSubject("launches", {"4", "5000"}, {.collect = true, .cupti_modes = "per_thread=0"});
  EXPECT_EQ(shared.collected["kernels"], shared.facts["kernels"]);
  EXPECT_LT(shared.collected["buffers_asked"], run.collected["buffers_asked"]);
}

TEST(Records, FaultsAndPeers_AreRecorded) {
  SIM_NEEDS_SUBJECT("faults");
  const Outcome fault = RunSubject("faults", {"illegal_address"}, {.collect = true, .kinds = "10,5,38"});
  EXPECT_TRUE(fault.Exited(0)) << fault.out;
  // Two synchronisations, an allocation, two launches, and cudaGetLastError after each of these.
  EXPECT_EQ(fault.collected["runtime_failed_700"], 7);
  const Outcome peers =
      RunSubject("devices", {}, {.collect = true, .kinds = "10,1,22", .environment = {{"CUDASIM_GPUS", "2"}}});
  EXPECT_EQ(peers.collected["peer_copies"], 1);
}

TEST(Records, Memory_IsRecorded) {
  SIM_NEEDS_SUBJECT("copies");
  const Outcome run = RunSubject("copies", {"1"}, {.collect = true, .kinds = "1,2,5,25,49,50"});
  EXPECT_TRUE(run.Exited(0)) << run.out;
  EXPECT_EQ(run.collected["copies_1"], run.facts["copies_to_device"]);
  EXPECT_EQ(run.collected["copies_2"], run.facts["copies_from_device"]);
  EXPECT_EQ(run.collected["copies_8"], run.facts["copies_within_device"]);
  EXPECT_EQ(run.collected["sets"], run.facts["sets"]);
  EXPECT_EQ(run.collected["kind_50"], 3) << "a pool made, trimmed, destroyed";
  EXPECT_EQ(run.collected["kind_25"], 2) << "a set of what the host has, and a prefetch";
  EXPECT_GE(run.collected["kind_49"], 12);
}

TEST(Records, Cuda12_IsRecorded) {
  const Outcome run = RunSubject("driver_linked", {"6"}, {.libraries = "cuda12", .collect = true, .kinds = "10,1,2,4"});
  EXPECT_TRUE(run.Exited(0)) << run.out;
  EXPECT_EQ(run.collected["kernels"], 6);
  EXPECT_EQ(run.collected["kernels_ns"], run.facts["kernel_ns"]);
  SIM_NEEDS_SUBJECT("train_cuda12");
  const Outcome train = RunSubject("train_cuda12", {"4"}, {.libraries = "cuda12", .collect = true});
  EXPECT_TRUE(train.Exited(0)) << train.out;
  EXPECT_EQ(train.collected["kernels"], train.facts["kernels"]);
  EXPECT_EQ(train.collected["runtime_cbid_211"], train.facts["kernels"]);
}

TEST(Records, Callbacks_ComeInPairs) {
  SIM_NEEDS_SUBJECT("train");
  const Outcome run = RunSubject("train", {"5"}, {.collect = true, .flags = "subscribe"});
  EXPECT_EQ(run.collected["callback:cudaLaunchKernel"], 2 * run.facts["kernels"]);
  EXPECT_EQ(run.collected["callbacks_enter"], run.collected["callbacks_exit"]);
}

TEST(Records, ProgramsThatUseCupti_AreAsAlone) {
  for (const char* name : {"rival_linked", "rival_opened"}) {
    for (const char* version : {"1", "2"}) {
      const Outcome alone = RunSubject(name, {version, "2"});
      EXPECT_TRUE(alone.Exited(0)) << alone.out;
      EXPECT_EQ(alone.facts["subscribed"], 2) << name << version;
      EXPECT_EQ(alone.facts["own_kernels"], 10);
      EXPECT_EQ(alone.facts["own_kernel_ns"], alone.facts["kernel_ns"]);
      const Outcome late = RunSubject(name, {version, "2"}, {.collect = true});
      EXPECT_EQ(late.facts["subscribe_result"], 39) << "the collector was first";
      EXPECT_EQ(late.collected["kernels"], 10);
    }
  }
  const Outcome named = RunSubject("rival_linked", {"2"}, {.collect = true});
  EXPECT_NE(named.out.find("old_subscriber=CUPTI"), std::string::npos) << named.out;
}

TEST(Records, ForkedChildren_ParentIsUnchanged) {
  SIM_NEEDS_SUBJECT("forks");
  const Outcome run = RunSubject("forks", {}, {.collect = true});
  EXPECT_TRUE(run.Exited(0)) << run.out;
  EXPECT_EQ(run.facts["child"], 0);
}

}  // namespace
}  // namespace tbprof::sim
