// SPDX-License-Identifier: Apache-2.0
// Which ranks are recorded, and what their run is called.
#include <gmock/gmock.h>

#include <filesystem>

#include "harness.h"

namespace tbprof::integration {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

std::vector<std::string> ProfilesIn(const std::string& run_directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(run_directory)) {
    const std::string name = entry.path().filename();
    if (name.ends_with(".xplane.pb")) names.push_back(name.substr(name.rfind('_') + 1));
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Of a rank that is not the launcher's first; empty: there is none.
std::filesystem::path SummaryOfRank(const std::string& run_directory, int rank) {
  for (const auto& entry : std::filesystem::directory_iterator(run_directory)) {
    const std::string name = entry.path().filename();
    if (name.ends_with("_r" + std::to_string(rank) + ".summary.json")) return entry.path();
  }
  return {};
}

RunResult Under(const std::string& ranks, const std::string& world) {
  RunOptions options;
  options.tbprof = {"--buffer-size=8MiB"};
  if (!ranks.empty()) options.tbprof.push_back("--ranks=" + ranks);
  return RunUnderTbprof({Program("ranks"), world}, options);
}

TEST(RankChoice, EachProcess_ChoosesItself) {
  const RunResult result = Under("every:4,", "8");
  EXPECT_EQ(result.code(), 125) << "not a choice";
  const RunResult some = Under("1,5-6", "8");
  EXPECT_EQ(some.code(), 5);
  ASSERT_THAT(some.run_directories, SizeIs(1));
  EXPECT_THAT(ProfilesIn(some.run_directories[0]), ElementsAre("r1.xplane.pb", "r5.xplane.pb", "r6.xplane.pb"));
  EXPECT_FALSE(some.Printed("missing")) << some.AllPrinted();
}

TEST(RankChoice, MoreThanSixteenRanks_OnePerNodeIsRecorded) {
  const RunResult many = Under("", "17");
  EXPECT_EQ(many.code(), 5);
  ASSERT_THAT(many.run_directories, SizeIs(1));
  EXPECT_THAT(ProfilesIn(many.run_directories[0]), SizeIs(1));
  EXPECT_TRUE(many.Printed("17 ranks: only the first of each node is recorded")) << many.AllPrinted();
  const RunResult few = Under("", "16");
  EXPECT_THAT(ProfilesIn(few.run_directories[0]), SizeIs(16));
}

// Rank r of three has 20 + r steps, and its steps take longer with r.
TEST(Ranks, SlowestRank_IsNamedAndEachIsLabelled) {
  RunOptions options;
  options.tbprof = {"--ranks=all", "--wait-threshold=0"};
  const std::string script = "touch stop; export WORLD_SIZE=3; for r in 0 1 2; do RANK=$r LOCAL_RANK=$r " +
                             Program("marked_steps") + " $((20 + r)) $((r + 1)) & done; wait";
  const RunResult result = RunUnderTbprof({"/bin/sh", "-c", script}, options);
  ASSERT_THAT(result.run_directories, SizeIs(1)) << result.AllPrinted();
  EXPECT_THAT(ProfilesIn(result.run_directories[0]), ElementsAre("r0.xplane.pb", "r1.xplane.pb", "r2.xplane.pb"));
  const nlohmann::json by_rank = result.summary["by_rank"];
  ASSERT_THAT(by_rank, SizeIs(3)) << result.AllPrinted();
  uint64_t processes = 0, records = 0;
  for (int rank = 0; rank < 3; ++rank) {
    const nlohmann::json report = by_rank[static_cast<size_t>(rank)];
    EXPECT_EQ(report["steps"]["count"], 20 + rank) << report;
    EXPECT_EQ(report["steps"]["last"], 19 + rank) << report;
    EXPECT_EQ(report["exit_code"], 5) << report;
    EXPECT_FALSE(report["wait_sites"].empty()) << report;
    processes += report["process_count"].get<uint64_t>();
    records += report["records"].get<uint64_t>();
  }
  // The slowest rank depends on the machine's load.
  int slowest = 0;
  for (const int rank : {1, 2}) {
    const auto median = [&](int of) { return by_rank[static_cast<size_t>(of)]["steps"]["median_s"].get<double>(); };
    if (median(rank) > median(slowest)) slowest = rank;
  }
  const std::string totals = "3 of 3 ranks: " + std::to_string(processes) + " processes, ";
  EXPECT_TRUE(result.Printed(totals)) << totals << result.AllPrinted();
  EXPECT_TRUE(result.Printed(std::to_string(records) + " records; waits ")) << records << result.AllPrinted();
  EXPECT_TRUE(result.Printed("slowest: rank " + std::to_string(slowest) + ", step median ") ||
              result.Printed("ranks: alike, step median "))
      << result.AllPrinted();
  EXPECT_TRUE(result.Printed("below: rank 0 alone")) << result.AllPrinted();
  EXPECT_TRUE(result.Printed("where (all threads of rank 0)")) << result.AllPrinted();
  EXPECT_TRUE(result.Printed("rank 0: ")) << result.AllPrinted();
  EXPECT_EQ(result.summary["rank"], 0) << "what the rest of the summary is about";
  for (const int rank : {1, 2}) {
    const std::filesystem::path path = SummaryOfRank(result.run_directories[0], rank);
    const auto own = nlohmann::json::parse(ReadFile(path), nullptr, false);
    ASSERT_TRUE(own.is_object()) << path;
    EXPECT_EQ(own["rank"], rank);
    EXPECT_EQ(own["steps"]["count"], 20 + rank) << own["steps"];
    ASSERT_THAT(own["by_rank"], SizeIs(1));
    EXPECT_EQ(own["by_rank"][0]["rank"], rank);
    EXPECT_THAT(own["files"], SizeIs(1)) << own["files"];
  }
}

RunOptions AsTask(const std::string& rank, const std::string& world, std::vector<std::string> more = {}) {
  RunOptions options;
  options.tbprof = std::move(more);
  options.tbprof.push_back("--rank-wait=0s");
  options.environment = {{"OMPI_COMM_WORLD_RANK", rank},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", rank},
                         {"OMPI_COMM_WORLD_SIZE", world},
                         {"PMIX_NAMESPACE", "prterun-node7-1234@1"}};
  return options;
}

TEST(RankChoice, SummariesOfSeveralLaunchers_AreSeveralFiles) {
  TemporaryDirectory directory;
  for (const std::string rank : {"0", "1"}) {
    EXPECT_EQ(RunUnderTbprof({"/bin/true"}, AsTask(rank, "2", {"--summary-json=" + (directory / "s.json")})).code(), 0);
  }
  EXPECT_EQ(nlohmann::json::parse(ReadFile(directory / "s.json"))["rank"], 0);
  EXPECT_EQ(nlohmann::json::parse(ReadFile(directory / "s_r1.json"))["rank"], 1);
}

TEST(RankChoice, LauncherOfAnotherRank_IsAPlainExec) {
  RunOptions options = AsTask("1", "4", {"--ranks=0"});
  TemporaryDirectory directory;
  options.directory = directory.path();
  const RunResult bare = RunBare({Program("surroundings")}, options);
  const RunResult other = RunUnderTbprof({Program("surroundings")}, options);
  EXPECT_TRUE(other.printed.empty()) << other.AllPrinted();
  EXPECT_TRUE(other.run_directories.empty());
  EXPECT_TRUE(SameOutput(bare, other));
  const RunResult chosen = RunUnderTbprof({Program("ends"), "exit", "6"}, AsTask("0", "4", {"--ranks=0"}));
  EXPECT_EQ(chosen.code(), 6);
  EXPECT_FALSE(chosen.Printed("missing")) << chosen.AllPrinted();
  ASSERT_THAT(chosen.run_directories, SizeIs(1));
  EXPECT_TRUE(chosen.run_directories[0].ends_with("/pmix-prterun-node7-1234_1")) << chosen.run_directories[0];
}

// A shell may start ranks with their own numbers: each child checks its own variables.
TEST(RankChoice, Script_RanksOfItsChildrenAreChecked) {
  const RunResult result =
      RunUnderTbprof({"/bin/sh", "-c", "RANK=2 LOCAL_RANK=2 WORLD_SIZE=4 " + Program("ends") + " exit 6"},
                     AsTask("1", "4", {"--ranks=2"}));
  EXPECT_EQ(result.code(), 6);
  ASSERT_THAT(result.run_directories, SizeIs(1)) << result.AllPrinted();
  for (const auto& entry : std::filesystem::directory_iterator(result.run_directories[0])) {
    if (!entry.path().string().ends_with(".summary.json")) continue;
    const auto summary = nlohmann::json::parse(ReadFile(entry.path()), nullptr, false);
    EXPECT_EQ(summary["rank"], 2);
    EXPECT_EQ(summary["ranks"], nlohmann::json::array({2}));
    EXPECT_EQ(summary["process_count"], 1) << "the shell is rank 1, which is not recorded";
  }
}

TEST(PrintRanks, OneRank_Prints) {
  EXPECT_TRUE(RunUnderTbprof({Program("ends"), "exit", "0"}, AsTask("1", "2")).printed.empty());
  EXPECT_TRUE(RunUnderTbprof({Program("ends"), "exit", "0"}, AsTask("0", "2")).Printed("verified"));
  EXPECT_TRUE(
      RunUnderTbprof({Program("ends"), "exit", "0"}, AsTask("1", "2", {"--print-ranks=all"})).Printed("verified"));
  EXPECT_TRUE(RunUnderTbprof({Program("ends"), "exit", "0"}, AsTask("0", "2", {"--print-ranks=1"})).printed.empty());
  EXPECT_TRUE(RunUnderTbprof({Program("ends"), "exit", "0"}, AsTask("1", "2", {"--ranks=1"})).Printed("verified"));
}

TEST(RunName, Attempt_IsInTheName) {
  RunOptions options;
  options.environment = {{"RANK", "0"},
                         {"LOCAL_RANK", "0"},
                         {"WORLD_SIZE", "1"},
                         {"TORCHELASTIC_RUN_ID", "job 5"},
                         {"TORCHELASTIC_RESTART_COUNT", "2"}};
  const RunResult result = RunUnderTbprof({Program("ends"), "exit", "0"}, options);
  ASSERT_THAT(result.run_directories, SizeIs(1));
  EXPECT_TRUE(result.run_directories[0].ends_with("/torchrun-job_5_attempt2")) << result.run_directories[0];
}

TEST(RunName, Name_IsPassedToTheCommand) {
  RunOptions options;
  options.tbprof = {"--run=mine"};
  const RunResult result = RunUnderTbprof({"/bin/sh", "-c", "echo $TBPROF_RUN $TBPROF_RANKS"}, options);
  EXPECT_EQ(result.out, "mine auto\n");
}

// A second run of the same name with several ranks keeps what the first has left.
TEST(RunName, TwoRunsOfOneName_KeepAllFiles) {
  TemporaryDirectory logdir;
  RunOptions options;
  options.default_logdir = false;
  options.tbprof = {"--run=same", "--logdir=" + (logdir / "logs")};
  for (int i = 0; i < 2; ++i) {
    const RunResult result = RunUnderTbprof({Program("ranks"), "3"}, options);
    EXPECT_EQ(result.code(), 5);
    EXPECT_TRUE(result.Printed("verified")) << result.AllPrinted();
  }
  EXPECT_THAT(ProfilesIn(logdir / "logs/plugins/profile/same"), SizeIs(6));
}

// The session of a launcher that is gone, or on another machine, is no session.
TEST(Nested, OuterLauncherThatEnded_IsIgnored) {
  RunOptions options;
  options.environment = {{"TBPROF_SESSION", "1;/tmp/tbprof-gone99/s;deadbeef;1;63;1;1;1;1;64;0;1;0"}};
  const RunResult result = RunUnderTbprof({Program("ends"), "exit", "6"}, options);
  EXPECT_EQ(result.code(), 6);
  EXPECT_FALSE(result.Printed("already inside")) << result.AllPrinted();
  EXPECT_THAT(result.run_directories, SizeIs(1));
}

}  // namespace
}  // namespace tbprof::integration
