// SPDX-License-Identifier: Apache-2.0
// The Python lines that wait or allocate, from a program to the user's output.
#include <gmock/gmock.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "harness.h"

namespace tbprof::integration {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr double kMiB = 1 << 20;
constexpr char kLeak[] = "leak.py:42 remember";
constexpr char kPause[] = "leak.py:48 main";

std::string Python() {
  for (const char* path : {"/root/.pyenv/versions/3.11.7/bin/python3.11", "/usr/bin/python3.11"}) {
    if (access(path, X_OK) == 0) return path;
  }
  return "";
}

// Line 42 allocates 200 blocks of 1 MiB that stay; line 48 waits 2 ms after each.
std::string Leak() {
  return "import os, time\nkept = []\n" + std::string(38, '\n') +
         "def remember(n):\n"
         "    kept.append(bytearray(n))\n"
         "\n"
         "\n"
         "def main():\n"
         "    for _ in range(200):\n"
         "        remember(1 << 20)\n"
         "        time.sleep(0.002)\n"
         "\n"
         "\n";
}

RunResult RunLeak(const std::string& end, std::vector<std::string> options = {"--sample-rate=100"}) {
  static const TemporaryDirectory directory;
  const std::string script = directory / "leak.py";
  WriteFile(script, Leak() + end);
  RunOptions run;
  run.tbprof = std::move(options);
  return RunUnderTbprof({Python(), script}, run);
}

nlohmann::json LineIn(const nlohmann::json& lines, const std::string& python) {
  for (const nlohmann::json& line : lines) {
    if (line["python"] == python) return line;
  }
  ADD_FAILURE() << python << " is not in " << lines.dump(1);
  return nullptr;
}

// time.sleep waits until a point in time: a late thread may wait for less time than is recorded with a line.
void ExpectMostPauses(const nlohmann::json& line) {
  EXPECT_GE(line["calls"], 100);
  EXPECT_LE(line["calls"], 200);
  EXPECT_GE(line["total_s"].get<double>(), 0.1);
}

class PythonLines : public testing::Test {
 protected:
  void SetUp() override {
    if (Python().empty()) GTEST_SKIP() << "no CPython 3.11";
  }
};

TEST_F(PythonLines, LeakAndPauses_AreNamedByTheirLines) {
  const RunResult result = RunLeak("main()\n");
  ASSERT_EQ(result.status, 0) << result.AllPrinted();
  EXPECT_TRUE(result.Printed(std::string(kLeak) + ", via ")) << result.AllPrinted();
  EXPECT_TRUE(result.Printed(std::string("in ") + kPause + ", via ")) << result.AllPrinted();
  // One sample per 512 KiB: five standard deviations of 200 MiB are 50 MiB.
  const nlohmann::json leak = LineIn(result.summary["allocations_by_python_line"], kLeak);
  EXPECT_NEAR(leak["bytes_estimate"].get<double>() / kMiB, 200, 50);
  EXPECT_EQ(result.summary["allocations_by_python_line"][0]["python"], kLeak);
  const nlohmann::json pause = LineIn(result.summary["waits_by_python_line"], kPause);
  ExpectMostPauses(pause);
  int large = 0, pauses = 0;
  for (const Event& event : result.profile->events()) {
    if (event.Stat("python") == kPause && event.Has("call_site")) {
      EXPECT_EQ(event.Stat("python stack"), std::string(kPause) + " < leak.py:51 <module>");
      ++pauses;
    }
    if (event.Stat("python") != kLeak) continue;
    EXPECT_EQ(event.Stat("python stack"), std::string(kLeak) + " < leak.py:47 main < leak.py:51 <module>");
    if (event.Number("bytes") > 1 << 20) ++large;
  }
  EXPECT_EQ(pauses, pause["calls"]);
  EXPECT_EQ(large, 200);
}

// A child has its parent's functions without recording them again.
TEST_F(PythonLines, ForkChild_HasItsParentsLines) {
  const RunResult result = RunLeak("time.sleep(0.01)\nif os.fork() == 0:\n    main()\n    os._exit(0)\nos.wait()\n");
  ASSERT_EQ(result.status, 0) << result.AllPrinted();
  ExpectMostPauses(LineIn(result.summary["waits_by_python_line"], kPause));
  LineIn(result.summary["waits_by_python_line"], "leak.py:55 <module>");
  LineIn(result.summary["allocations_by_python_line"], kLeak);
  EXPECT_THAT(result.summary["notes"], testing::Not(Contains(HasSubstr("Python lines"))));
}

TEST_F(PythonLines, ExactBlocks_AreHeldByTheirLinesAtThePeak) {
  const RunResult result = RunLeak("main()\n", {"--sample-rate=100", "--malloc=exact"});
  ASSERT_EQ(result.status, 0) << result.AllPrinted();
  const nlohmann::json heap = result.summary["processes"][0]["exact_heap"];
  ASSERT_TRUE(heap["complete"].get<bool>());
  const nlohmann::json leak = LineIn(heap["python_lines"], kLeak);
  EXPECT_GE(leak["peak_bytes"].get<double>(), 200 * kMiB);
  EXPECT_LE(leak["peak_bytes"].get<double>(), 201 * kMiB);
  EXPECT_GE(leak["calls"], 200);
  EXPECT_LE(leak["calls"], 200 + 30);  // and those of the list itself
  // TensorBoard's table of the peak adds up to the peak.
  double all = 0;
  bool named = false;
  for (const Event& event : result.profile->events()) {
    if (event.line != "memory" || !event.Has("addr")) continue;
    all += static_cast<double>(event.Number("allocation_bytes"));
    named |= event.Stat("tf_op") == kLeak && event.Number("allocation_bytes") == leak["peak_bytes"];
  }
  EXPECT_TRUE(named);
  EXPECT_EQ(all, heap["peak_bytes"].get<double>());
}

TEST_F(PythonLines, WithoutSampling_AreNotRecorded) {
  const RunResult result = RunLeak("main()\n", {"--sample-rate=0"});
  ASSERT_EQ(result.status, 0) << result.AllPrinted();
  EXPECT_TRUE(result.summary["waits_by_python_line"].empty());
  EXPECT_TRUE(result.summary["allocations_by_python_line"].empty());
  EXPECT_TRUE(result.summary["allocation_sites"][0].at("python").is_null());
}

}  // namespace
}  // namespace tbprof::integration
