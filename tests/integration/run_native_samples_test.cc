// SPDX-License-Identifier: Apache-2.0
// The functions that use a program's CPU time, by --sample-rate. If the kernel refuses perf events, tests check that
// this is reported.
#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "harness.h"

namespace tbprof::integration {
namespace {

using ::testing::HasSubstr;

const nlohmann::json* FindFunction(const nlohmann::json& functions, const std::string& name) {
  const auto found = std::find_if(functions.begin(), functions.end(),
                                  [&](const nlohmann::json& function) { return function["function"] == name; });
  return found == functions.end() ? nullptr : &*found;
}

uint64_t SelfSamples(const nlohmann::json& native, const std::string& name) {
  const nlohmann::json* const function = FindFunction(native["top_self"], name);
  return function == nullptr ? 0 : (*function)["self_samples"].get<uint64_t>();
}

RunResult Sampled(const std::vector<std::string>& arguments, int status = 0) {
  std::vector<std::string> command = {Program("burns")};
  command.insert(command.end(), arguments.begin(), arguments.end());
  RunResult run =
      RunUnderTbprof(command, {.tbprof = {"--sample-rate=200", "--also=perfetto,folded,speedscope,flamegraph"}});
  EXPECT_EQ(run.status, status) << run.AllPrinted();
  EXPECT_TRUE(run.summary["native"].is_object()) << run.AllPrinted();
  return run;
}

// False: the kernel refuses, and the run reports it. The rest of a test is skipped then.
bool IsPermitted(const RunResult& run) {
  const nlohmann::json& process = run.summary["native"]["processes"][0];
  if (process["state"] == "sampled") return true;
  EXPECT_THAT(process["reason"].get<std::string>(), HasSubstr("Native stacks: not sampled"));
  EXPECT_EQ(run.summary["native"]["samples"], 0);
  if (process["state"] == "refused") EXPECT_TRUE(run.Printed("Native stacks: not sampled")) << run.AllPrinted();
  return false;
}

// The share of CPU time in Heavy: three quarters, within five standard deviations of so many samples.
void ExpectShares(const nlohmann::json& native) {
  const auto heavy = static_cast<double>(SelfSamples(native, "Heavy"));
  const auto light = static_cast<double>(SelfSamples(native, "Light"));
  const double samples = heavy + light;
  ASSERT_GE(samples, 20) << native.dump();
  const double deviation = std::sqrt(0.75 * 0.25 / samples);
  EXPECT_NEAR(heavy / samples, 0.75, 5 * deviation) << samples << " samples";
}

TEST(NativeSamples, TwoFunctionsOfKnownShares_HaveThem) {
  const RunResult run = Sampled({"plain", "1500"});
  EXPECT_EQ(run.out, "done\n");
  if (!IsPermitted(run)) return;
  const nlohmann::json& native = run.summary["native"];
  ExpectShares(native);
  const nlohmann::json* const both = FindFunction(native["top_total"], "BurnBoth");
  ASSERT_NE(both, nullptr) << native.dump();
  EXPECT_GE((*both)["total_samples"].get<uint64_t>(), SelfSamples(native, "Heavy") + SelfSamples(native, "Light"));
  EXPECT_EQ((*both)["module"], "burns");
  // Nearly all stacks are complete: they begin at the program's start.
  EXPECT_LE(native["processes"][0]["cut"].get<double>(), 0.05 * native["samples"].get<double>()) << native.dump();
  EXPECT_TRUE(run.Printed("Heavy")) << run.AllPrinted();
  const std::vector<std::string> lines = run.profile->LineNames();
  EXPECT_EQ(
      std::count_if(lines.begin(), lines.end(), [](const std::string& line) { return line.starts_with("native: "); }),
      1);
  EXPECT_GT(run.profile->Count("Heavy [burns]"), 0);
  EXPECT_TRUE(run.Printed(".flamegraph.html")) << run.AllPrinted();
}

// Tests are built with debug information, which tells what was inlined.
TEST(NativeSamples, InlinedFunction_IsAFrameBelowItsCaller) {
  const RunResult run = Sampled({"inlined", "600"});
  if (!IsPermitted(run)) return;
  const nlohmann::json& native = run.summary["native"];
  EXPECT_GT(SelfSamples(native, "Inlined"), 0.9 * native["samples"].get<double>()) << native.dump();
  const nlohmann::json* const caller = FindFunction(native["top_total"], "BurnInlined");
  ASSERT_NE(caller, nullptr) << native.dump();
  EXPECT_GE((*caller)["total_samples"].get<uint64_t>(), SelfSamples(native, "Inlined"));
  const auto& where = run.summary["verdict"]["where"];
  ASSERT_FALSE(where.empty()) << run.AllPrinted();
  EXPECT_EQ(where[0]["function"], "Inlined");
  EXPECT_TRUE(where[0]["file"].get<std::string>().ends_with("burns.c")) << where[0].dump();
  EXPECT_GT(run.profile->Count("Inlined [burns]"), 0);
}

// At equal distances, all samples fell into one of the functions: at 200 samples a second, the same moment of each
// turn.
TEST(NativeSamples, ProgramInTheRhythmOfTheSamples_HasItsShares) {
  const RunResult run = Sampled({"rhythm", "2500"});
  if (!IsPermitted(run)) return;
  const nlohmann::json& native = run.summary["native"];
  const auto heavy = static_cast<double>(SelfSamples(native, "Heavy"));
  const auto light = static_cast<double>(SelfSamples(native, "Light"));
  ASSERT_GE(heavy + light, 20) << native.dump();
  EXPECT_NEAR(heavy / (heavy + light), 0.75, 0.2) << heavy + light << " samples";
}

TEST(NativeSamples, ThreadMadeLater_IsSampledOnItsOwnLine) {
  const RunResult run = Sampled({"thread", "1000"});
  if (!IsPermitted(run)) return;
  EXPECT_GE(SelfSamples(run.summary["native"], "Work"), 20u) << run.summary["native"].dump();
  const std::vector<Event> events = run.profile->Named("BurnInThread [burns]");
  ASSERT_FALSE(events.empty());
  for (const Event& event : events) EXPECT_TRUE(event.line.starts_with("native: burner/")) << event.line;
}

TEST(NativeSamples, ForkChild_IsSampledAsAProcessOfItsOwn) {
  const RunResult run = Sampled({"fork", "1000"});
  if (!IsPermitted(run)) return;
  const nlohmann::json& native = run.summary["native"];
  ASSERT_EQ(native["process_count"], 2) << native.dump();
  EXPECT_GE(SelfSamples(native, "Work"), 20u) << native.dump();
  ExpectShares(native);
  const std::string child = "/" + std::to_string(run.Fact("child"));
  for (const Event& event : run.profile->Named("BurnInThread [burns]")) {
    EXPECT_THAT(event.line, HasSubstr(child));
  }
}

TEST(NativeSamples, ProgramThatExecs_IsSampledBeforeAndAfter) {
  const RunResult run = Sampled({"exec", "1000"});
  if (!IsPermitted(run)) return;
  const nlohmann::json& native = run.summary["native"];
  EXPECT_GE(SelfSamples(native, "Work"), 20u) << native.dump();
  ExpectShares(native);
}

TEST(NativeSamples, KilledProgram_KeepsItsSamples) {
  const RunResult run = Sampled({"kill", "1000"}, SIGKILL);
  if (!IsPermitted(run)) return;
  ExpectShares(run.summary["native"]);
}

TEST(NativeSamples, ProgramThatEndsAtOnce_IsNotTakenUp) {
  const RunResult run = RunUnderTbprof({Program("burns"), "short"}, {.tbprof = {"--sample-rate=200"}});
  EXPECT_EQ(run.status, 0) << run.AllPrinted();
  EXPECT_EQ(run.out, "done\n");
  EXPECT_EQ(run.AllPrinted().find("Native stacks"), std::string::npos) << run.AllPrinted();
}

// Like a container without the capability: the refusal is reported once, and everything else is recorded.
TEST(NativeSamples, KernelThatRefuses_IsReportedOnce) {
  RunOptions options = {.tbprof = {"--sample-rate=100"}};
  options.launcher = {Program("seccomp_filter"), "perf"};
  const RunResult run = RunUnderTbprof({Program("burns"), "fork", "100"}, options);
  if (run.code() == 77) GTEST_SKIP() << "no seccomp here";
  EXPECT_EQ(run.status, 0) << run.AllPrinted();
  EXPECT_EQ(run.out, "done\n");
  const nlohmann::json& native = run.summary["native"];
  ASSERT_EQ(native["process_count"], 2) << native.dump();
  EXPECT_EQ(native["samples"], 0);
  for (const nlohmann::json& process : native["processes"]) EXPECT_EQ(process["state"], "refused") << process.dump();
  const std::string printed = run.AllPrinted();
  const size_t first = printed.find("Native stacks: not sampled, ");
  ASSERT_NE(first, std::string::npos) << printed;
  EXPECT_EQ(printed.find("Native stacks", first + 1), std::string::npos) << printed;
  EXPECT_GE(run.profile->Count("waitpid"), 0);
}

TEST(NativeSamples, RateOfZero_NothingIsSampled) {
  const RunResult run = RunUnderTbprof({Program("burns"), "fork", "100"}, {.tbprof = {"--sample-rate=0"}});
  EXPECT_TRUE(run.summary["native"].is_null()) << run.summary["native"].dump();
}

}  // namespace
}  // namespace tbprof::integration
