// SPDX-License-Identifier: Apache-2.0
// The Python functions that use a program's time, by --sample-rate.
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "harness.h"

namespace tbprof::integration {
namespace {

constexpr const char* kProgram = R"(
import math

def heavy(count):
    total = 0.0
    for i in range(count):
        total += math.sqrt(i)
    return total

def light(count):
    return sum(range(count))

def step():
    return heavy(300000) + light(300000)

print(sum(step() for _ in range(80)))
)";

const nlohmann::json* FindFunction(const nlohmann::json& functions, const std::string& name) {
  const auto found = std::find_if(functions.begin(), functions.end(),
                                  [&](const nlohmann::json& function) { return function["function"] == name; });
  return found == functions.end() ? nullptr : &*found;
}

TEST(PythonSamples, ProgramWithHeavyFunction_NamesIt) {
  const std::string python = "/usr/bin/python3";
  if (access(python.c_str(), X_OK) != 0) GTEST_SKIP() << "no " << python;
  const RunResult bare = RunBare({python, "-c", kProgram});
  const RunResult run = RunUnderTbprof({python, "-c", kProgram}, {.tbprof = {"--also=folded,speedscope,flamegraph"}});
  ASSERT_EQ(run.status, 0) << run.AllPrinted();
  EXPECT_EQ(run.out, bare.out);
  const nlohmann::json& sampled = run.summary["python"];
  ASSERT_TRUE(sampled.is_object()) << run.AllPrinted();
  ASSERT_EQ(sampled["processes"][0]["state"], "sampled") << sampled["processes"].dump();
  const nlohmann::json& group = sampled["groups"][0];
  ASSERT_EQ(group["main"], true);
  const nlohmann::json* const heavy = FindFunction(group["top_self"], "heavy");
  const nlohmann::json* const light = FindFunction(group["top_self"], "light");
  ASSERT_NE(heavy, nullptr) << group.dump();
  EXPECT_EQ((*heavy)["first_line"], 4);
  EXPECT_EQ((*heavy)["file"], "<string>");
  // Holds even with few samples on a busy machine: `heavy` does ten times the work.
  if (light != nullptr) EXPECT_GT((*heavy)["self_samples"], (*light)["self_samples"]);
  const nlohmann::json* const step = FindFunction(group["top_total"], "step");
  ASSERT_NE(step, nullptr) << group.dump();
  EXPECT_GE((*step)["total_samples"], (*heavy)["total_samples"]);
  EXPECT_TRUE(run.Printed("heavy")) << run.AllPrinted();
  const nlohmann::json& files = run.summary["files"];
  const auto page = std::find_if(files.begin(), files.end(), [](const nlohmann::json& file) {
    return file["path"].get<std::string>().ends_with(".flamegraph.html");
  });
  ASSERT_NE(page, files.end()) << files.dump();
  EXPECT_TRUE((*page)["verified"].get<std::string>().starts_with("verified: ")) << files.dump();
}

// Two functions take turns 100 times a second, 3 and 7 ms each: in the rhythm of the samples.
constexpr const char* kRhythm = R"(
import time

def short(until):
    while time.monotonic() < until: pass

def long(until):
    while time.monotonic() < until: pass

now = time.monotonic()
for turn in range(400):
    short(now + 0.003)
    long(now + 0.010)
    now += 0.010
)";

// At equal distances, all samples fell into one of the functions.
TEST(PythonSamples, ProgramInTheRhythmOfTheSamples_HasItsShares) {
  const std::string python = "/usr/bin/python3";
  if (access(python.c_str(), X_OK) != 0) GTEST_SKIP() << "no " << python;
  const RunResult run = RunUnderTbprof({python, "-c", kRhythm});
  ASSERT_EQ(run.status, 0) << run.AllPrinted();
  const nlohmann::json& group = run.summary["python"]["groups"][0];
  double samples[2] = {};
  for (const bool is_long : {false, true}) {
    const nlohmann::json* const function = FindFunction(group["top_self"], is_long ? "long" : "short");
    ASSERT_NE(function, nullptr) << group.dump();
    samples[is_long] = (*function)["self_samples"].get<double>();
  }
  EXPECT_NEAR(samples[1] / (samples[0] + samples[1]), 0.7, 0.2) << samples[0] << " and " << samples[1];
}

// Three threads of two names work, the main thread waits.
constexpr const char* kThreads = R"(
import threading

def work():
    total = 0
    for i in range(6000000):
        total += i
    return total

threads = [threading.Thread(target=work, name=name) for name in ("decoder-1", "decoder-2", "writer")]
for thread in threads: thread.start()
for thread in threads: thread.join()
)";

TEST(PythonSamples, NamedThreads_AreGroupedByTheirNames) {
  const std::string python = "/usr/bin/python3";
  if (access(python.c_str(), X_OK) != 0) GTEST_SKIP() << "no " << python;
  const RunResult run = RunUnderTbprof({python, "-c", kThreads}, {.tbprof = {"--sample-rate=100"}});
  ASSERT_EQ(run.status, 0) << run.AllPrinted();
  std::map<std::string, size_t> groups;
  for (const nlohmann::json& group : run.summary["python"]["groups"]) {
    groups[group["threads"]] = group["thread_count"];
    if (group["main"] == true) continue;
    const nlohmann::json& line = group["top_lines"][0];
    EXPECT_EQ(line["function"], "work") << group.dump();
    // The loop, not the line of `def`.
    EXPECT_TRUE(line["line"] == 6 || line["line"] == 7) << group.dump();
  }
  EXPECT_THAT(groups, testing::UnorderedElementsAre(testing::Pair("main", 1u), testing::Pair("decoder", 2u),
                                                    testing::Pair("writer", 1u)));
  const std::vector<std::string> lines = run.profile->LineNames();
  EXPECT_THAT(lines, testing::Contains(testing::StartsWith("decoder-1/")));
  EXPECT_THAT(lines, testing::Contains(testing::StartsWith("writer/")));
}

TEST(PythonSamples, RateOfZero_NothingIsSampled) {
  const std::string python = "/usr/bin/python3";
  if (access(python.c_str(), X_OK) != 0) GTEST_SKIP() << "no " << python;
  const RunResult run = RunUnderTbprof({python, "-c", "import time; time.sleep(0.1)"}, {.tbprof = {"--sample-rate=0"}});
  EXPECT_TRUE(run.summary["python"].is_null()) << run.summary["python"].dump();
}

}  // namespace
}  // namespace tbprof::integration
