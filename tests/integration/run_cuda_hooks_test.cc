// SPDX-License-Identifier: Apache-2.0
// CUDA without CUPTI: hooks on the driver interface, on the simulator (tests/sim).
#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "cuda_harness.h"

namespace tbprof::integration {
namespace {

using ::testing::HasSubstr;

using Counts = std::map<std::string, int64_t>;

// The work of the program in the profile, independent of how it was recorded.
Counts CountsOf(const RunResult& result) {
  Counts counts;
  for (const auto& gpu : result.summary["gpus"]) {
    const std::string prefix = "GPU " + std::to_string(gpu["number"].get<int>()) + " ";
    counts[prefix + "kernels"] = gpu["kernels"];
    counts[prefix + "kernel names"] = gpu["kernel_names"];
    counts[prefix + "waits"] = gpu["waits"];
    counts[prefix + "peak bytes"] = gpu["peak_bytes"];
    counts[prefix + "live bytes"] = gpu["live_bytes"];
    counts[prefix + "without times"] = gpu["untimed"];
    for (const auto& copy : gpu["copies"]) {
      const std::string kind = prefix + copy["name"].get<std::string>();
      counts[kind] = copy["calls"];
      counts[kind + " bytes"] = copy["bytes"];
    }
  }
  for (const auto& process : result.summary["processes"]) {
    if (process["gpu"].is_null()) continue;
    counts["launches"] += process["gpu"]["launches"].get<int64_t>();
    counts["processes"] += process["gpu"]["records"].get<int64_t>() > 0;
  }
  return counts;
}

std::string Warnings(const RunResult& result) { return result.summary["warnings"].dump() + result.err; }

RunOptions ByHooks(const char* libraries = "cuda13") {
  RunOptions options = On(libraries);
  options.tbprof = {"--cuda=hooks"};
  options.environment.push_back({"CUDASIM_GPUS", "4"});
  return options;
}

using CudaHooks = Cuda;

TEST_F(CudaHooks, Counts_EqualThoseOfCupti) {
  const std::vector<std::vector<std::string>> commands = {{Subject("train"), "40"},
                                                          {Subject("train"), "40", "1000", "graph"},
                                                          {Subject("static_runtime")},
                                                          {Subject("driver_linked")},
                                                          {Subject("driver_opened")},
                                                          {Subject("copies")},
                                                          {Subject("streams")},
                                                          {Subject("devices")},
                                                          {Subject("forks")},
                                                          {Subject("driver_calls")},
                                                          {Subject("driver_calls_ptsz")},
                                                          {Subject("green")}};
  for (const auto& command : commands) {
    RunOptions hooks = ByHooks(), cupti = ByHooks();
    cupti.tbprof = {"--cuda=cupti", "--cuda-graphs=graph"};
    const Pair by_hooks = RunBoth(command, hooks);
    const RunResult by_cupti = RunUnderTbprof(command, cupti);
    ASSERT_TRUE(SameOutput(by_hooks.bare, by_hooks.profiled)) << command[0];
    ASSERT_NE(by_hooks.profiled.profile, nullptr) << command[0];
    ASSERT_NE(by_cupti.profile, nullptr) << command[0];
    ASSERT_TRUE(SameOutput(by_hooks.bare, by_cupti)) << command[0] << by_cupti.err;
    EXPECT_EQ(CountsOf(by_hooks.profiled), CountsOf(by_cupti)) << command[0];
    EXPECT_THAT(Warnings(by_hooks.profiled), HasSubstr("device times are approximate"));
  }
}

// Compares with the program's own counts, not with those of the simulated CUPTI.
TEST_F(CudaHooks, DriverCalls_AreRecorded) {
  for (const std::string suffix : {"", "_ptsz"}) {
    const Pair pair = RunBoth({Subject("driver_calls" + suffix), "2"}, ByHooks());
    ASSERT_TRUE(pair.Same());
    const RunResult& run = pair.profiled;
    Counts counts = CountsOf(run);
    EXPECT_EQ(counts["GPU 0 kernels"] + counts["GPU 1 kernels"], Reported(run, "kernels"));
    EXPECT_EQ(counts["GPU 1 kernels"], 2) << "those of launches on two devices at once";
    EXPECT_EQ(counts["GPU 0 MemcpyDToD (P2P)"], Reported(run, "peer_copies"));
    EXPECT_EQ(counts["GPU 0 MemcpyHToD"], Reported(run, "to_device")) << "a batch is one";
    EXPECT_EQ(counts["GPU 0 MemcpyHToD bytes"], 2 * 2 * (1536 + 256));
    EXPECT_EQ(counts["GPU 1 live bytes"], Reported(run, "physical_live") + 4096);
    EXPECT_EQ(counts["GPU 0 live bytes"], 4096);
    EXPECT_EQ(counts["GPU 0 peak bytes"], 3 * (2 << 20) + 4096);
    EXPECT_EQ(counts["GPU 0 without times"] + counts["GPU 1 without times"], 0);
    for (const char* call : {"cuLaunchCooperativeKernelMultiDevice", "cuLaunch", "cuLaunchGrid", "cuLaunchGridAsync",
                             "cuMemcpy3DPeer", "cuMemcpy3DPeerAsync", "cuMemcpyBatchAsync", "cuMemcpyBatchAsync_v2",
                             "cuMemcpy3DBatchAsync", "cuMemcpy3DBatchAsync_v2", "cuMemCreate", "cuMemRelease",
                             "cuMemMap", "cuMemUnmap", "cuMemSetAccess", "cuMemPrefetchAsync_v2"}) {
      EXPECT_FALSE(run.profile->Named(call).empty()) << call << suffix;
    }
  }
}

// A green context may be current to only one thread at a time. Its streams accept events of the primary context, or
// none.
TEST_F(CudaHooks, GreenContexts_AreRecordedAndUnchanged) {
  for (const char* mode : {"", "green_events_apart"}) {
    RunOptions options = ByHooks();
    options.environment.push_back({"CUDASIM_CUDA", mode});
    const Pair pair = RunBoth({Subject("green"), "3", "20"}, options);
    ASSERT_TRUE(pair.Same()) << mode;
    const RunResult& run = pair.profiled;
    Counts counts = CountsOf(run);
    const int64_t untimed[] = {counts["GPU 0 without times"], counts["GPU 1 without times"]};
    // Work without times is counted only per device.
    EXPECT_EQ(counts["GPU 0 kernels"] + counts["GPU 0 Memset"] + untimed[0],
              Reported(run, "first") + Reported(run, "sets"))
        << mode;
    EXPECT_EQ(counts["GPU 1 kernels"] + untimed[1], Reported(run, "second")) << mode;
    EXPECT_EQ(untimed[0] + untimed[1] > 0, *mode != '\0') << mode;
    EXPECT_EQ(counts["GPU 0 live bytes"], 0) << mode;
    EXPECT_FALSE(run.profile->Named("cuGreenCtxDestroy").empty()) << mode;
  }
}

// The clocks can be compared only after the first launches.
TEST_F(CudaHooks, FirstClockReadingLate_WorkBeforeItHasTimes) {
  for (const char* late : {"event_seen_us=2000", "event_seen_us=20000"}) {
    RunOptions options = ByHooks();
    options.environment.push_back({"CUDASIM_CUDA", late});
    const Pair pair = RunBoth({Subject("train"), "5"}, options);
    ASSERT_EQ(pair.profiled.code(), 0) << pair.profiled.err;
    Counts counts = CountsOf(pair.profiled);
    EXPECT_EQ(counts["GPU 0 kernels"], Reported(pair.profiled, "kernels")) << late;
    EXPECT_EQ(counts["GPU 0 without times"], 0) << late;
    int64_t last_kernel_ps = 0, last_wait_ps = 0;
    for (const Event& event : pair.profiled.profile->events()) {
      if (event.Has("kernel_details")) last_kernel_ps = std::max(last_kernel_ps, event.end_ps());
      if (event.name == "cuCtxSynchronize") last_wait_ps = std::max(last_wait_ps, event.end_ps());
    }
    EXPECT_GT(last_wait_ps, 0) << late;
    EXPECT_LE(last_kernel_ps, last_wait_ps) << late << ": the program has waited for it";
  }
}

// A call is left by longjmp or by the end of its thread: the later calls of the thread are still recorded.
TEST_F(CudaHooks, CallLeftByAJump_ThreadIsStillRecorded) {
  for (const std::string way : {"jump", "stack", "threads", "contexts", "inside"}) {
    RunOptions options = ByHooks();
    const char* const modes = way == "inside"     ? "event_signal=7"
                              : way == "contexts" ? "queue_depth=4,wait_signal"
                                                  : "wait_signal";
    options.environment.push_back({"CUDASIM_CUDA", modes});
    // 40 contexts are more than the observer has room for at once.
    const Pair pair = RunBoth({Subject("left_calls"), way, way == "contexts" ? "40" : "6"}, options);
    ASSERT_EQ(pair.profiled.code(), 0) << way << pair.profiled.err;
    // The outputs may differ: a wait may be over before it can be left.
    Counts counts = CountsOf(pair.profiled);
    EXPECT_EQ(counts["GPU 0 kernels"] + counts["GPU 0 without times"], Reported(pair.profiled, "launches")) << way;
    if (way != "inside") {
      EXPECT_EQ(counts["GPU 0 without times"], 0) << way;
    }
  }
}

// The inner launch may be counted or not; the outer launch continues.
TEST_F(CudaHooks, LaunchInsideALaunch_OuterOneIsRecorded) {
  RunOptions options = ByHooks();
  options.environment.push_back({"CUDASIM_CUDA", "queue_depth=4,wait_signal"});
  const Pair pair = RunBoth({Subject("left_calls"), "handler", "40"}, options);
  ASSERT_EQ(pair.profiled.code(), 0) << pair.profiled.err;
  Counts counts = CountsOf(pair.profiled);
  EXPECT_EQ(Reported(pair.profiled, "nested"), 40);
  EXPECT_LE(counts["GPU 0 kernels"], Reported(pair.profiled, "launches"));
  EXPECT_GE(counts["GPU 0 kernels"], Reported(pair.profiled, "launches") - 40);
  EXPECT_EQ(counts["GPU 0 without times"], 0);
}

TEST_F(CudaHooks, Training_EachKernelIsRecorded) {
  const Pair pair = RunBoth({Subject("train"), "40"}, ByHooks());
  ASSERT_TRUE(pair.Same());
  const OnDevice work = DeviceWork(*pair.profiled.profile);
  EXPECT_EQ(work.kernels, Reported(pair.profiled, "kernels"));
  // The events enclose the work, with an error of at most half a microsecond.
  EXPECT_GE(work.kernel_ps, (Reported(pair.profiled, "kernel_ns") - 500 * work.kernels) * 1000);
  EXPECT_EQ(static_cast<int64_t>(work.links.size()), work.kernels);
  std::set<std::string> launches;
  for (const Event& event : pair.profiled.profile->events()) {
    if (event.plane == "/host:CPU" && !LinkOf(event).empty()) launches.insert(LinkOf(event));
  }
  for (const std::string& link : work.links) EXPECT_TRUE(launches.contains(link)) << link;
  EXPECT_FALSE(pair.profiled.profile->Named("cuLaunchKernel").empty());
}

// A kernel starts after its launch has begun, and the kernels of a stream run one after the other.
TEST_F(CudaHooks, DeviceTimes_FitTheHosts) {
  const Pair pair = RunBoth({Subject("train"), "40"}, ByHooks());
  ASSERT_TRUE(pair.Same());
  std::map<std::string, int64_t> launched;
  for (const Event& event : pair.profiled.profile->events()) {
    if (event.plane == "/host:CPU" && !LinkOf(event).empty()) launched[LinkOf(event)] = event.start_ps;
  }
  std::map<std::string, int64_t> ends;
  for (const Event& event : pair.profiled.profile->events()) {
    if (event.plane.find("/device:GPU:") == std::string::npos || !event.Has("kernel_details")) continue;
    EXPECT_GE(event.start_ps, launched[LinkOf(event)]) << event.name;
    int64_t& end = ends[event.line];
    // Exact to the nanosecond: TensorBoard would draw overlapping kernels on a line of their own.
    EXPECT_GE(event.start_ps + 1000, end) << event.name;
    end = event.start_ps + event.duration_ps;
  }
  EXPECT_FALSE(ends.empty());
}

TEST_F(CudaHooks, CuptiUnavailable_HooksRecord) {
  struct Case {
    std::string libraries, modes, cause;
  };
  for (const Case& one : {Case{"cuda13", "privileges", "NVreg_RestrictProfilingToAdminUsers"},
                          Case{"cuda13", "rival", "another profiler"}, Case{"cuda13", "unknown_999", "999"},
                          Case{"cuda13", "enable_fails_kind=10", "refuses to record kernels"}}) {
    const Pair pair = RunBoth({Subject("train"), "20"}, On(one.libraries, one.modes));
    ASSERT_TRUE(pair.Same()) << one.modes;
    EXPECT_EQ(DeviceWork(*pair.profiled.profile).kernels, 60) << one.modes;
    EXPECT_THAT(Warnings(pair.profiled), HasSubstr("device times are approximate")) << one.modes;
    EXPECT_THAT(Warnings(pair.profiled), HasSubstr(one.cause)) << one.modes;
    // Not with --cuda=cupti.
    RunOptions only = On(one.libraries, one.modes);
    only.tbprof = {"--cuda=cupti"};
    const RunResult without = RunUnderTbprof({Subject("train"), "20"}, only);
    EXPECT_EQ(DeviceWork(*without.profile).kernels, 0) << one.modes;
    EXPECT_THAT(Warnings(without) + without.summary.dump(), HasSubstr(one.cause)) << one.modes;
  }
}

// tbprof's own thread queries its events all the time.
TEST_F(CudaHooks, StreamCapture_IsUnchanged) {
  const Pair pair = RunBoth({Subject("large_graph"), "100", "3", "1000", "global"}, ByHooks());
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(pair.profiled.code(), 0);
  EXPECT_EQ(DeviceWork(*pair.profiled.profile).kernels, 2) << "and the graphs as wholes";
}

// docs/decisions/016
TEST_F(CudaHooks, Library_KeepsItsOwnRuntime) {
  RunOptions options = ByHooks();
  for (auto& [name, value] : options.environment) {
    if (name == "LD_LIBRARY_PATH") value = Sim("cuda13") + ":" + Sim("cuda12");
  }
  const Pair pair = RunBoth({Subject("two_runtimes")}, options);
  ASSERT_TRUE(pair.Same());
  EXPECT_THAT(pair.profiled.out, HasSubstr("package12: runtime=12040 allocates=0"));
  EXPECT_THAT(pair.profiled.out, HasSubstr("package13: runtime=13000 allocates=0"));
}

TEST_F(CudaHooks, EachProgram_OutputIsTheBareOne) {
  for (const char* subject :
       {"faults", "launches", "graphs", "ranks", "rival_linked", "rival_opened", "train_cuda12"}) {
    for (const char* libraries : {"cuda13", "cuda12"}) {
      Pair pair = RunBoth({Subject(subject)}, ByHooks(libraries));
      for (RunResult* result : {&pair.bare, &pair.profiled}) {
        // The order in which ranks print, and the times that launches print, vary.
        std::vector<std::string> lines = Lines(result->out);
        std::sort(lines.begin(), lines.end());
        result->out.clear();
        for (const std::string& line : lines) {
          if (!line.starts_with("launch_") && !line.starts_with("launches_per") && !line.starts_with("rss_")) {
            result->out += line + "\n";
          }
        }
      }
      ASSERT_TRUE(SameOutput(pair.bare, pair.profiled)) << subject << " on " << libraries;
    }
  }
  for (const char* mode : {"fault=700,fault_at=3", "fault=719", "queue_depth=4", "memory_mb=1", "load_us=300"}) {
    RunOptions options = ByHooks();
    options.environment.push_back({"CUDASIM_CUDA", mode});
    Pair pair = RunBoth({Subject("train"), "5"}, options);
    LeaveOutThePlace(&pair);
    ASSERT_TRUE(SameOutput(pair.bare, pair.profiled)) << mode;
  }
}

}  // namespace
}  // namespace tbprof::integration
