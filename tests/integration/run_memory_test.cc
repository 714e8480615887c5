// SPDX-License-Identifier: Apache-2.0
// The causes of memory use, compared with the programs' own ledgers.
#include <gmock/gmock.h>
#include <signal.h>

#include <string>

#include "harness.h"
#include "memory_rows.h"
#include "python_commands.h"

namespace tbprof::integration {
namespace {

using ::testing::HasSubstr;

RunOptions Options(bool exact) {
  RunOptions options;
  if (exact) options.tbprof = {"--malloc=exact"};
  return options;
}

class Memory : public testing::TestWithParam<bool> {};

TEST_P(Memory, PeakAndLiveRows_AreTheLedger) {
  const Pair pair = RunBoth({Program("ledger")}, Options(GetParam()));
  ASSERT_TRUE(pair.Same());
  ExpectLedger(pair.profiled, GetParam());
  EXPECT_TRUE(pair.profiled.Printed("memory: peak ")) << pair.profiled.AllPrinted();
  EXPECT_TRUE(pair.profiled.Printed("% by Large (ledger.c:")) << pair.profiled.AllPrinted();
}

TEST_P(Memory, KilledProgram_HasItsLedger) {
  const RunResult result = RunUnderTbprof({Program("ledger"), "kill"}, Options(GetParam()));
  ASSERT_EQ(result.signal(), SIGKILL) << result.AllPrinted();
  ExpectLedger(result, GetParam());
}

TEST_P(Memory, ForkChild_HasWhatItInherited) {
  const RunResult result = RunUnderTbprof({Program("ledger")}, Options(GetParam()));
  ASSERT_EQ(result.code(), 0) << result.AllPrinted();
  const nlohmann::json& processes = result.summary["memory"]["processes"];
  ASSERT_EQ(processes.size(), 2u) << processes.dump(1);
  // The child's peak is its first level: the parent's memory without half of the large blocks.
  const auto ledger = static_cast<double>(result.Fact("small") + result.Fact("medium") + result.Fact("large") / 2);
  EXPECT_NEAR(processes[1]["peak_bytes"].get<double>(), ledger, ledger * 0.01);
  ExpectAddsUp(processes[1]["live_at_peak"], processes[1]["peak_bytes"].get<int64_t>());
  const nlohmann::json medium = RowOf(processes[1]["live_at_peak"], SiteAt("Medium", "ledger.c", "medium"));
  if (GetParam()) {
    EXPECT_EQ(processes[1]["live_at_peak"].back()["kind"], "earlier") << "the parent's blocks are the parent's";
  } else {
    EXPECT_NEAR(static_cast<double>(BytesOf(medium)), static_cast<double>(result.Fact("medium")),
                static_cast<double>(result.Fact("medium")) * 0.6)
        << "114 samples";
  }
}

// Each step allocates 2 MiB that it frees, and with `leak` 1 MiB that stays.
std::string Steps(bool leak) {
  return "import time\ncache = []\n"
         "def remember():\n"
         "    cache.append(bytearray(1 << 20))\n"
         "def step():\n"
         "    work = [bytearray(4096) for _ in range(512)]\n" +
         std::string(leak ? "    remember()\n" : "") +
         "    time.sleep(0.02)\n"
         "for _ in range(40):\n"
         "    step()\n";
}

TEST_P(Memory, Python_HoldsByLine) {
  const std::string python = "/usr/bin/python3";
  const TemporaryDirectory directory;
  WriteFile(directory / "grows.py", Steps(true));
  const RunResult result = RunUnderTbprof({python, directory / "grows.py"}, Options(GetParam()));
  ASSERT_EQ(result.code(), 0) << result.AllPrinted();
  const nlohmann::json& memory = result.summary["memory"]["processes"][0];
  SCOPED_TRACE(memory.dump(1));
  const nlohmann::json& first = memory["live_at_peak"][0];
  EXPECT_EQ(first["python"], "grows.py:4 remember");
  EXPECT_EQ(first["file"], directory / "grows.py");
  EXPECT_EQ(first["line"], 4);
  EXPECT_EQ(first["function"], "remember");
  // Each block includes the rest of its last page, which malloc also returns. 86 % of the 40 blocks have a sample: six
  // standard deviations are 2.6 blocks for each of them.
  EXPECT_NEAR(first["bytes"].get<double>() / (1 << 20), 40, GetParam() ? 0.2 : 15);
  ASSERT_TRUE(memory["growth"].is_object());
  EXPECT_EQ(memory["growth"]["rows"][0]["python"], "grows.py:4 remember");
  ExpectAddsUp(memory["growth"]["rows"], memory["growth"]["bytes"].get<int64_t>());
}
INSTANTIATE_TEST_SUITE_P(Malloc, Memory, testing::Bool(),
                         [](const auto& info) { return info.param ? "exact" : "sampled"; });

// Each turn is an annotated step, in which memory grows or not.
TEST(MemoryGrowth, Steps_GrowOnlyWhereMemoryStays) {
  for (const bool leak : {false, true}) {
    SCOPED_TRACE(leak);
    const RunResult result = RunUnderTbprof({Program("step_memory"), leak ? "leak" : "stay"});
    ASSERT_EQ(result.code(), 0) << result.AllPrinted();
    const nlohmann::json& memory = result.summary["memory"]["processes"][0];
    SCOPED_TRACE(memory.dump(1));
    ASSERT_TRUE(memory["growth"].is_object());
    EXPECT_GE(memory["growth"]["steps"], 10);
    EXPECT_EQ(memory["grows"], leak);
    EXPECT_EQ(result.Printed("memory: grows by "), leak) << result.AllPrinted();
    if (!leak) continue;
    EXPECT_NEAR(memory["growth"]["bytes_per_step"].get<double>(), 4 << 20, 0.1 * (4 << 20));
    EXPECT_TRUE(result.Printed("by Remember (step_memory.c:")) << result.AllPrinted();
  }
}

// mmap is no allocation of malloc: the kernel's counts show it.
TEST(MemoryGrowth, MappedMemory_GrowsBeyondTheHeap) {
  const RunResult result = RunUnderTbprof({Program("step_memory"), "map"});
  ASSERT_EQ(result.code(), 0) << result.AllPrinted();
  const nlohmann::json& memory = result.summary["memory"]["processes"][0];
  SCOPED_TRACE(memory.dump(1));
  EXPECT_EQ(memory["grows"], false);
  ASSERT_TRUE(memory["resident"].is_object());
  EXPECT_EQ(memory["resident"]["grows"], true);
  EXPECT_NEAR(memory["resident"]["growth"]["bytes_per_step"].get<double>(), 4 << 20, 1 << 20);
  EXPECT_TRUE(result.Printed("memory: resident memory grows by ")) << result.AllPrinted();
  EXPECT_TRUE(result.Printed("memory: beyond the heap: mmap")) << result.AllPrinted();
}

}  // namespace
}  // namespace tbprof::integration
