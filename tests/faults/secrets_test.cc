// SPDX-License-Identifier: Apache-2.0
// No value of the environment, no file's content and no argument that looks like a secret is in anything that tbprof
// leaves.
#include <gmock/gmock.h>

#include <filesystem>

#include "../integration/harness.h"

namespace tbprof::integration {
namespace {

constexpr char kValue[] = "sEcrEt-of-the-environment-417";
constexpr char kArgument[] = "sEcrEt-of-the-arguments-418";
constexpr char kPlain[] = "learning-rate-419";

// The files below the directory that hold the text.
std::vector<std::string> FilesWith(const std::string& directory, std::string_view text) {
  std::vector<std::string> found;
  size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    if (!entry.is_regular_file()) continue;
    ++files;
    if (ReadFile(entry.path()).find(text) != std::string::npos) found.push_back(entry.path());
  }
  EXPECT_GE(files, 4u) << "profile, summary, trace, spool";
  return found;
}

RunResult Profiled(const std::vector<std::string>& more) {
  RunOptions options;
  options.tbprof = {"--keep-spool", "--wait-threshold=0", "--also=perfetto", "--malloc-interval=65536"};
  options.tbprof.insert(options.tbprof.end(), more.begin(), more.end());
  options.environment = {{"API_TOKEN", kValue}};
  const std::vector<std::string> command = {
      Program("keeps_secrets"),
      std::string("--api-key=") + kArgument,
      "--password",
      kArgument,
      "--db-pass",
      kArgument,
      std::string("DB_PASS=") + kArgument,
      std::string("https://me:") + kArgument + "@host/x?a=1&password=" + kArgument,
      std::string("Authorization: Bearer ") + kArgument,
      std::string("{\"wandb-key\": \"") + kArgument + "\"}",
      std::string("--db=postgres://me:") + kArgument + "@host/db",
      std::string("--rate=") + kPlain,
      "last"};
  RunResult result = RunUnderTbprof(command, options);
  EXPECT_EQ(result.code(), 0) << result.AllPrinted();
  EXPECT_NE(result.profile, nullptr);
  return result;
}

TEST(Secrets, EnvironmentAndArguments_AreMasked) {
  const RunResult result = Profiled({});
  for (const std::string& path : FilesWith(result.logdir, kArgument)) {
    // The raw records hold the arguments as they were, for their owner alone, until they are converted.
    EXPECT_TRUE(path.ends_with(".spool")) << path;
  }
  EXPECT_THAT(FilesWith(result.logdir, kValue), testing::IsEmpty()) << "nor in a snapshot of a stack";
  EXPECT_FALSE(FilesWith(result.logdir, kPlain).empty()) << "what is no secret is shown";
  for (const std::string& line : result.printed) {
    EXPECT_EQ(line.find(kArgument), std::string::npos) << line;
    EXPECT_EQ(line.find(kValue), std::string::npos) << line;
  }
}

TEST(Secrets, NoArgv_KeepsThemOutOfAllFiles) {
  const RunResult result = Profiled({"--no-argv"});
  EXPECT_THAT(FilesWith(result.logdir, kArgument), testing::IsEmpty());
  EXPECT_THAT(FilesWith(result.logdir, kPlain), testing::IsEmpty());
  for (const std::string& line : result.printed) EXPECT_EQ(line.find(kPlain), std::string::npos) << line;
}

// The command of the session is masked in the raw records, too; what the processes record of themselves is not.
TEST(Secrets, Status_MasksTheCommand) {
  RunOptions options;
  options.tbprof = {"--window=none"};
  const std::unique_ptr<Running> job = StartUnderTbprof(
      {"/bin/sh", "-c", "echo ready=1 >> $TEST_FACTS; while [ ! -e stop ]; do sleep 0.1; done", "sh", "--db-pass",
       kArgument, std::string("https://host/x?user=me&password=") + kArgument, std::string("--rate=") + kPlain},
      options);
  ASSERT_TRUE(job->WaitForFact("ready=1"));
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"status"}, {"status", "--json"}}) {
    const RunResult status = RunTbprof(words);
    EXPECT_EQ(status.code(), 0);
    EXPECT_EQ(status.out.find(kArgument), std::string::npos) << status.out;
    EXPECT_NE(status.out.find(kPlain), std::string::npos) << status.out;
  }
  WriteFile(job->path() + "/stop", "");
  EXPECT_EQ(job->Wait().code(), 0);
}

TEST(Secrets, ACommandThatIsNotFound_IsNamedWithoutThem) {
  for (const std::string& word :
       {std::string("DB_PASS=") + kArgument + "/x", std::string("mysql -uroot -p") + kArgument,
        std::string("env TOKEN=") + kArgument + " train.py"}) {
    const RunResult result = RunUnderTbprof({word});
    EXPECT_EQ(result.code(), 127);
    EXPECT_EQ(result.AllPrinted().find(kArgument), std::string::npos) << result.AllPrinted();
    EXPECT_NE(result.AllPrinted().find("cannot find"), std::string::npos) << result.AllPrinted();
  }
}

}  // namespace
}  // namespace tbprof::integration
