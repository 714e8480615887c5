// SPDX-License-Identifier: Apache-2.0
//
// Command lines in output: quoted, with names that a person would use.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "writer/base/arguments.h"

namespace tbprof {
namespace {

TEST(CommandLineText, ShellCharacters_AreQuoted) {
  EXPECT_EQ(CommandLine({}), "");
  EXPECT_EQ(CommandLine({"a", "b-c", "/x/y.z:1,2@3%4*"}), "a b-c /x/y.z:1,2@3%4*");
  EXPECT_EQ(CommandLine({"a b", "", "it's", "$x"}), "'a b' '' 'it'\\''s' '$x'");
  EXPECT_EQ(CommandLine({"a\nb"}), "'a\nb'");
}

TEST(ProcessNameText, ExecutableAndArguments_GiveTheName) {
  EXPECT_EQ(ProcessName("/usr/bin/ls", {"ls", "-l"}), "ls");
  EXPECT_EQ(ProcessName("/usr/bin/python3.11", {"python", "-u", "/a/train.py", "--x"}), "train.py");
  EXPECT_EQ(ProcessName("/usr/bin/python3", {"python3", "-m", "torch.run", "x"}), "-m torch.run");
  EXPECT_EQ(ProcessName("/usr/bin/python3", {"python3", "-c", "print()"}), "python3 -c");
  EXPECT_EQ(ProcessName("/usr/bin/python3", {"python3", "-c"}), "python3 -c");
  EXPECT_EQ(ProcessName("/usr/bin/python3", {"python3", "-B", "-c",
                                             "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5)",
                                             "--multiprocessing-fork"}),
            "multiprocessing.spawn");
  EXPECT_EQ(ProcessName("/usr/bin/python3", {"python3", "-c", "from os import *; print(getpid())"}), "python3 -c");
  EXPECT_EQ(ProcessName("/usr/bin/python3", {"python3", "-W", "ignore", "-X", "dev", "a/b.py"}), "b.py");
  EXPECT_EQ(ProcessName("/usr/bin/python3", {"python3"}), "python3");
  EXPECT_EQ(ProcessName("/usr/bin/python3", {}), "python3");
  EXPECT_EQ(ProcessName("/usr/bin/python3", {"python3", "-m"}), "python3");
  EXPECT_EQ(ProcessName("", {"/x/y"}), "y");
  EXPECT_EQ(ProcessName("", {}), "process");
}

int Rank(const std::map<std::string, std::string>& variables) { return RankOf(variables).rank; }

TEST(Ranks, SeveralVariables_FirstValidOneIsUsed) {
  EXPECT_EQ(Rank({}), -1);
  EXPECT_EQ(Rank({{"RANK", "3"}, {"SLURM_PROCID", "1"}}), 3);
  EXPECT_EQ(Rank({{"RANK", "x"}, {"SLURM_PROCID", "1"}, {"SLURM_STEP_ID", "0"}}), 1);
  for (const char* bad : {"-1", "3 ", "99999999999", "", "x3", "0x1"}) EXPECT_EQ(Rank({{"RANK", bad}}), -1) << bad;
  EXPECT_EQ(Rank({{"LOCAL_RANK", "2"}}), -1) << "says nothing of the other nodes";
}

TEST(Ranks, VariablesOfEachScheduler_GiveRankAndWorldSize) {
  struct Case {
    std::map<std::string, std::string> variables;
    int rank, local_rank, world_size;
  };
  const Case cases[] = {
      {{{"RANK", "9"}, {"LOCAL_RANK", "1"}, {"WORLD_SIZE", "16"}}, 9, 1, 16},
      {{{"SLURM_PROCID", "5"}, {"SLURM_LOCALID", "1"}, {"SLURM_NTASKS", "8"}, {"SLURM_STEP_ID", "0"}}, 5, 1, 8},
      {{{"OMPI_COMM_WORLD_RANK", "5"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "8"}}, 5, 1, 8},
      {{{"PMI_RANK", "5"}, {"MPI_LOCALRANKID", "1"}, {"PMI_SIZE", "8"}}, 5, 1, 8},
      {{{"PALS_RANKID", "5"}, {"PALS_LOCAL_RANKID", "1"}}, 5, 1, -1},
      {{{"MV2_COMM_WORLD_RANK", "5"}, {"MV2_COMM_WORLD_LOCAL_RANK", "1"}, {"MV2_COMM_WORLD_SIZE", "8"}}, 5, 1, 8},
      {{{"PMIX_RANK", "5"}}, 5, -1, -1},
      {{{"FLUX_TASK_RANK", "5"}, {"FLUX_TASK_LOCAL_ID", "1"}, {"FLUX_JOB_SIZE", "8"}}, 5, 1, 8},
      {{{"JOB_COMPLETION_INDEX", "5"}}, 5, -1, -1},
      {{{"HOROVOD_RANK", "5"}, {"HOROVOD_LOCAL_RANK", "1"}, {"HOROVOD_SIZE", "8"}}, 5, 1, 8},
      {{{"JAX_PROCESS_ID", "5"}, {"JAX_NUM_PROCESSES", "8"}}, 5, -1, 8},
      {{{"NODE_RANK", "0"}, {"LOCAL_RANK", "3"}, {"WORLD_SIZE", "8"}}, 3, 3, 8},
      {{{"RANK", "5"}, {"WORLD_SIZE", "8"}}, 5, -1, 8},
  };
  for (const Case& c : cases) {
    const RankFacts facts = RankOf(c.variables);
    EXPECT_EQ(facts.rank, c.rank) << c.variables.begin()->first;
    EXPECT_EQ(facts.local_rank, c.local_rank) << c.variables.begin()->first;
    EXPECT_EQ(facts.world_size, c.world_size) << c.variables.begin()->first;
  }
}

TEST(Ranks, SeveralSchedulers_MostSpecificIsUsed) {
  const std::map<std::string, std::string> slurm = {
      {"SLURM_PROCID", "1"}, {"SLURM_LOCALID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_STEP_ID", "0"}};
  auto torchrun = slurm;
  torchrun.insert({{"RANK", "9"}, {"LOCAL_RANK", "1"}, {"WORLD_SIZE", "16"}});
  EXPECT_EQ(RankOf(torchrun).rank, 9) << "srun numbers the nodes";
  EXPECT_EQ(RankOf(torchrun).world_size, 16);
  auto exported = slurm;
  exported["RANK"] = "9";
  EXPECT_EQ(RankOf(exported).rank, 1) << "RANK without LOCAL_RANK may be anybody's";
  auto mpi = slurm;
  mpi["OMPI_COMM_WORLD_RANK"] = "7";
  mpi["PMIX_RANK"] = "6";
  EXPECT_EQ(RankOf(mpi).rank, 7);
  EXPECT_EQ(RankOf(mpi).world_size, -1) << "of the same scheduler as the rank, or none";
  auto batch = slurm;
  batch.erase("SLURM_STEP_ID");
  EXPECT_EQ(RankOf(batch).rank, -1) << "a batch script is no task";
  EXPECT_EQ(Rank({{"NODE_RANK", "1"}, {"LOCAL_RANK", "3"}}), -1) << "the first node's size is not known";
}

TEST(Ranks, TfConfig_GivesTheRank) {
  const std::string cluster = R"({"cluster": {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"]}, )";
  EXPECT_EQ(Rank({{"TF_CONFIG", cluster + R"("task": {"type": "chief", "index": 0}})"}}), 0);
  EXPECT_EQ(Rank({{"TF_CONFIG", cluster + R"("task": {"type": "worker", "index": 1}})"}}), 2);
  EXPECT_EQ(Rank({{"TF_CONFIG", cluster + R"("task": {"type": "worker", "index": "0"}})"}}), 1);
  EXPECT_EQ(RankOf({{"TF_CONFIG", cluster + R"("task": {"type": "worker", "index": 1}})"}}).world_size, 3);
  EXPECT_EQ(Rank({{"TF_CONFIG", cluster + R"("task": {"type": "ps", "index": 0}})"}}), -1);
  for (const char* bad : {"", "{", "[]", "{\"task\": 1}", "{\"task\": {\"type\": 1, \"index\": -1}}",
                          "{\"task\": {\"type\": \"worker\", \"index\": -1}}", "{\"cluster\": 3}"}) {
    EXPECT_EQ(Rank({{"TF_CONFIG", bad}}), -1) << bad;
  }
}

TEST(Ranks, RankList_ConsecutiveRanks_AreJoined) {
  EXPECT_EQ(RankList({}), "");
  EXPECT_EQ(RankList({3}), "3");
  EXPECT_EQ(RankList({3, 7}), "3,7");
  EXPECT_EQ(RankList({0, 1, 2, 3, 5, 6, 9}), "0-3,5,6,9");
}

std::set<int> Chosen(const char* text, int world, int per_node = 8) {
  RankChoice choice;
  EXPECT_TRUE(ParseRankChoice(text, &choice)) << text;
  std::set<int> chosen;
  for (int rank = 0; rank < world; ++rank) {
    if (IsChosen(choice, {.rank = rank, .local_rank = rank % per_node, .world_size = world})) chosen.insert(rank);
  }
  EXPECT_TRUE(IsChosen(choice, {})) << "who has no rank";
  return chosen;
}

TEST(RankChoice, EachForm_SelectsItsRanks) {
  EXPECT_EQ(Chosen("0", 32), (std::set<int>{0}));
  EXPECT_EQ(Chosen("0,8,16", 32), (std::set<int>{0, 8, 16}));
  EXPECT_EQ(Chosen("0-2,30-99", 32), (std::set<int>{0, 1, 2, 30, 31}));
  EXPECT_EQ(Chosen("every:8", 32), (std::set<int>{0, 8, 16, 24}));
  EXPECT_EQ(Chosen("node-first", 32), (std::set<int>{0, 8, 16, 24}));
  EXPECT_EQ(Chosen("all", 100).size(), 100u);
  EXPECT_EQ(Chosen("auto", 16).size(), 16u);
  EXPECT_EQ(Chosen("auto", 17), (std::set<int>{0, 8, 16}));
}

TEST(RankChoice, Random_SameSeed_SelectsTheSameRanks) {
  const std::set<int> some = Chosen("random:2%job7", 10000);
  EXPECT_EQ(some, Chosen("random:2%job7", 10000));
  EXPECT_NE(some, Chosen("random:2%job8", 10000));
  EXPECT_GT(some.size(), 100u);
  EXPECT_LT(some.size(), 300u);
  for (const char* seed : {"random:1%", "random:1%a", "random:1%b", "random:1%c"})
    EXPECT_FALSE(Chosen(seed, 4).empty());
  EXPECT_EQ(Chosen("random:100%", 50).size(), 50u);
}

TEST(RankChoice, InvalidText_IsRejected) {
  RankChoice choice;
  for (const char* bad :
       {"", "x", "0,", ",0", "1-", "-1", "3-1", "every:", "every:0", "every:x", "random:", "random:0%", "random:101%",
        "random:5", "node-firs", "node-firstx", "0 ,1", "99999999999", "all,0"}) {
    EXPECT_FALSE(ParseRankChoice(bad, &choice)) << bad;
  }
  std::string many = "0";
  for (int i = 1; i < kMaxRankRanges; ++i) many += "," + std::to_string(i);
  EXPECT_TRUE(ParseRankChoice(many.c_str(), &choice));
  EXPECT_FALSE(ParseRankChoice((many + ",99").c_str(), &choice));
}

// The target must record every variable that the converter uses to find ranks.
TEST(Ranks, VariablesOfTheTable_AreAllRecorded) {
  const auto recorded = [](const std::string& name) {
    return name.empty() || std::any_of(std::begin(kRankVariables), std::end(kRankVariables),
                                       [&](const char* variable) { return name == variable; });
  };
  for (const RankScheduler& row : kRankSchedulers) {
    EXPECT_TRUE(recorded(row.rank) && recorded(row.local_rank) && recorded(row.world_size)) << row.name;
    EXPECT_TRUE(recorded(std::string(row.with).substr(0, std::string(row.with).find('=')))) << row.name;
  }
}

}  // namespace
}  // namespace tbprof
