// SPDX-License-Identifier: Apache-2.0
// CUDA programs of every kind on the simulator (tests/sim): their profiles, and that they behave the same as without
// tbprof.
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cuda_harness.h"

namespace tbprof::integration {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

TEST_F(Cuda, Training_EachKernelIsRecorded) {
  const Pair pair = RunBoth({Subject("train"), "40"}, On("cuda13"));
  ASSERT_TRUE(pair.Same());
  const OnDevice work = DeviceWork(*pair.profiled.profile);
  EXPECT_EQ(work.kernels, Reported(pair.profiled, "kernels"));
  // Two clocks: to the nanosecond for each.
  EXPECT_NEAR(static_cast<double>(work.kernel_ps), static_cast<double>(Reported(pair.profiled, "kernel_ns")) * 1000,
              1000.0 * static_cast<double>(work.kernels));
  EXPECT_EQ(work.to_device, Reported(pair.profiled, "copies_to_device"));
  EXPECT_EQ(work.from_device, Reported(pair.profiled, "copies_from_device"));
  EXPECT_EQ(work.sets, Reported(pair.profiled, "sets"));
  EXPECT_EQ(static_cast<int64_t>(work.links.size()), work.kernels);
  EXPECT_TRUE(pair.profiled.profile->HasPlane("/device:GPU:0"));
  // The launch is on the thread that made it, and is linked to its kernel.
  std::set<std::string> launches;
  for (const Event& event : pair.profiled.profile->events()) {
    if (event.plane == "/host:CPU" && !LinkOf(event).empty()) launches.insert(LinkOf(event));
  }
  for (const std::string& link : work.links) EXPECT_TRUE(launches.contains(link)) << link;
  EXPECT_FALSE(pair.profiled.profile->Named("cudaLaunchKernel").empty());
}

TEST_F(Cuda, StepMarker_NameOfAKernel_GivesTheSteps) {
  RunOptions options = On("cuda13");
  options.tbprof.push_back("--step-marker=^optimizer_for");
  const Pair pair = RunBoth({Subject("train"), "40"}, options);
  ASSERT_TRUE(pair.Same());
  const nlohmann::json& steps = pair.profiled.summary["steps"];
  EXPECT_EQ(steps["count"], 39) << "from each to the next";
  EXPECT_THAT(steps["source"].get<std::string>(), HasSubstr("kernel `optimizer_for"));
  EXPECT_EQ(steps["confidence"], 1);
}

// Nothing in the program marks steps.
TEST_F(Cuda, Steps_NoMarker_AreDetectedInLaunches) {
  for (const std::vector<std::string>& way : {std::vector<std::string>{}, {"200000", "graph"}}) {
    std::vector<std::string> command = {Subject("train"), "60"};
    command.insert(command.end(), way.begin(), way.end());
    const Pair pair = RunBoth(command, On("cuda13"));
    ASSERT_TRUE(pair.Same());
    const nlohmann::json& steps = pair.profiled.summary["steps"];
    EXPECT_NEAR(steps["count"].get<int>() + steps["irregular"].get<int>(), 60, 1) << steps;
    // A step counts as one executable by its share of the time, which is smaller on a busy machine.
    const std::string source = steps["source"];
    EXPECT_TRUE(source == "repeated launches" || (!way.empty() && source == "an executable launched again and again"))
        << steps;
    EXPECT_GT(steps["confidence"].get<double>(), 0.5) << steps;
  }
}

// More events than the profile may have: of a part of the time all are kept, and its steps are found.
TEST_F(Cuda, MoreThanTheProfileHolds_StepsOfAPartAreFound) {
  RunOptions options = On("cuda13");
  options.tbprof.push_back("--max-profile-size=128KiB");
  const Pair pair = RunBoth({Subject("train"), "600"}, options);
  ASSERT_TRUE(pair.Same());
  EXPECT_GT(pair.profiled.summary["records"]["over_budget"].get<int>(), 3000);
  const nlohmann::json& steps = pair.profiled.summary["steps"];
  ASSERT_TRUE(steps["known"].get<bool>()) << steps;
  EXPECT_EQ(steps["source"], "repeated launches");
  EXPECT_GT(steps["count"].get<int>(), 30);
  EXPECT_LT(steps["count"].get<int>(), 300);
  const double from = steps["searched_from_s"], to = steps["searched_to_s"];
  EXPECT_EQ(pair.profiled.summary["budget"]["full_detail_from_s"], from);
  EXPECT_EQ(pair.profiled.summary["budget"]["full_detail_to_s"], to);
  for (const nlohmann::json& step : steps["list"]) {
    EXPECT_GE(step["start_s"].get<double>(), from - 1e-9);
    EXPECT_LE(step["start_s"].get<double>(), to);
  }
  EXPECT_TRUE(pair.profiled.summary["step_counts"].empty()) << "the counts are of the whole run";
}

// Kernels belong to the range in which they were captured, not in which the graph was instantiated or
// launched. Kernels captured outside of any range belong to the range of the launch.
TEST_F(Cuda, KernelsOfAGraph_BelongToTheirCapture) {
  const Pair pair = RunBoth({Subject("graph_ranges"), "3"}, On("cuda13"));
  ASSERT_TRUE(pair.Same());
  std::map<std::string, std::vector<std::string>> operations;
  for (const Event& event : pair.profiled.profile->events()) {
    if (!event.Has("kernel_details")) continue;
    const std::string name = event.name.substr(0, event.name.find('_'));
    operations[name].push_back(event.Has("tf_op") ? event.Stat("tf_op") : "");
    EXPECT_EQ(event.Has("cuda_graph_node_id"), name != "eager") << name;
  }
  using Texts = std::vector<std::string>;
  EXPECT_EQ(operations["encode"], Texts(6, "model/encoder:encoder"));
  EXPECT_EQ(operations["decode"], Texts(6, "model/decoder:decoder"));
  EXPECT_EQ(operations["nowhere"], Texts(3, "replay:replay"));
  EXPECT_EQ(operations["eager"], Texts(3, "replay/eager:eager"));
}

// CUPTI numbers streams per context: the streams of two devices keep their own names.
TEST_F(Cuda, Streams_HaveTheProgramsNames) {
  for (const char* mode : {"cupti", "hooks"}) {
    RunOptions options = On("cuda13");
    options.tbprof = {std::string("--cuda=") + mode};
    options.environment.push_back({"CUDASIM_GPUS", "2"});
    const Pair pair = RunBoth({Subject("nvtx"), "3", "streams"}, options);
    ASSERT_TRUE(pair.Same()) << mode;
    std::multiset<std::string> names;
    for (const Event& event : pair.profiled.profile->events()) {
      const size_t gpu = event.plane.find("GPU"), name = event.line.find(") ");
      if (gpu == std::string::npos || name == std::string::npos || !event.Has("kernel_details")) continue;
      names.insert(event.plane.substr(gpu + 4, 1) + " " + event.line.substr(name + 2));
    }
    // With hooks the default stream keeps its own name, whatever name the program gives it.
    EXPECT_EQ(names.erase("0 default stream"), std::string_view(mode) == "hooks" ? 6u : 0u);
    EXPECT_THAT(names, UnorderedElementsAre("0 copies of 0", "0 by the driver's interface", "0 na\xc3\xafve",
                                            "1 copies of 1", "1 by the driver's interface", "1 na\xc3\xafve"))
        << mode;
  }
}

TEST_F(Cuda, EachRouteToTheDriver_IsRecorded) {
  for (const char* subject : {"static_runtime", "driver_linked", "driver_opened"}) {
    for (const char* libraries : {"cuda13", "cuda12"}) {
      const Pair pair = RunBoth({Subject(subject)}, On(libraries));
      ASSERT_TRUE(SameOutput(pair.bare, pair.profiled)) << subject << " on " << libraries;
      // A runtime of CUDA 13 does not start on a driver of CUDA 12.
      if (pair.bare.code() != 0) continue;
      ASSERT_NE(pair.profiled.profile, nullptr) << subject << " on " << libraries;
      EXPECT_GT(DeviceWork(*pair.profiled.profile).kernels, 0) << subject << " on " << libraries;
    }
  }
}

TEST_F(Cuda, Python_Ctypes_IsRecorded) {
  const Pair pair = RunBoth(
      {"/usr/bin/python3", std::string(TBPROF_SOURCE_DIR) + "/tests/sim/subjects/ctypes_driver.py"}, On("cuda13"));
  ASSERT_TRUE(pair.Same());
  EXPECT_GT(DeviceWork(*pair.profiled.profile).kernels, 0);
}

// Collectives have the library's own names, linked or opened, and the bytes of the rank.
TEST_F(Cuda, Collectives_HaveTheirBytes) {
  for (const char* subject : {"collectives_linked", "collectives_opened"}) {
    const Pair pair = RunBoth({Subject(subject), "7"}, On("cuda13"));
    ASSERT_TRUE(pair.Same()) << subject;
    std::map<std::string, std::vector<std::string>> bytes;
    for (const Event& event : pair.profiled.profile->events()) {
      if (event.name.starts_with("nccl")) bytes[event.name].push_back(event.Has("bytes") ? event.Stat("bytes") : "");
    }
    EXPECT_EQ(bytes["ncclAllReduce"], std::vector<std::string>(7, "4000")) << subject;
    EXPECT_EQ(bytes["ncclAllGather"], std::vector<std::string>(7, "600")) << subject;
    EXPECT_EQ(bytes["ncclSend"], std::vector<std::string>(7, "40")) << subject;
    EXPECT_EQ(bytes["ncclGroupEnd"].size(), 7u) << subject;
  }
}

// torch.profiler tries once, and JAX ends if it fails.
TEST_F(Cuda, ProgramUsesCupti_GetsIt) {
  for (const char* subject : {"rival_linked", "rival_opened"}) {
    for (const char* version : {"1", "2"}) {
      const Pair pair = RunBoth({Subject(subject), version, "2"}, On("cuda13"));
      ASSERT_TRUE(SameOutput(pair.bare, pair.profiled)) << subject << " " << version;
      EXPECT_EQ(pair.profiled.code(), 0);
    }
  }
}

// The program behaves the same for any result of CUPTI.
TEST_F(Cuda, EachAnswerOfCupti_ProgramIsAsBare) {
  for (const char* mode :
       {"unknown_999", "privileges", "rival", "multi_subscriber", "drop=3", "zero_times=3", "unordered", "late_ms=20",
        "unknown_kind=5", "clock_step_ms=5000,clock_step_after_ms=5", "slow_flush_ms=300", "finalize_crashes",
        "exit_loses_buffers", "fork_hangs", "enable_fails_kind=10", "enable_fails_kind=49", "generation=4",
        "version=18", "correlation_start=4294967290"}) {
    const Pair pair = RunBoth({Subject("train"), "5"}, On("cuda13", mode));
    ASSERT_TRUE(pair.Same()) << mode;
    EXPECT_FALSE(pair.profiled.timed_out) << mode;
  }
}

TEST_F(Cuda, NoDriverNoDeviceOrABrokenOne_ProgramIsAsBare) {
  struct Case {
    const char* libraries;
    const char* cuda;
  };
  for (const Case& one : {Case{"nodriver", ""}, Case{"cuda13", "no_device"}, Case{"cuda13", "init_fails=802"},
                          Case{"cuda13", "fault=700,fault_at=3"}, Case{"cuda13", "fault=719"}}) {
    Pair pair = RunBoth({Subject("train"), "5"}, On(one.libraries, "", one.cuda));
    if (std::string_view(one.cuda).starts_with("fault")) LeaveOutThePlace(&pair);
    ASSERT_TRUE(pair.Same()) << one.libraries << " " << one.cuda;
  }
}

TEST_F(Cuda, ForksAndRanks_ProgramIsAsBare) {
  for (const char* subject : {"forks", "ranks", "devices", "graphs", "streams", "copies", "faults"}) {
    RunOptions options = On("cuda13");
    options.environment.push_back({"CUDASIM_GPUS", "4"});
    Pair pair = RunBoth({Subject(subject)}, options);
    ASSERT_NE(pair.profiled.profile, nullptr) << subject;
    // The order in which ranks print varies.
    for (RunResult* result : {&pair.bare, &pair.profiled}) {
      std::vector<std::string> lines = Lines(result->out);
      std::sort(lines.begin(), lines.end());
      result->out.clear();
      for (const std::string& line : lines) result->out += line + "\n";
    }
    ASSERT_TRUE(SameOutput(pair.bare, pair.profiled)) << subject;
  }
}

// CUDA_INJECTION64_PATH names one library: the library that it named before is still loaded.
TEST_F(Cuda, Injection_OfTheUser_IsKept) {
  RunOptions options = On("cuda13");
  std::erase_if(options.environment, [](const auto& entry) { return entry.first == "CUDA_INJECTION64_PATH"; });
  options.environment.push_back({"CUDA_INJECTION64_PATH", Sim("libsim_collector.so")});
  const Pair pair = RunBoth({Subject("train"), "5"}, options);
  EXPECT_EQ(pair.bare.code(), pair.profiled.code());
}

// A process that is prepared for CUDA has neither the library nor its thread before the driver is looked up.
TEST_F(Cuda, ProcessWithoutCuda_HasNoLibraryAndNoThread) {
  constexpr char kScript[] = R"(
import ctypes, os
def show(name):
    with open('/proc/self/maps') as maps: print(name + '_loaded=%d' % ('libtbprof_cupti' in maps.read()))
    print(name + '_threads=%d' % len(os.listdir('/proc/self/task')))
show('before')
ctypes.CDLL('libcuda.so.1').cuInit(0)
show('after'))";
  const RunResult result = RunUnderTbprof({"/usr/bin/python3", "-c", kScript}, On("cuda13"));
  ASSERT_EQ(result.code(), 0) << result.AllPrinted();
  EXPECT_EQ(Reported(result, "before_loaded"), 0);
  EXPECT_EQ(Reported(result, "before_threads"), 1);
  EXPECT_EQ(Reported(result, "after_loaded"), 1);
  EXPECT_GT(Reported(result, "after_threads"), 1);
}

TEST_F(Cuda, Off_RecordsNoDevice) {
  RunOptions options = On("cuda13");
  options.tbprof = {"--cuda=off"};
  const Pair pair = RunBoth({Subject("train"), "5"}, options);
  ASSERT_TRUE(pair.Same());
  EXPECT_FALSE(pair.profiled.profile->HasPlane("/device:GPU:0"));
}

// The totals of the only GPU: kernels and copies by name, and runtime calls.
std::map<std::string, std::vector<uint64_t>> Totals(const std::string& run_directory) {
  std::map<std::string, std::vector<uint64_t>> totals;
  const auto summary = nlohmann::json::parse(ReadFile(run_directory + "/summary.json"), nullptr, false);
  const auto nanoseconds = [](const nlohmann::json& seconds) {
    return static_cast<uint64_t>(std::llround(seconds.get<double>() * 1e9));
  };
  for (const auto& gpu : summary["gpus"]) {
    totals["kernels"] = {gpu["kernels"], nanoseconds(gpu["kernel_s"])};
    totals["waits"] = {gpu["waits"]};
    totals["memory"] = {gpu["peak_bytes"], gpu["live_bytes"]};
    for (const auto& kernel : gpu["top_kernels"]) {
      totals[kernel["name"]] = {kernel["calls"], nanoseconds(kernel["total_s"]), nanoseconds(kernel["longest_s"])};
    }
    for (const auto& copy : gpu["copies"]) {
      totals[copy["name"]] = {copy["calls"], copy["bytes"], nanoseconds(copy["total_s"])};
    }
  }
  for (const auto& process : summary["processes"]) {
    totals["launches"] = {process["gpu"]["launches"]};
    for (const auto& total : process["operations"]) {
      const std::string name = total["operation"];
      if (name.starts_with("cuda")) totals[name] = {total["calls"]};
    }
  }
  return totals;
}

// Records that the spool could not hold still count: the totals are those of the whole run.
TEST_F(Cuda, SpoolLimit_TotalsAreWhole) {
  const std::vector<std::string> command = {Subject("train"), "8000", "20000"};
  const RunResult whole = RunUnderTbprof(command, On("cuda13"));
  ASSERT_EQ(whole.run_directories.size(), 1u) << whole.AllPrinted();
  RunOptions options = On("cuda13");
  options.tbprof = {"--spool-limit=4MiB", "--window=last=100ms"};
  const RunResult limited = RunUnderTbprof(command, options);
  ASSERT_EQ(limited.run_directories.size(), 1u) << limited.AllPrinted();
  const auto expected = Totals(whole.run_directories[0]), found = Totals(limited.run_directories[0]);
  ASSERT_EQ(expected.at("kernels")[0], static_cast<uint64_t>(Reported(whole, "kernels")));
  ASSERT_EQ(expected.at("MemcpyHToD")[1], static_cast<uint64_t>(Reported(whole, "bytes_to_device")));
  EXPECT_EQ(expected.at("cudaStreamSynchronize")[0], 8000u);
  EXPECT_TRUE(limited.Printed("in the whole run")) << limited.AllPrinted();
  // Otherwise the test proves nothing. The window is a fifth of the 560 ms that the kernels take on any machine.
  EXPECT_LT(limited.summary["records"].value("decoded", int64_t{0}),
            whole.summary["records"].value("decoded", int64_t{0}) / 2);
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, numbers] : expected) {
    ASSERT_TRUE(found.contains(name)) << name;
    const std::vector<uint64_t>& others = found.at(name);
    EXPECT_EQ(others[0], numbers[0]) << name;
    if (name.starts_with("Memcpy") || name == "Memset") {
      EXPECT_EQ(others[1], numbers[1]) << name;
    }
    if (name.find("for_nanoseconds") == std::string::npos) continue;
    // Two clocks: to the nanosecond for each.
    EXPECT_NEAR(static_cast<double>(others[1]), static_cast<double>(numbers[1]), static_cast<double>(numbers[0]))
        << name;
  }
}

// Records that CUPTI has not delivered are lost with the process, and the profile has the length of that time. The
// program prints how many kernels had ended and when. With shorter kernels a buffer is full sooner; the device is never
// idle when a buffer is flushed. The calls of a thread beside are delivered at each flush, before older work.
TEST_F(Cuda, Kill_LossIsAtMostTheReportedOne) {
  for (int i = 0; i < 20; ++i) {
    const int64_t kernel_ns = i % 2 == 0 ? 100'000 : 3'000'000;
    auto running = StartUnderTbprof({"/bin/sh", "-c",
                                     "echo $$ > pid; exec '" + Subject("train") + "' 1000000 " +
                                         std::to_string(kernel_ns) + (i % 4 < 2 ? " told" : " beside")},
                                    On("cuda13"));
    const std::string pid_file = running->path() + "/pid";
    const auto told = [&] {
      std::vector<std::pair<int64_t, int64_t>> kernels;
      long long count = 0, at = 0;
      for (const std::string& line : Lines(running->Out())) {
        if (sscanf(line.c_str(), "%lld %lld", &count, &at) == 2) kernels.emplace_back(count, at);
      }
      return kernels;
    };
    const size_t steps = kernel_ns < 1'000'000 ? 800 + 37 * static_cast<size_t>(i) : 50 + 3 * static_cast<size_t>(i);
    for (int waited = 0; waited < 3000 && told().size() < steps; ++waited) usleep(10'000);
    ASSERT_EQ(kill(std::stoi(ReadFile(pid_file)), SIGKILL), 0);
    const RunResult result = running->Wait();
    std::vector<std::pair<int64_t, int64_t>> over = told();
    if (!result.out.ends_with('\n')) over.pop_back();
    ASSERT_GE(over.size(), steps);
    ASSERT_EQ(result.run_directories.size(), 1u) << result.AllPrinted();
    const auto summary = nlohmann::json::parse(ReadFile(result.run_directories[0] + "/summary.json"), nullptr, false);
    const auto& gpu = summary["gpus"][0];
    ASSERT_TRUE(gpu.is_object()) << "nothing at all of " << over.back().first << " kernels: " << result.AllPrinted();
    const int64_t recorded = gpu["kernels"].get<int64_t>() - gpu["unfinished"].get<int64_t>();
    double lost_s = -1;
    for (const auto& process : summary["processes"]) {
      if (!process["gpu"].is_object()) continue;
      const auto& printed = process["gpu"]["lost_at_end_s"];
      if (printed.is_number()) lost_s = printed;
    }
    EXPECT_EQ(result.Printed("while CUPTI still held GPU records of up to its last"), lost_s >= 0)
        << result.AllPrinted();
    // Null: nothing is lost.
    lost_s = std::max(lost_s, 0.0);
    // The program ended after it printed its last line.
    const int64_t until = over.back().second - static_cast<int64_t>(lost_s * 1e9);
    int64_t before = 0;
    for (const auto& [count, at] : over) {
      if (at <= until) before = count;
    }
    EXPECT_GE(recorded, before) << "of " << over.back().first << ", " << lost_s << " s before the end";
    EXPECT_LE(recorded, over.back().first + 6) << "more than there can have been";
  }
}

// ---- unified memory

RunOptions Unified(const std::string& libraries, const std::string& modes = "") {
  RunOptions options = On(libraries, modes);
  options.tbprof = {"--cuda-unified-memory"};
  return options;
}

TEST_F(Cuda, UnifiedMemory_IsRecorded) {
  for (const char* modes : {"", "version=22"}) {
    const Pair pair = RunBoth({Subject("unified"), "4"}, Unified("cuda13", modes));
    ASSERT_TRUE(pair.Same());
    const RunResult& run = pair.profiled;
    const int64_t bytes = Reported(run, "bytes"), pages = bytes / 65536;
    const int64_t to_device = Reported(run, "to_device"), to_host = Reported(run, "to_host");
    const int64_t faulted = to_device - Reported(run, "prefetched");
    std::map<std::string, int64_t> lines;
    std::map<std::string, int64_t> causes;
    for (const Event& event : run.profile->events()) {
      if (event.line.find("unified memory/") == std::string::npos) continue;
      EXPECT_THAT(event.plane, HasSubstr("host")) << "not the device's work";
      ++lines[event.line.substr(0, event.line.rfind('/'))];
      ++causes[event.name + ": " + event.Stat("detail")];
      if (event.name.ends_with("HtoD")) {
        EXPECT_EQ(event.Number("bytes"), bytes);
      }
      if (event.name == "CPU page fault") {
        EXPECT_THAT(event.Stat("call_site"), HasSubstr("WriteFromHost"));
      }
    }
    EXPECT_EQ(causes["unified memory HtoD: page fault"], faulted);
    EXPECT_EQ(causes["unified memory HtoD: asked for by the program"], to_device - faulted);
    EXPECT_EQ(causes["unified memory DtoH: page fault"], to_host);
    EXPECT_EQ(causes["GPU page fault: 2 faults of this page, write"], faulted * pages);
    EXPECT_EQ(causes["CPU page fault: write"], to_host * pages);
    std::map<std::string, nlohmann::json> totals;
    for (const auto& total : run.summary["gpus"][0]["unified_memory"]) totals[total["name"]] = total;
    EXPECT_EQ(totals["unified memory HtoD"]["bytes"], to_device * bytes);
    EXPECT_EQ(totals["unified memory DtoH"]["bytes"], to_host * bytes);
    EXPECT_EQ(totals["GPU page fault"]["count"], faulted * pages * 2);
    EXPECT_GT(totals["unified memory HtoD"]["total_s"].get<double>(), 0);
    EXPECT_EQ(run.summary["processes"][0]["gpu"]["host_page_faults"], to_host * pages);
    EXPECT_TRUE(run.Printed("unified memory HtoD")) << run.AllPrinted();
  }
}

TEST_F(Cuda, UnifiedMemory_NotRequested_IsNotRecorded) {
  const RunResult run = RunUnderTbprof({Subject("unified"), "2"}, On("cuda13"));
  ASSERT_NE(run.profile, nullptr);
  for (const Event& event : run.profile->events()) EXPECT_EQ(event.line.find("unified memory"), std::string::npos);
  EXPECT_FALSE(run.Printed("unified memory")) << run.AllPrinted();
}

TEST_F(Cuda, UnifiedMemory_RefusedOrPartlyKnown_IsReported) {
  const RunResult refused = RunUnderTbprof({Subject("unified"), "2"}, Unified("cuda13", "unified_refused=29"));
  ASSERT_NE(refused.profile, nullptr);
  EXPECT_THAT(PageText(*refused.profile), HasSubstr("unified memory: CUPTI error 29"));
  EXPECT_TRUE(refused.Printed("unified memory: CUPTI error 29")) << refused.AllPrinted();
  EXPECT_EQ(refused.summary["gpus"][0]["copies"][0].value("calls", 0), 2) << "all else is recorded";
  const RunResult late = RunUnderTbprof({Subject("unified"), "2"}, Unified("cuda13", "unified_not_yet=2"));
  ASSERT_NE(late.profile, nullptr);
  EXPECT_EQ(late.summary["gpus"][0]["unified_memory"].size(), 3u) << "asked again";
  const RunResult old = RunUnderTbprof({Subject("unified"), "2"}, Unified("cuda13", "unified_counters=4"));
  ASSERT_NE(old.profile, nullptr);
  EXPECT_EQ(old.summary["gpus"][0]["unified_memory"].size(), 3u);
  RunOptions hooks = Unified("cuda13");
  hooks.tbprof.push_back("--cuda=hooks");
  const RunResult by_hooks = RunUnderTbprof({Subject("unified"), "2"}, hooks);
  ASSERT_NE(by_hooks.profile, nullptr);
  EXPECT_THAT(PageText(*by_hooks.profile), HasSubstr("unified memory: only CUPTI reports it"));
}

// ---- --require-gpu

RunResult Required(const std::vector<std::string>& command, RunOptions options) {
  options.tbprof.push_back("--require-gpu");
  return RunUnderTbprof(command, options);
}

TEST_F(Cuda, RequireGpu_Kernels_Succeeds) {
  const RunResult result = Required({Subject("train"), "3"}, On("cuda13"));
  EXPECT_EQ(result.code(), 0) << result.AllPrinted();
  EXPECT_FALSE(result.Printed("--require-gpu"));
  RunOptions whole = On("cuda13");
  whole.tbprof = {"--cuda-graphs=graph"};
  EXPECT_EQ(Required({Subject("graphs")}, whole).code(), 0) << "a graph recorded as a whole is work, too";
}

TEST_F(Cuda, RequireGpu_NoKernels_Is3WithTheCause) {
  struct Case {
    const char *libraries, *subject, *cupti, *cuda, *cause;
  };
  for (const Case& one : {Case{"nodriver", "devices", "", "", "no NVIDIA driver"},
                          Case{"cuda13", "devices", "", "no_device", "cuInit answers 100"},
                          Case{"cuda13", "train", "privileges", "", "NVreg_RestrictProfilingToAdminUsers=0"},
                          Case{"cuda13", "train", "rival", "", "end that profiler"},
                          Case{"cuda13", "train", "newer_than_driver", "", "CUPTI is newer than the driver"},
                          Case{"cuda13", "/bin/true", "", "", "no recorded process called cuInit"}}) {
    RunOptions options = On(one.libraries, one.cupti, one.cuda);
    options.tbprof = {"--cuda=cupti"};
    const std::string program = one.subject[0] == '/' ? one.subject : Subject(one.subject);
    for (const bool quiet : {false, true}) {
      if (quiet) options.tbprof.push_back("--quiet");
      const RunResult result = Required({program}, options);
      EXPECT_EQ(result.code(), 3) << one.cause;
      ASSERT_FALSE(result.printed.empty()) << one.cause;
      EXPECT_THAT(result.printed.back(), StartsWith("--require-gpu: no kernel was recorded: ")) << one.cause;
      EXPECT_THAT(result.printed.back(), HasSubstr(one.cause));
      EXPECT_THAT(result.printed.back(), HasSubstr("; ")) << "and what to do";
      EXPECT_NE(result.profile, nullptr) << one.cause;
    }
  }
}

// Hooks are tried where CUPTI is unavailable: without a device they find nothing, and the cause is CUPTI's.
TEST_F(Cuda, RequireGpu_HooksDoNotHelp_CauseIsNamed) {
  const RunResult result = Required({Subject("devices")}, On("cuda13", "", "no_device"));
  EXPECT_EQ(result.code(), 3);
  ASSERT_FALSE(result.printed.empty());
  EXPECT_THAT(result.printed.back(), HasSubstr("cuInit answers 100"));
  EXPECT_EQ(Required({Subject("train"), "3"}, On("cuda13", "privileges")).code(), 0) << "by hooks";
}

TEST_F(Cuda, RequireGpu_CommandFails_StatusIsKept) {
  EXPECT_EQ(Required({"/bin/sh", "-c", "exit 7"}, On("cuda13")).code(), 7);
  EXPECT_EQ(Required({"/bin/sh", "-c", "kill -TERM $$"}, On("cuda13")).signal(), SIGTERM);
}

TEST_F(Cuda, RequireGpu_VariableOrNothingRecorded_IsApplied) {
  RunOptions options = On("cuda13");
  options.environment.emplace_back("TBPROF_REQUIRE_GPU", "1");
  EXPECT_EQ(RunUnderTbprof({"/bin/true"}, options).code(), 3);
  for (const char* other : {"--cuda=off", "--trace=lock,malloc"}) {
    RunOptions contradiction = On("cuda13");
    contradiction.tbprof = {other};
    const RunResult result = Required({"/bin/echo", "started"}, contradiction);
    EXPECT_EQ(result.code(), 125) << other;
    EXPECT_EQ(result.out, "") << "was not started";
    EXPECT_EQ(result.printed.size(), 1u) << result.AllPrinted();
    EXPECT_TRUE(result.Printed("--require-gpu")) << result.AllPrinted();
  }
}

// The records are counted although no profile could be written.
TEST_F(Cuda, RequireGpu_ProfileNotWritten_UsesTheRecords) {
  for (const bool kernels : {false, true}) {
    RunOptions options = On("cuda13");
    TemporaryDirectory elsewhere;
    std::filesystem::create_directories(elsewhere / "spools");
    options.default_logdir = false;
    options.tbprof = {"--logdir=" + (elsewhere / "logs"), "--spool-dir=" + (elsewhere / "spools")};
    // The log directory becomes a file while the command runs.
    const std::string spoil =
        "rm -rf '" + (elsewhere / "logs") + "'; echo > '" + (elsewhere / "logs") + "'" + (kernels ? "; \"$0\" 2" : "");
    const RunResult result = Required({"/bin/sh", "-c", spoil, Subject("train")}, options);
    EXPECT_EQ(result.code(), kernels ? 0 : 3) << result.AllPrinted();
    EXPECT_TRUE(result.Printed("tbprof recover")) << result.AllPrinted();
    EXPECT_EQ(result.Printed("--require-gpu"), !kernels) << result.AllPrinted();
  }
}

// ---- obstacles

struct Obstacle {
  const char* name;
  const char *libraries, *subject, *cupti, *cuda;
  std::vector<std::pair<std::string, std::optional<std::string>>> environment;
  const char *cause, *remedy;
  bool hooks_help = false;
};
void PrintTo(const Obstacle& obstacle, std::ostream* out) { *out << obstacle.name; }

class InTheWay : public Cuda, public testing::WithParamInterface<Obstacle> {};

// The program behaves the same as without tbprof, the rest of the profile is complete, and the terminal and the
// overview page have the cause and the remedy.
TEST_P(InTheWay, EachObstacle_IsReportedAndOnlyTheDeviceIsMissing) {
  const Obstacle& obstacle = GetParam();
  RunOptions options = On(obstacle.libraries, obstacle.cupti, obstacle.cuda);
  for (const auto& entry : obstacle.environment) {
    std::erase_if(options.environment, [&](const auto& other) { return other.first == entry.first; });
    options.environment.push_back(entry);
  }
  Libraries lacking;
  if (std::string_view(obstacle.libraries).empty()) {
    lacking.Add(Sim("cuda13/libcuda.so.1"));
    lacking.Add(Sim("cuda13/libcudart.so.13"));
    std::erase_if(options.environment, [&](const auto& other) { return other.first == "LD_LIBRARY_PATH"; });
    options.environment.emplace_back("LD_LIBRARY_PATH", lacking.path());
    if (!HideToolkit(&options)) GTEST_SKIP() << "a CUPTI in /usr/local/cuda that cannot be hidden";
  }
  for (const bool hooks : {false, true}) {
    options.tbprof = {hooks ? "--cuda=auto" : "--cuda=cupti"};
    const Pair pair = RunBoth({Subject(obstacle.subject)}, options);
    ASSERT_TRUE(pair.Same());
    // The terminal breaks lines.
    std::string printed;
    for (const std::string& line : pair.profiled.printed) {
      const size_t text = line.find_first_not_of(' ');
      if (text != std::string::npos) printed += (printed.empty() ? "" : " ") + line.substr(text);
    }
    const std::string page = PageText(*pair.profiled.profile);
    for (const char* part : {obstacle.cause, obstacle.remedy}) {
      EXPECT_THAT(printed, HasSubstr(part));
      EXPECT_THAT(page, HasSubstr(part));
    }
    if (hooks && obstacle.hooks_help) {
      EXPECT_EQ(DeviceWork(*pair.profiled.profile).kernels, Reported(pair.profiled, "kernels"));
      EXPECT_THAT(page, HasSubstr("device times are approximate"));
    } else {
      EXPECT_EQ(DeviceWork(*pair.profiled.profile).kernels, 0);
    }
    EXPECT_TRUE(pair.profiled.profile->HasPlane("/host:CPU"));
    ASSERT_EQ(pair.profiled.summary["processes"].size(), 1u);
    EXPECT_GT(pair.profiled.summary["processes"][0]["allocator"].value("allocations", 0), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, InTheWay,
    testing::Values(
        Obstacle{"NoDriver",
                 "nodriver",
                 "train",
                 "",
                 "",
                 {},
                 "libcuda.so.1 was not loaded, since there is no driver, another GPU library is missing",
                 "tbprof doctor"},
        Obstacle{"NoDevice", "cuda13", "train", "", "no_device", {}, "no working driver or GPU here", "nvidia-smi"},
        Obstacle{"BrokenDriver", "cuda13", "train", "", "init_fails=803", {}, "CUPTI error 999", "nvidia-smi"},
        Obstacle{"NoneVisible",
                 "cuda13",
                 "devices",
                 "",
                 "",
                 {{"CUDA_VISIBLE_DEVICES", ""}},
                 "no GPU was opened",
                 "CUDA_VISIBLE_DEVICES"},
        Obstacle{
            "NoCupti", "", "train", "", "", {}, "no usable CUPTI was found", "pip install nvidia-cuda-cupti", true},
        Obstacle{"WrongMajor",
                 "cuda13",
                 "driver_linked",
                 "",
                 "",
                 {{"CUDASIM_DRIVER_VERSION", "11040"}},
                 "none newer than the driver's CUDA 11.4",
                 "install CUPTI",
                 true},
        Obstacle{"NewerThanTheDriver",
                 "cuda13",
                 "train",
                 "newer_than_driver",
                 "",
                 {},
                 "CUPTI error 15",
                 "CUPTI is newer than the driver: install",
                 true},
        Obstacle{"Rival",
                 "cuda13",
                 "train",
                 "rival",
                 "",
                 {},
                 "another profiler has this process",
                 "end that profiler",
                 true},
        Obstacle{"Privileges",
                 "cuda13",
                 "train",
                 "privileges",
                 "",
                 {},
                 "only administrators profile",
                 "NVreg_RestrictProfilingToAdminUsers=0",
                 true}),
    [](const auto& entry) { return std::string(entry.param.name); });

// A driver runs programs of an older CUDA, and their CUPTI.
TEST_F(Cuda, OlderCupti_Records) {
  Libraries mixed;
  mixed.Add(Sim("cuda13/libcuda.so.1"));
  mixed.Add(Sim("cuda13/libcudart.so.13"));
  mixed.Add(Sim("cuda12/libcupti.so.12"));
  RunOptions options = On("");
  std::erase_if(options.environment, [](const auto& entry) { return entry.first == "LD_LIBRARY_PATH"; });
  options.environment.emplace_back("LD_LIBRARY_PATH", mixed.path());
  const Pair pair = RunBoth({Subject("train"), "5"}, options);
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(DeviceWork(*pair.profiled.profile).kernels, Reported(pair.profiled, "kernels"));
  EXPECT_THAT(pair.profiled.summary["processes"][0]["gpu"].value("library", ""), testing::EndsWith("/libcupti.so.12"));
}

// Two copies of CUPTI would compete for one slot in the driver: tbprof uses the program's own copy.
TEST_F(Cuda, CuptiOfTheProgram_IsUsed) {
  Libraries home;
  std::filesystem::create_directories(home.path() + "/lib64");
  std::filesystem::copy(Sim("cuda13/libcupti.so.13"), home.path() + "/lib64/libcupti.so.13");
  RunOptions options = On("cuda13");
  options.environment.emplace_back("CUDA_HOME", home.path());
  const Pair pair = RunBoth({Subject("rival_linked"), "1", "1"}, options);
  ASSERT_TRUE(SameOutput(pair.bare, pair.profiled));
  EXPECT_EQ(pair.profiled.summary["processes"][0]["gpu"].value("library", ""), Sim("cuda13/libcupti.so.13"));
}

// While the program records by CUPTI, tbprof does not record, and reports that.
TEST_F(Cuda, ProgramRecordsItself_IsAGap) {
  const Pair pair = RunBoth({Subject("rival_linked"), "1", "200"}, On("cuda13"));
  ASSERT_TRUE(SameOutput(pair.bare, pair.profiled));
  const auto gpu = pair.profiled.summary["processes"][0]["gpu"];
  EXPECT_EQ(gpu.value("state", ""), "recorded_with_gaps") << gpu;
  EXPECT_THAT(PageText(*pair.profiled.profile), HasSubstr("the program uses CUPTI itself"));
  EXPECT_TRUE(pair.profiled.Printed("GPU activity is missing")) << pair.profiled.AllPrinted();
}

// Even a short recording of the program is reported: its kernels are not in the profile.
TEST_F(Cuda, ProgramRecordsShortly_IsAGap) {
  for (int time = 0; time < 5; ++time) {
    RunOptions options = On("cuda13");
    options.environment.emplace_back("RIVAL_WORKS", "20");
    const RunResult run = RunUnderTbprof({Subject("rival_linked"), "1", "1"}, options);
    ASSERT_EQ(run.code(), 0) << run.AllPrinted();
    const auto gpu = run.summary["processes"][0]["gpu"];
    EXPECT_EQ(gpu.value("state", ""), "recorded_with_gaps") << gpu;
    EXPECT_EQ(gpu["gaps"].size(), 1u) << gpu;
    EXPECT_TRUE(run.Printed("GPU activity is missing")) << run.AllPrinted();
  }
}

// The program began to use CUPTI while no window was open, and uses it during the whole window.
TEST_F(Cuda, ProgramRecordsSinceBeforeTheWindow_IsAGap) {
  RunOptions options = On("cuda13");
  options.tbprof = {"--window=500ms+200ms"};
  options.environment.emplace_back("RIVAL_KEEPS", "1500");
  const RunResult run = RunUnderTbprof({Subject("rival_linked"), "1", "1"}, options);
  ASSERT_EQ(run.code(), 0) << run.AllPrinted();
  const auto gpu = run.summary["processes"][0]["gpu"];
  EXPECT_EQ(gpu.value("state", ""), "recorded_with_gaps") << gpu;
  ASSERT_EQ(gpu["gaps"].size(), 1u) << gpu;
  EXPECT_NEAR(gpu["gaps"][0]["end_s"].get<double>() - gpu["gaps"][0]["start_s"].get<double>(), 0.2, 0.1) << gpu;
  EXPECT_TRUE(run.Printed("GPU activity is missing")) << run.AllPrinted();
  EXPECT_FALSE(run.Printed("nothing ran on it in this window")) << run.AllPrinted();
}

TEST_F(Cuda, ProgramRecordedBeforeTheWindow_IsNoGap) {
  RunOptions options = On("cuda13");
  options.tbprof = {"--window=1500ms+200ms"};
  options.environment.emplace_back("RIVAL_KEEPS", "20");
  options.environment.emplace_back("RIVAL_WORKS", "2000");
  const RunResult run = RunUnderTbprof({Subject("rival_linked"), "1", "2"}, options);
  ASSERT_EQ(run.code(), 0) << run.AllPrinted();
  const auto gpu = run.summary["processes"][0]["gpu"];
  EXPECT_EQ(gpu.value("state", ""), "recorded") << gpu;
  EXPECT_GT(gpu.value("records", 0), 0) << gpu;
}

TEST_F(Cuda, Partitions_AreNamed) {
  RunOptions options = On("cuda13", "", "mig");
  for (const char* visible : {"", "MIG-5b1dc0de-7462-5072-8f00-514d00000000"}) {
    if (*visible != '\0') {
      std::erase_if(options.environment, [](const auto& entry) { return entry.first == "CUDA_VISIBLE_DEVICES"; });
      options.environment.emplace_back("CUDA_VISIBLE_DEVICES", visible);
    }
    const Pair pair = RunBoth({Subject("train"), "5"}, options);
    ASSERT_TRUE(pair.Same()) << visible;
    ASSERT_EQ(pair.bare.code(), 0) << visible;
    EXPECT_EQ(DeviceWork(*pair.profiled.profile).kernels, Reported(pair.profiled, "kernels"));
    const auto& gpu = pair.profiled.summary["gpus"][0];
    EXPECT_TRUE(gpu.value("partition", false)) << gpu;
    EXPECT_THAT(gpu.value("name", ""), HasSubstr("MIG"));
  }
}

// The profile has the work that ran before the fault, and the call that returned the fault.
TEST_F(Cuda, Fault_EarlierWorkIsKept) {
  for (const char* fault : {"fault=700,fault_at=7", "fault=719,fault_at=7"}) {
    Pair pair = RunBoth({Subject("train"), "5"}, On("cuda13", "", fault));
    LeaveOutThePlace(&pair);
    ASSERT_TRUE(pair.Same()) << fault;
    EXPECT_EQ(pair.bare.code(), 1);
    EXPECT_GE(DeviceWork(*pair.profiled.profile).kernels, 6) << fault;
    bool failed = false;
    for (const Event& event : pair.profiled.profile->events()) {
      failed = failed || (event.name.starts_with("cuda") && event.Has("error"));
    }
    EXPECT_TRUE(failed) << fault;
  }
}

TEST_F(Cuda, HundredResets_EachKernelIsRecorded) {
  const Pair pair = RunBoth({Subject("resets"), "100"}, On("cuda13"));
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(DeviceWork(*pair.profiled.profile).kernels, 100);
}

TEST_F(Cuda, ForkChild_NeverCallsCupti) {
  const Pair pair = RunBoth({Subject("forks")}, On("cuda13", "fork_hangs"));
  ASSERT_TRUE(pair.Same());
  // Two kernels of the parent, and one of the child that executed another program.
  EXPECT_EQ(DeviceWork(*pair.profiled.profile).kernels, 3);
}

}  // namespace
}  // namespace tbprof::integration
