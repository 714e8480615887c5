// SPDX-License-Identifier: Apache-2.0
//
// The subjects alone: the simulated driver and runtime do what CUDA promises.
#include "tests/sim/sim_test.h"

namespace tbprof::sim {
namespace {

TEST(Subjects, Training_RunsToItsEnd) {
  SIM_NEEDS_SUBJECT("train");
  const Outcome run = RunSubject("train", {"4", "100000"});
  EXPECT_TRUE(run.Exited(0)) << run.out;
  EXPECT_EQ(run.facts["kernels"], 12);
  EXPECT_NE(run.out.find("loss=1.500"), std::string::npos) << "the copies move bytes";
  const Outcome graph = RunSubject("train", {"4", "100000", "graph"});
  EXPECT_TRUE(graph.Exited(0)) << graph.out;
  EXPECT_EQ(graph.facts["graph_nodes"], 6);
}

TEST(Subjects, BytesOrdersAndGraphs_AreRight) {
  SIM_NEEDS_SUBJECT("copies");
  for (const auto& [name, argument] : {std::pair{"copies", "2"}, {"streams", ""}, {"graphs", "3"}}) {
    const Outcome run = RunSubject(name, {argument});
    EXPECT_TRUE(run.Exited(0)) << name << "\n" << run.out;
  }
  const Outcome hosts = RunSubject("graphs", {"3", "1"});
  EXPECT_TRUE(hosts.Exited(0)) << hosts.out;
  EXPECT_EQ(hosts.facts["host_calls"], 6);
}

TEST(Subjects, DeviceFaults_AreSticky) {
  SIM_NEEDS_SUBJECT("faults");
  for (const auto& [name, code] :
       {std::pair{"illegal_address", 700}, {"launch_failure", 719}, {"device_assert", 710}}) {
    const Outcome run = RunSubject("faults", {name});
    EXPECT_TRUE(run.Exited(0));
    EXPECT_EQ(run.facts["launch"], 0) << "found out by the device, not by the launch";
    EXPECT_EQ(run.facts["synchronize"], code);
    EXPECT_EQ(run.facts["malloc"], code);
    EXPECT_EQ(run.facts["synchronize_after"], code);
  }
  const Outcome fine = RunSubject("faults", {"none"});
  EXPECT_EQ(fine.facts["synchronize_after"], 0);
  EXPECT_EQ(fine.facts["bad_configuration"], 9);
  const Outcome chosen = RunSubject("faults", {"none"}, {.cuda_modes = "fault=700,fault_at=2"});
  EXPECT_EQ(chosen.facts["synchronize_after"], 700);
}

TEST(Subjects, Devices_AreSelectedByTheEnvironment) {
  SIM_NEEDS_SUBJECT("devices");
  const Outcome two = RunSubject("devices", {}, {.environment = {{"CUDASIM_GPUS", "2"}}});
  EXPECT_TRUE(two.Exited(0)) << two.out;
  EXPECT_EQ(two.facts["devices"], 2);
  EXPECT_EQ(two.facts["peers"], 1);
  const Outcome hidden =
      RunSubject("devices", {}, {.environment = {{"CUDASIM_GPUS", "2"}, {"CUDA_VISIBLE_DEVICES", ""}}});
  EXPECT_EQ(hidden.facts["count_result"], 100);
  const Outcome one =
      RunSubject("devices", {}, {.environment = {{"CUDASIM_GPUS", "2"}, {"CUDA_VISIBLE_DEVICES", "1,7,0"}}});
  EXPECT_EQ(one.facts["devices"], 1) << "the list ends at what is no device";
  EXPECT_EQ(RunSubject("devices", {}, {.cuda_modes = "no_device"}).facts["count_result"], 100);
  EXPECT_EQ(RunSubject("devices", {}, {.cuda_modes = "init_fails=803"}).facts["count_result"], 803);
  const Outcome old = RunSubject("devices", {}, {.environment = {{"CUDASIM_DRIVER_VERSION", "12040"}}});
  EXPECT_EQ(old.facts["count_result"], 35);
  EXPECT_EQ(old.facts["driver_version"], 12040);
}

TEST(Subjects, NoDriver_ErrorsAreReturned) {
  SIM_NEEDS_SUBJECT("devices");
  const Outcome run = RunSubject("devices", {}, {.libraries = "nodriver"});
  EXPECT_TRUE(run.Exited(0)) << run.out;
  EXPECT_EQ(run.facts["count_result"], 35);
  EXPECT_EQ(run.facts["driver_version"], 0);
  EXPECT_EQ(run.facts["runtime_version"], 13000);
}

TEST(Subjects, ProcessesAndForks_RunToTheirEnd) {
  SIM_NEEDS_SUBJECT("ranks");
  const Outcome ranks = RunSubject("ranks", {"2", "3"}, {.environment = {{"CUDASIM_GPUS", "2"}}});
  EXPECT_TRUE(ranks.Exited(0)) << ranks.out;
  const Outcome forks = RunSubject("forks", {});
  EXPECT_TRUE(forks.Exited(0)) << forks.out;
  EXPECT_EQ(forks.facts["child"], 0);
  EXPECT_EQ(forks.facts["executed_child"], 0);
}

TEST(Subjects, EachRoute_ReachesTheDriver) {
  for (const char* libraries : {"cuda13", "cuda12"}) {
    EXPECT_TRUE(RunSubject("driver_linked", {"3"}, {.libraries = libraries}).Exited(0));
    EXPECT_TRUE(RunSubject("driver_opened", {"3"}, {.libraries = libraries}).Exited(0));
    EXPECT_TRUE(RunSubject("driver_opened", {"3", "by_entry_point"}, {.libraries = libraries}).Exited(0));
    EXPECT_TRUE(RunSubject("ctypes_driver.py", {"3"}, {.libraries = libraries}).Exited(0));
  }
  EXPECT_TRUE(RunSubject("static_runtime", {"3"}).Exited(0));
  EXPECT_TRUE(RunSubject("driver_opened", {}, {.libraries = "nodriver"}).Exited(2));
}

TEST(Subjects, WrongMode_EndsTheProcess) {
  const Outcome run = RunSubject("driver_linked", {}, {.cuda_modes = "no_such_mode"});
  EXPECT_TRUE(WIFSIGNALED(run.status));
  EXPECT_NE(run.out.find("no mode 'no_such_mode'"), std::string::npos);
}

}  // namespace
}  // namespace tbprof::sim
