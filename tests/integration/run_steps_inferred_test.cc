// SPDX-License-Identifier: Apache-2.0
// Steps of a program without markers, inferred from the calls of all its threads.
#include <gmock/gmock.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "harness.h"

namespace tbprof::integration {
namespace {

std::vector<int64_t> Begins(const RunResult& result) {
  std::vector<int64_t> begins;
  for (const std::string& line : Lines(result.facts_text)) {
    if (line.starts_with("begin ")) begins.push_back(std::stoll(line.substr(6)));
  }
  return begins;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

TEST(InferredSteps, TeamWithBarriers_StepsAreFound) {
  const RunResult result = RunUnderTbprof({Program("team"), "80", "20"});
  const std::vector<int64_t> begins = Begins(result);
  ASSERT_EQ(begins.size(), 81u);
  const auto& steps = result.summary["steps"];
  EXPECT_EQ(steps["source"], "calls of all threads") << result.AllPrinted();
  EXPECT_LE(steps["confidence"].get<double>(), 0.65);
  ASSERT_NE(result.profile, nullptr);
  std::vector<double> found, own;
  for (const Event& event : result.profile->events()) {
    if (event.line == "steps" && event.name == "step") found.push_back(event.milliseconds());
  }
  for (size_t i = 1; i < begins.size(); ++i) own.push_back(static_cast<double>(begins[i] - begins[i - 1]) / 1e6);
  // Some steps that a busy machine delays are irregular.
  EXPECT_GE(found.size(), 40u);
  EXPECT_LE(found.size(), 84u);
  EXPECT_NEAR(Median(found), Median(own), 0.25 * Median(own));
}

TEST(InferredSteps, ThreadsWithoutBarriers_HaveNone) {
  const RunResult result = RunUnderTbprof({Program("team"), "60", "20", "alone"});
  EXPECT_EQ(result.summary["steps"]["source"], "synthetic") << result.AllPrinted();
}

TEST(InferredSteps, ProgramThatStartsOthers_HasNone) {
  const RunResult result = RunUnderTbprof({"/usr/bin/python3", "-c",
                                           "import subprocess, time\n"
                                           "for _ in range(25):\n"
                                           "    subprocess.run(['/bin/true'])\n"
                                           "    time.sleep(0.06)\n"});
  const auto& steps = result.summary["steps"];
  EXPECT_EQ(steps["known"], false) << result.AllPrinted();
  EXPECT_TRUE(steps["count"].is_null());
  EXPECT_FALSE(steps["unknown_because"].get<std::string>().empty());
  EXPECT_TRUE(result.Printed("steps unknown: ")) << result.AllPrinted();
  ASSERT_NE(result.profile, nullptr);
  EXPECT_TRUE(result.profile->HasWarning("steps unknown: "));
  size_t markers = 0;
  for (const Event& event : result.profile->events()) {
    if (event.line != "steps" || !event.Has("graph_type")) continue;
    ++markers;
    EXPECT_THAT(event.Stat("graph_type"), testing::HasSubstr("unknown"));
  }
  EXPECT_EQ(markers, 1u);
}

}  // namespace
}  // namespace tbprof::integration
