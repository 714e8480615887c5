// SPDX-License-Identifier: Apache-2.0
// F37: many ranks end in the same moment, and one is late or never comes.
#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>
#include <set>

#include "tests/integration/harness.h"

namespace tbprof::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

std::set<std::string> Stems(const std::string& run_directory) {
  std::set<std::string> stems;
  constexpr std::string_view kSuffix = ".xplane.pb";
  for (const auto& entry : std::filesystem::directory_iterator(run_directory)) {
    const std::string name = entry.path().filename();
    if (name.ends_with(kSuffix)) stems.insert(name.substr(0, name.size() - kSuffix.size()));
  }
  return stems;
}

// Each file is whole, named by its content, and of one rank.
void ExpectOneFilePerRank(const std::string& run_directory, size_t count) {
  const std::set<std::string> stems = Stems(run_directory);
  EXPECT_THAT(stems, SizeIs(count));
  for (const std::string& stem : stems) {
    const auto profile = Profile::Parse(run_directory + "/" + stem + ".xplane.pb");
    ASSERT_NE(profile, nullptr) << stem;
    ASSERT_EQ(profile->space().hostnames_size(), 1) << stem;
    EXPECT_EQ(profile->space().hostnames(0), stem);
  }
}

TEST(F37, SixtyFourRanksOfOneLauncher_HaveAFileEach) {
  RunOptions options;
  options.tbprof = {"--ranks=all", "--buffer-size=8MiB"};
  const RunResult result = RunUnderTbprof({Program("ranks"), "64"}, options);
  EXPECT_EQ(result.code(), 5);
  ASSERT_THAT(result.run_directories, SizeIs(1)) << result.AllPrinted();
  ExpectOneFilePerRank(result.run_directories[0], 64);
  EXPECT_FALSE(result.Printed("missing")) << result.AllPrinted();
  EXPECT_EQ(result.summary["world_size"], 64);
  EXPECT_THAT(result.summary["ranks"], SizeIs(64));
}

TEST(F37, RankThatNeverCame_IsNamed) {
  RunOptions options;
  options.tbprof = {"--ranks=all", "--buffer-size=8MiB"};
  const RunResult result = RunUnderTbprof({Program("ranks"), "64", "absent=3"}, options);
  EXPECT_EQ(result.code(), 5);
  ASSERT_THAT(result.run_directories, SizeIs(1));
  ExpectOneFilePerRank(result.run_directories[0], 63);
  EXPECT_TRUE(result.Printed("missing ranks: 3 of 64")) << result.AllPrinted();
  EXPECT_EQ(result.summary["missing_ranks"], nlohmann::json::array({3}));
  EXPECT_TRUE(result.profile->HasWarning("missing ranks: 3"));
}

TEST(F37, RankThatNeverEnds_IsNamed) {
  RunOptions options;
  options.tbprof = {"--ranks=all", "--buffer-size=8MiB"};
  const auto running = StartUnderTbprof({Program("ranks"), "64", "endless=3"}, options);
  const RunResult result = running->Wait();
  WriteFile(result.directory->path() + "/stop", "");
  EXPECT_EQ(result.code(), 5);
  ASSERT_THAT(result.run_directories, SizeIs(1));
  ExpectOneFilePerRank(result.run_directories[0], 64);
  EXPECT_TRUE(result.Printed("ran on when the command ended: 3;")) << result.AllPrinted();
}

TEST(F37, FailedRanks_AreNamedWithCauseAndTime) {
  RunOptions options;
  options.tbprof = {"--ranks=all", "--buffer-size=8MiB"};
  const RunResult result = RunUnderTbprof({Program("ranks"), "4", "killed=2", "fails=3"}, options);
  EXPECT_EQ(result.code(), 5);
  ASSERT_THAT(result.run_directories, SizeIs(1)) << result.AllPrinted();
  ExpectOneFilePerRank(result.run_directories[0], 4);
  EXPECT_TRUE(result.Printed("rank 2: killed by SIGKILL at ")) << result.AllPrinted();
  EXPECT_TRUE(result.Printed("(the first to fail)")) << result.AllPrinted();
  EXPECT_TRUE(result.Printed("rank 3: exit status 7 at ")) << result.AllPrinted();
  EXPECT_TRUE(result.Printed("4 of 4 ranks: ")) << result.AllPrinted();
  EXPECT_TRUE(result.Printed("below: rank 0 alone")) << result.AllPrinted();
  ASSERT_THAT(result.summary["by_rank"], SizeIs(4));
  for (int rank = 0; rank < 4; ++rank) {
    const nlohmann::json report = result.summary["by_rank"][static_cast<size_t>(rank)];
    EXPECT_EQ(report["rank"], rank);
    EXPECT_EQ(report["state"], "ended") << report;
    EXPECT_EQ(report["exit_code"], rank == 2 ? nlohmann::json() : nlohmann::json(rank == 3 ? 7 : 0)) << report;
    EXPECT_EQ(report["exit_signal"], rank == 2 ? nlohmann::json(SIGKILL) : nlohmann::json()) << report;
    EXPECT_GT(report["end_s"].get<double>(), 0) << report;
    EXPECT_GE(report["process_count"].get<int>(), 1) << report;
  }
  EXPECT_EQ(result.summary["by_rank"][2]["out_of_memory"], false);
  // The profile of the first rank, which TensorBoard shows first, and that of the rank itself.
  for (const char* stem : {"_r0.xplane.pb", "_r2.xplane.pb"}) {
    const std::vector<std::string> files = FilesBelow(result.run_directories[0], stem);
    ASSERT_THAT(files, SizeIs(1));
    EXPECT_TRUE(Profile::Parse(files[0])->HasWarning("rank 2: killed by SIGKILL at ")) << stem;
  }
}

// Launchers of one rank each, as srun and mpirun start them, on one logdir.
class Launchers {
 public:
  // `splits`: a rank whose run is too large for one profile.
  Launchers(int world, std::vector<std::string> more, int splits = -1) : world_(world) {
    for (int rank = 0; rank < world; ++rank) {
      RunOptions options;
      options.default_logdir = false;
      options.tbprof = more;
      options.tbprof.push_back("--logdir=" + (logdir_ / "logs"));
      const std::string number = std::to_string(rank);
      options.environment = {{"SLURM_PROCID", number},
                             {"SLURM_LOCALID", number},
                             {"SLURM_NTASKS", std::to_string(world)},
                             {"SLURM_JOB_ID", "4711"},
                             {"SLURM_STEP_ID", "2"}};
      if (rank == splits) options.tbprof.insert(options.tbprof.end(), {"--wait-threshold=0", "--spool-limit=256KiB"});
      running_.push_back(StartUnderTbprof(rank == splits
                                              ? std::vector<std::string>{Program("phases"), "20000", "1", "1000"}
                                              : std::vector<std::string>{Program("waits_for_signals"), "60"},
                                          options));
    }
    for (const auto& running : running_) EXPECT_TRUE(running->WaitForFact("warm ")) << running->Err();
  }
  void End(int rank) const { WriteFile(running_[static_cast<size_t>(rank)]->path() + "/stop", ""); }
  // The command, not its launcher.
  void Kill(int rank) const {
    kill(static_cast<pid_t>(running_[static_cast<size_t>(rank)]->WaitForNumber("pid")), SIGKILL);
  }
  RunResult Wait(int rank) { return running_[static_cast<size_t>(rank)]->Wait(); }
  Running& operator[](int rank) { return *running_[static_cast<size_t>(rank)]; }
  int world() const { return world_; }
  std::string run_directory() const { return logdir_ / "logs/plugins/profile/slurm-4711.2"; }
  std::set<std::string> Runs() const {
    std::set<std::string> runs;
    for (const auto& entry : std::filesystem::directory_iterator(logdir_ / "logs/plugins/profile")) {
      runs.insert(entry.path().filename());
    }
    return runs;
  }
  nlohmann::json Summary() const {
    for (const auto& entry : std::filesystem::directory_iterator(run_directory())) {
      if (!entry.path().string().ends_with(".summary.json")) continue;
      const auto json = nlohmann::json::parse(ReadFile(entry.path()), nullptr, false);
      if (json["rank"] == 0) return json;
    }
    return nullptr;
  }

 private:
  TemporaryDirectory logdir_;
  int world_;
  std::vector<std::unique_ptr<Running>> running_;
};

TEST(F37, EightLaunchersAndOneThatHangs_OthersPublish) {
  Launchers launchers(8, {"--rank-wait=0s"});
  for (const int rank : {1, 2, 4, 5, 6, 7}) launchers.End(rank);
  for (const int rank : {1, 2, 4, 5, 6, 7}) {
    const RunResult result = launchers.Wait(rank);
    EXPECT_EQ(result.code(), 23);
    EXPECT_TRUE(result.printed.empty()) << "one rank speaks: " << result.AllPrinted();
  }
  launchers.End(0);
  const RunResult first = launchers.Wait(0);
  EXPECT_EQ(first.code(), 23);
  EXPECT_TRUE(first.Printed("missing ranks: 3 ")) << first.AllPrinted();
  EXPECT_EQ(launchers.Summary()["missing_ranks"], nlohmann::json::array({3}));
  ExpectOneFilePerRank(launchers.run_directory(), 7);
  EXPECT_EQ(launchers.Runs(), std::set<std::string>{"slurm-4711.2"});

  // What the viewer made of seven files is stale when the eighth comes.
  WriteFile(launchers.run_directory() + "/ALL_HOSTS.op_stats_v2.pb", "stale");
  WriteFile(launchers.run_directory() + "/cache_version.txt", "stale");
  launchers.End(3);
  EXPECT_EQ(launchers.Wait(3).code(), 23);
  ExpectOneFilePerRank(launchers.run_directory(), 8);
  EXPECT_FALSE(std::filesystem::exists(launchers.run_directory() + "/ALL_HOSTS.op_stats_v2.pb"));
  EXPECT_FALSE(std::filesystem::exists(launchers.run_directory() + "/cache_version.txt"));
}

TEST(F37, RankOfAKilledLauncher_IsNamedByTheFirst) {
  Launchers launchers(3, {"--rank-wait=60s"});
  launchers.End(1);
  EXPECT_EQ(launchers.Wait(1).code(), 23);
  launchers.Kill(2);
  EXPECT_EQ(launchers.Wait(2).signal(), SIGKILL);
  launchers.End(0);
  const RunResult first = launchers.Wait(0);
  EXPECT_EQ(first.code(), 23);
  EXPECT_TRUE(first.Printed("rank 2: killed by SIGKILL at ")) << first.AllPrinted();
  EXPECT_TRUE(first.Printed("rank 1: exit status 23 at ")) << first.AllPrinted();
  EXPECT_TRUE(first.Printed("3 of 3 ranks: ")) << first.AllPrinted();
  const nlohmann::json by_rank = launchers.Summary()["by_rank"];
  ASSERT_THAT(by_rank, SizeIs(3));
  EXPECT_EQ(by_rank[0]["of_other_launcher"], false);
  EXPECT_EQ(by_rank[2]["of_other_launcher"], true);
  EXPECT_EQ(by_rank[2]["exit_signal"], SIGKILL);
  // The names do not depend on who was first.
  std::set<std::string> endings;
  for (const std::string& stem : Stems(launchers.run_directory())) endings.insert(stem.substr(stem.rfind('_')));
  EXPECT_EQ(endings, (std::set<std::string>{"_r0", "_r1", "_r2"}));
}

TEST(F37, FirstRank_WaitsForTheOthers) {
  Launchers launchers(4, {"--rank-wait=60s"});
  launchers.End(0);
  // Its command has ended; its profile waits for the others.
  for (int i = 0; i < 3000 && launchers[0].Facts().find("pieces ") == std::string::npos; ++i) usleep(10'000);
  for (const int rank : {1, 2, 3}) launchers.End(rank);
  for (const int rank : {1, 2, 3}) EXPECT_EQ(launchers.Wait(rank).code(), 23);
  const RunResult first = launchers.Wait(0);
  EXPECT_EQ(first.code(), 23);
  EXPECT_FALSE(first.Printed("missing")) << first.AllPrinted();
  ExpectOneFilePerRank(launchers.run_directory(), 4);
  EXPECT_THAT(launchers.Summary()["missing_ranks"], SizeIs(0));
}

// Whether a run becomes start, steady and end each launcher decides for itself.
TEST(F37, RankWithASplitRun_IsNotMissing) {
  for (const int splits : {0, 1}) {
    Launchers launchers(2, {"--rank-wait=60s"}, splits);
    launchers.End(1);
    EXPECT_EQ(launchers.Wait(1).code(), splits == 1 ? 5 : 23);
    launchers.End(0);
    const RunResult first = launchers.Wait(0);
    EXPECT_EQ(first.code(), splits == 0 ? 5 : 23);
    EXPECT_FALSE(first.Printed("missing ranks")) << first.AllPrinted();
    EXPECT_TRUE(launchers.Runs().count("slurm-4711.2_end")) << splits;
  }
}

}  // namespace
}  // namespace tbprof::integration
