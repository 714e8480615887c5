// SPDX-License-Identifier: Apache-2.0
//
// Command lines as they are shown: no secret gets through, and names are what a person would say.
#include <gtest/gtest.h>

#include "writer/arguments.h"

namespace tbprof {
namespace {

using Words = std::vector<std::string>;

TEST(MaskSecrets, Forms) {
  EXPECT_EQ(MaskSecrets({"run", "--token=abc"}), (Words{"run", "--token=***"}));
  EXPECT_EQ(MaskSecrets({"run", "--token", "abc", "x"}), (Words{"run", "--token", "***", "x"}));
  EXPECT_EQ(MaskSecrets({"env", "HF_TOKEN=abc", "run"}), (Words{"env", "HF_TOKEN=***", "run"}));
  EXPECT_EQ(MaskSecrets({"--WANDB_API_KEY=a=b=c"}), (Words{"--WANDB_API_KEY=***"}));
  EXPECT_EQ(MaskSecrets({"--api-key", "k"}), (Words{"--api-key", "***"}));
  EXPECT_EQ(MaskSecrets({"--password="}), (Words{"--password=***"}));
  EXPECT_EQ(MaskSecrets({"mysql", "--user=root", "--passwd=x"}), (Words{"mysql", "--user=root", "--passwd=***"}));
}

TEST(MaskSecrets, ADashedWordIsTheNextOption) {
  EXPECT_EQ(MaskSecrets({"--password", "--verbose", "x"}), (Words{"--password", "--verbose", "x"}));
  EXPECT_EQ(MaskSecrets({"--password", "--token", "x"}), (Words{"--password", "--token", "***"}));
  EXPECT_EQ(MaskSecrets({"--password"}), (Words{"--password"}));
}

TEST(MaskSecrets, OrdinaryWordsStay) {
  const Words words = {"python", "train.py", "--lr=0.1", "--name", "x", "", "-", "--", "=", "a=b"};
  EXPECT_EQ(MaskSecrets(words), words);
  EXPECT_TRUE(MaskSecrets({}).empty());
}

TEST(CommandLineText, QuotesWhatAShellWouldBreak) {
  EXPECT_EQ(CommandLine({}), "");
  EXPECT_EQ(CommandLine({"a", "b-c", "/x/y.z:1,2@3%4*"}), "a b-c /x/y.z:1,2@3%4*");
  EXPECT_EQ(CommandLine({"a b", "", "it's", "$x"}), "'a b' '' 'it'\\''s' '$x'");
  EXPECT_EQ(CommandLine({"a\nb"}), "'a\nb'");
}

TEST(ProcessNameText, Names) {
  EXPECT_EQ(ProcessName("/usr/bin/ls", {"ls", "-l"}), "ls");
  EXPECT_EQ(ProcessName("/usr/bin/python3.11", {"python", "-u", "/a/train.py", "--x"}), "train.py");
  EXPECT_EQ(ProcessName("/usr/bin/python3", {"python3", "-m", "torch.run", "x"}), "-m torch.run");
  EXPECT_EQ(ProcessName("/usr/bin/python3", {"python3", "-c", "print()"}), "python3 -c");
  EXPECT_EQ(ProcessName("/usr/bin/python3", {"python3", "-W", "ignore", "-X", "dev", "a/b.py"}), "b.py");
  EXPECT_EQ(ProcessName("/usr/bin/python3", {"python3"}), "python3");
  EXPECT_EQ(ProcessName("/usr/bin/python3", {}), "python3");
  EXPECT_EQ(ProcessName("/usr/bin/python3", {"python3", "-m"}), "python3");
  EXPECT_EQ(ProcessName("", {"/x/y"}), "y");
  EXPECT_EQ(ProcessName("", {}), "process");
}

TEST(Ranks, FirstGoodVariableWins) {
  EXPECT_EQ(RankOf({}, kRank), -1);
  EXPECT_EQ(RankOf({{"RANK", "3"}, {"SLURM_PROCID", "1"}}, kRank), 3);
  EXPECT_EQ(RankOf({{"RANK", "x"}, {"SLURM_PROCID", "1"}}, kRank), 1);
  EXPECT_EQ(RankOf({{"RANK", "-1"}}, kRank), -1);
  EXPECT_EQ(RankOf({{"RANK", "3 "}}, kRank), -1);
  EXPECT_EQ(RankOf({{"RANK", "99999999999"}}, kRank), -1);
  EXPECT_EQ(RankOf({{"RANK", ""}}, kRank), -1);
  EXPECT_EQ(RankOf({{"LOCAL_RANK", "2"}}, kLocalRank), 2);
  EXPECT_EQ(RankOf({{"OMPI_COMM_WORLD_SIZE", "8"}}, kWorldSize), 8);
}

}  // namespace
}  // namespace tbprof
