// SPDX-License-Identifier: Apache-2.0
// What a scheduler does: SIGTERM to everything, SIGKILL to everything one second later. What was recorded before the
// SIGTERM is in the spool by then.
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "../integration/harness.h"

namespace tbprof::integration {
namespace {

using Clock = std::chrono::steady_clock;

std::string SpoolIn(const std::string& logdir) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(logdir + "/.tbprof", error)) {
    if (entry.path().extension() == ".spool") return entry.path();
  }
  return "";
}

// Of the main file and its parts.
uint64_t BytesOf(const std::string& spool) {
  std::error_code error;
  uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(spool).parent_path(), error)) {
    const uint64_t size = entry.file_size(error);
    if (!error) bytes += size;
  }
  return bytes;
}

struct Killed {
  RunResult result;
  int64_t grown_ms = 0;  // after SIGTERM, until the spool grew no more
};

// The whole group, launcher, worker and target: SIGTERM, and a second later SIGKILL.
Killed EndGroup(Running* running) {
  const std::string spool = SpoolIn(running->logdir());
  EXPECT_NE(spool, "");
  const auto start = Clock::now();
  kill(-running->pid(), SIGTERM);
  Killed killed;
  for (uint64_t bytes = 0; Clock::now() - start < std::chrono::seconds(1);) {
    if (const uint64_t seen = BytesOf(spool); seen != bytes) {
      bytes = seen;
      killed.grown_ms = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start).count();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  kill(-running->pid(), SIGKILL);
  killed.result = running->Wait();
  return killed;
}

// The reads and writes that `tbprof recover` finds, and the drops that it reports.
std::pair<int64_t, int64_t> Recover(const RunResult& killed) {
  RunOptions options;
  options.timeout_s = 240;
  RunResult recovered = RunTbprof({"recover", "--logdir=" + killed.logdir}, options);
  EXPECT_EQ(recovered.code(), 0) << recovered.AllPrinted();
  int64_t found = 0, dropped = 0;
  for (const auto& run : std::filesystem::directory_iterator(killed.logdir + "/plugins/profile")) {
    const auto summary = nlohmann::json::parse(ReadFile(run.path() / "summary.json"), nullptr, false);
    if (!summary.is_object()) continue;
    for (const auto& operation : summary["processes"][0]["operations"]) {
      if (operation["operation"] == "read" || operation["operation"] == "write") {
        found += operation["recorded"].get<int64_t>();
      }
    }
    for (const auto& [cause, count] : summary["records"]["dropped"].items()) dropped += count.get<int64_t>();
    EXPECT_EQ(summary["records"]["corrupt"], 0);
  }
  return {found, dropped};
}

RunOptions Options() {
  RunOptions options;
  // Room for all of it: what the launcher has not drained by the SIGTERM is the question here, not what was dropped.
  options.tbprof = {"--wait-threshold=0", "--buffer-size=1GiB"};
  options.timeout_s = 240;
  return options;
}

TEST(KillGroup, TenMillionRecordsOfALiveTarget_AreRecovered) {
  const auto running = StartUnderTbprof({Program("records_until_sigterm"), "10000000"}, Options());
  ASSERT_TRUE(running->WaitForFact("ready 1\n", 200)) << running->Err();
  const Killed killed = EndGroup(running.get());
  EXPECT_EQ(killed.result.signal(), SIGKILL);
  const auto made = static_cast<int64_t>(killed.result.Fact("made"));
  ASSERT_GE(made, 10'000'000);
  EXPECT_TRUE(killed.result.run_directories.empty());
  const auto [found, dropped] = Recover(killed.result);
  printf("%ld records at SIGTERM, %ld recovered, %ld dropped; the spool grew until %ld ms after SIGTERM\n", made, found,
         dropped, killed.grown_ms);
  EXPECT_EQ(dropped, 0);
  EXPECT_LE(found, made);
  EXPECT_GE(static_cast<double>(found), 0.999 * static_cast<double>(made));
  EXPECT_EQ(SpoolIn(killed.result.logdir), "") << "recovered, so it has gone";
}

// The target is ended by the SIGTERM; the SIGKILL meets the conversion.
TEST(KillGroup, TargetThatEndsAtSigterm_IsRecovered) {
  const auto running = StartUnderTbprof({Program("records_until_sigterm"), "2000000", "default"}, Options());
  ASSERT_TRUE(running->WaitForFact("ready 1\n", 100)) << running->Err();
  const Killed killed = EndGroup(running.get());
  const auto made = static_cast<int64_t>(killed.result.Fact("made"));
  // Either the profile was ready by then, or the spool is there.
  if (killed.result.profile == nullptr) {
    EXPECT_TRUE(killed.result.run_directories.empty());
    const auto [found, dropped] = Recover(killed.result);
    EXPECT_EQ(found, made);
    EXPECT_EQ(dropped, 0);
  } else {
    EXPECT_EQ(SpoolIn(killed.result.logdir), "");
  }
}

}  // namespace
}  // namespace tbprof::integration
