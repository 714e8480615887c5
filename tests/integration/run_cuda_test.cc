// SPDX-License-Identifier: Apache-2.0
// CUDA programs of every kind on the simulator (tests/sim): what they do, and that they do the same without us.
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "harness.h"

namespace tbprof::integration {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

std::string Sim(std::string_view what) { return std::string(TBPROF_BUILD_DIR) + "/tests/sim/" + std::string(what); }
std::string Subject(std::string_view name) { return Sim("subjects/" + std::string(name)); }

RunOptions On(const std::string& libraries, const std::string& modes = "", const std::string& cuda = "") {
  RunOptions options;
  options.environment = {{"LD_LIBRARY_PATH", Sim(libraries)},
                         {"CUDA_VISIBLE_DEVICES", std::nullopt},
                         {"CUDA_INJECTION64_PATH", std::nullopt}};
  if (!modes.empty()) options.environment.push_back({"CUDASIM_CUPTI", modes});
  if (!cuda.empty()) options.environment.push_back({"CUDASIM_CUDA", cuda});
  return options;
}

// `name=number` lines, as subjects print them.
int64_t Told(const RunResult& result, const std::string& name) {
  for (const std::string& line : Lines(result.out)) {
    if (line.starts_with(name + "=")) return std::stoll(line.substr(name.size() + 1));
  }
  ADD_FAILURE() << "no " << name << " in: " << result.out;
  return -1;
}

struct OnDevice {
  int64_t kernels = 0, kernel_ps = 0, to_device = 0, from_device = 0, sets = 0;
  std::set<std::string> correlations;
};

OnDevice DeviceWork(const Profile& profile) {
  OnDevice work;
  for (const Event& event : profile.events()) {
    if (event.plane.find("/device:GPU:") == std::string::npos || !event.Has("correlation_id")) continue;
    if (event.Has("kernel_details")) {
      ++work.kernels;
      work.kernel_ps += event.duration_ps;
      work.correlations.insert(event.Stat("correlation_id"));
    }
    if (event.name.starts_with("MemcpyHToD")) ++work.to_device;
    if (event.name.starts_with("MemcpyDToH")) ++work.from_device;
    if (event.name.starts_with("Memset")) ++work.sets;
  }
  return work;
}

class Cuda : public testing::Test {
 protected:
  void SetUp() override {
    if (access(Subject("train").c_str(), X_OK) != 0) GTEST_SKIP() << "no CUDA headers or nvcc: no simulator";
  }
};

TEST_F(Cuda, ATrainingIsThereKernelByKernel) {
  const Pair pair = RunBoth({Subject("train"), "40"}, On("cuda13"));
  ASSERT_TRUE(pair.Same());
  const OnDevice work = DeviceWork(*pair.profiled.profile);
  EXPECT_EQ(work.kernels, Told(pair.profiled, "kernels"));
  // Two clocks: to the nanosecond for each.
  EXPECT_NEAR(static_cast<double>(work.kernel_ps), static_cast<double>(Told(pair.profiled, "kernel_ns")) * 1000,
              1000.0 * static_cast<double>(work.kernels));
  EXPECT_EQ(work.to_device, Told(pair.profiled, "copies_to_device"));
  EXPECT_EQ(work.from_device, Told(pair.profiled, "copies_from_device"));
  EXPECT_EQ(work.sets, Told(pair.profiled, "sets"));
  EXPECT_EQ(static_cast<int64_t>(work.correlations.size()), work.kernels);
  EXPECT_TRUE(pair.profiled.profile->HasPlane("/device:GPU:0"));
  // The launch is on the thread that made it, and leads to its kernel.
  std::set<std::string> launches;
  for (const Event& event : pair.profiled.profile->events()) {
    if (event.plane == "/host:CPU" && event.Has("correlation_id")) launches.insert(event.Stat("correlation_id"));
  }
  for (const std::string& correlation : work.correlations) EXPECT_TRUE(launches.contains(correlation)) << correlation;
  EXPECT_FALSE(pair.profiled.profile->Named("cudaLaunchKernel").empty());
}

TEST_F(Cuda, EveryRouteToTheDriverIsSeen) {
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

TEST_F(Cuda, ThePythonWay) {
  const Pair pair = RunBoth(
      {"/usr/bin/python3", std::string(TBPROF_SOURCE_DIR) + "/tests/sim/subjects/ctypes_driver.py"}, On("cuda13"));
  ASSERT_TRUE(pair.Same());
  EXPECT_GT(DeviceWork(*pair.profiled.profile).kernels, 0);
}

// torch.profiler tries once, and JAX ends if it fails.
TEST_F(Cuda, AProgramThatUsesCuptiItselfGetsIt) {
  for (const char* subject : {"rival_linked", "rival_opened"}) {
    for (const char* version : {"1", "2"}) {
      const Pair pair = RunBoth({Subject(subject), version, "2"}, On("cuda13"));
      ASSERT_TRUE(SameOutput(pair.bare, pair.profiled)) << subject << " " << version;
      EXPECT_EQ(pair.profiled.code(), 0);
    }
  }
}

// Whatever CUPTI answers, the program does not notice.
TEST_F(Cuda, NothingThatCuptiDoesReachesTheProgram) {
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

TEST_F(Cuda, NoDriverNoDeviceAndABrokenOne) {
  struct Case {
    const char* libraries;
    const char* cuda;
  };
  for (const Case& one : {Case{"nodriver", ""}, Case{"cuda13", "no_device"}, Case{"cuda13", "init_fails=802"},
                          Case{"cuda13", "fault=700,fault_at=3"}, Case{"cuda13", "fault=719"}}) {
    const Pair pair = RunBoth({Subject("train"), "5"}, On(one.libraries, "", one.cuda));
    ASSERT_TRUE(pair.Same()) << one.libraries << " " << one.cuda;
  }
}

TEST_F(Cuda, ForksAndRanks) {
  for (const char* subject : {"forks", "ranks", "devices", "graphs", "streams", "copies", "faults"}) {
    RunOptions options = On("cuda13");
    options.environment.push_back({"CUDASIM_GPUS", "4"});
    Pair pair = RunBoth({Subject(subject)}, options);
    ASSERT_NE(pair.profiled.profile, nullptr) << subject;
    // Ranks print in the order in which they end.
    for (RunResult* result : {&pair.bare, &pair.profiled}) {
      std::vector<std::string> lines = Lines(result->out);
      std::sort(lines.begin(), lines.end());
      result->out.clear();
      for (const std::string& line : lines) result->out += line + "\n";
    }
    ASSERT_TRUE(SameOutput(pair.bare, pair.profiled)) << subject;
  }
}

// CUDA_INJECTION64_PATH names one library: whoever was there first is served.
TEST_F(Cuda, AnInjectionOfTheUsersIsKept) {
  RunOptions options = On("cuda13");
  std::erase_if(options.environment, [](const auto& entry) { return entry.first == "CUDA_INJECTION64_PATH"; });
  options.environment.push_back({"CUDA_INJECTION64_PATH", Sim("libsim_collector.so")});
  const Pair pair = RunBoth({Subject("train"), "5"}, options);
  EXPECT_EQ(pair.bare.code(), pair.profiled.code());
}

// Not before the driver is asked for, in a process that is ready for it.
TEST_F(Cuda, AProcessWithoutCudaHasNeitherLibraryNorThread) {
  constexpr char kScript[] = R"(
import ctypes, os
def show(name):
    with open('/proc/self/maps') as maps: print(name + '_loaded=%d' % ('libtbprof_cupti' in maps.read()))
    print(name + '_threads=%d' % len(os.listdir('/proc/self/task')))
show('before')
ctypes.CDLL('libcuda.so.1').cuInit(0)
show('after'))";
  const RunResult result = RunUnderTbprof({"/usr/bin/python3", "-c", kScript}, On("cuda13"));
  ASSERT_EQ(result.code(), 0) << result.AllSaid();
  EXPECT_EQ(Told(result, "before_loaded"), 0);
  EXPECT_EQ(Told(result, "before_threads"), 1);
  EXPECT_EQ(Told(result, "after_loaded"), 1);
  EXPECT_GT(Told(result, "after_threads"), 1);
}

TEST_F(Cuda, OffIsOff) {
  RunOptions options = On("cuda13");
  options.tbprof = {"--cuda=off"};
  const Pair pair = RunBoth({Subject("train"), "5"}, options);
  ASSERT_TRUE(pair.Same());
  EXPECT_FALSE(pair.profiled.profile->HasPlane("/device:GPU:0"));
}

// Of the only GPU: kernels and copies by name, and calls of the runtime.
std::map<std::string, std::vector<uint64_t>> Totals(const std::string& run_directory) {
  std::map<std::string, std::vector<uint64_t>> totals;
  const auto summary = nlohmann::json::parse(ReadFile(run_directory + "/summary.json"), nullptr, false);
  const auto nanoseconds = [](const nlohmann::json& seconds) {
    return static_cast<uint64_t>(std::llround(seconds.get<double>() * 1e9));
  };
  for (const auto& gpu : summary["gpus"]) {
    totals["kernels"] = {gpu["kernels"], nanoseconds(gpu["kernel_s"])};
    totals["waits"] = {gpu["waits"]};
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

// What the spool could not hold counts: the totals are those of the whole run, with or without its records.
TEST_F(Cuda, TotalsDoNotDependOnTheSpoolsLimit) {
  const std::vector<std::string> command = {Subject("train"), "4000", "20000"};
  const RunResult whole = RunUnderTbprof(command, On("cuda13"));
  ASSERT_EQ(whole.run_directories.size(), 1u) << whole.AllSaid();
  RunOptions options = On("cuda13");
  options.tbprof = {"--spool-limit=4MiB", "--window=last=300ms"};
  const RunResult limited = RunUnderTbprof(command, options);
  ASSERT_EQ(limited.run_directories.size(), 1u) << limited.AllSaid();
  const auto expected = Totals(whole.run_directories[0]), found = Totals(limited.run_directories[0]);
  ASSERT_EQ(expected.at("kernels")[0], static_cast<uint64_t>(Told(whole, "kernels")));
  ASSERT_EQ(expected.at("MemcpyHToD")[1], static_cast<uint64_t>(Told(whole, "bytes_to_device")));
  EXPECT_EQ(expected.at("cudaStreamSynchronize")[0], 4000u);
  EXPECT_TRUE(limited.Said("in the whole run")) << limited.AllSaid();
  // Or this shows nothing.
  EXPECT_THAT(ReadFile(limited.run_directories[0] + "/summary.json"), HasSubstr("dropped parts of the spool"));
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, numbers] : expected) {
    ASSERT_TRUE(found.contains(name)) << name;
    const std::vector<uint64_t>& others = found.at(name);
    EXPECT_EQ(others[0], numbers[0]) << name;
    if (name.starts_with("Memcpy") || name == "Memset") EXPECT_EQ(others[1], numbers[1]) << name;
    if (name.find("for_nanoseconds") == std::string::npos) continue;
    // Two clocks: to the nanosecond for each.
    EXPECT_NEAR(static_cast<double>(others[1]), static_cast<double>(numbers[1]), static_cast<double>(numbers[0]))
        << name;
  }
}

// What CUPTI has not handed over dies with the process, and the profile says from when on. The program tells what was
// over and when; the shorter its kernels, the sooner a buffer is full, and the device is never idle when one is
// flushed.
TEST_F(Cuda, AKillLosesNoMoreThanTheProfileSays) {
  for (int i = 0; i < 20; ++i) {
    const int64_t kernel_ns = i % 2 == 0 ? 100'000 : 3'000'000;
    auto running = StartUnderTbprof(
        {"/bin/sh", "-c",
         "echo $$ > pid; exec '" + Subject("train") + "' 1000000 " + std::to_string(kernel_ns) + " told"},
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
    ASSERT_EQ(result.run_directories.size(), 1u) << result.AllSaid();
    const auto summary = nlohmann::json::parse(ReadFile(result.run_directories[0] + "/summary.json"), nullptr, false);
    const auto& gpu = summary["gpus"][0];
    ASSERT_TRUE(gpu.is_object()) << "nothing at all of " << over.back().first << " kernels: " << result.AllSaid();
    const int64_t recorded = gpu["kernels"].get<int64_t>() - gpu["unfinished"].get<int64_t>();
    double lost_s = -1;
    for (const auto& process : summary["processes"]) {
      if (!process["gpu"].is_object()) continue;
      const auto& said = process["gpu"]["lost_at_end_s"];
      if (said.is_number()) lost_s = said;
    }
    ASSERT_GE(lost_s, 0) << "not a word";
    EXPECT_TRUE(result.Said("after the last GPU record")) << result.AllSaid();
    // It ended after it told for the last time.
    const int64_t until = over.back().second - static_cast<int64_t>(lost_s * 1e9);
    int64_t before = 0;
    for (const auto& [count, at] : over) {
      if (at <= until) before = count;
    }
    EXPECT_GE(recorded, before) << "of " << over.back().first << ", " << lost_s << " s before the end";
    EXPECT_LE(recorded, over.back().first + 6) << "more than there can have been";
  }
}

}  // namespace
}  // namespace tbprof::integration
