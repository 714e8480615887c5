// SPDX-License-Identifier: Apache-2.0
// `tbprof ab`, `run --baseline` and `compare` with real runs. Counts are the same on any machine. Times vary on a busy
// machine: tests only check that there are no impossible answers.
#include <gmock/gmock.h>

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "harness.h"
#include "schema_check.h"

namespace tbprof::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr int kWorse = 1, kCannotTell = 2, kRunWorse = 3, kFailed = 125;
// A program that allocates twice as much breaks this rule.
constexpr char kRule[] = "--fail-on=allocations_per_step>+20%";

class RunGate : public ::testing::Test {
 protected:
  // Nobody may wait for a process that has lost its parent: it stays in state Z.
  static bool Ends(pid_t pid) {
    for (int i = 0; i < 10 * kWaitSeconds; ++i) {
      const std::string stat = ReadFile("/proc/" + std::to_string(pid) + "/stat");
      if (stat.empty() || stat.find(") Z ") != std::string::npos) return true;
      usleep(100'000);
    }
    return false;
  }
  RunOptions In() const {
    RunOptions options;
    options.directory = directory_.path();
    return options;
  }
  std::string logs() const { return directory_ / "logs"; }
  static std::string Counted(int blocks, int status = 0) {
    return Program("counted_steps") + " 60 " + std::to_string(blocks) + " " + std::to_string(status);
  }
  RunResult Ab(const std::string& base, const std::string& now, std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"ab", "--pairs=3", "--logdir=" + logs(), "--base", base, "--new", now};
    words.insert(words.end(), more.begin(), more.end());
    return RunTbprof(words, In());
  }
  RunResult Record(const std::string& run, const std::string& blocks, std::vector<std::string> more = {},
                   const std::string& status = "0") {
    std::vector<std::string> words = {"run", "--run=" + run, "--logdir=" + logs()};
    words.insert(words.end(), more.begin(), more.end());
    for (const std::string& word : {std::string("--"), Program("counted_steps"), std::string("60"), blocks, status}) {
      words.push_back(word);
    }
    return RunTbprof(words, In());
  }
  std::string RunPath(const std::string& run) const { return logs() + "/plugins/profile/" + run; }
  RunResult Save(const std::string& run) { return RunTbprof({"baseline", "save", "main", RunPath(run)}, In()); }

  TemporaryDirectory directory_;
};

TEST_F(RunGate, AbOfTwiceTheAllocations_FailsTheRuleAndKeepsOneProfileASide) {
  const RunResult ab = Ab(Counted(200), Counted(400), {kRule, "--json"});
  ASSERT_EQ(ab.code(), kWorse) << ab.out << ab.AllPrinted();
  const auto json = nlohmann::json::parse(ab.out, nullptr, false);
  ASSERT_TRUE(json.is_object()) << ab.out;
  const auto schema = nlohmann::json::parse(ReadFile(TBPROF_SOURCE_DIR "/docs/gate.schema.json"), nullptr, false);
  EXPECT_THAT(SchemaFaults(schema, json, ""), testing::IsEmpty());
  EXPECT_THAT(json["rules"].dump(), HasSubstr("\"fails\""));
  EXPECT_THAT(FilesBelow(logs(), ".xplane.pb"), SizeIs(2));
  EXPECT_THAT(FilesBelow(logs() + "/ab", "summary.json"), SizeIs(6));
  EXPECT_TRUE(ab.Printed("ab: pair 3 of at most 3")) << ab.AllPrinted();
}

TEST_F(RunGate, AbOfTheSameProgram_HoldsTheRule) {
  const RunResult ab = Ab(Counted(200), Counted(200), {kRule});
  EXPECT_EQ(ab.code(), 0) << ab.out << ab.AllPrinted();
  EXPECT_THAT(ab.out, HasSubstr("allocations_per_step")) << ab.out;
}

TEST_F(RunGate, AbOfACommandThatFails_CannotTellAndSaysWhy) {
  const RunResult ab = Ab(Counted(200), Counted(200, 7) + "; echo no such data >&2; exit 7");
  EXPECT_EQ(ab.code(), kCannotTell) << ab.out << ab.AllPrinted();
  EXPECT_THAT(ab.out + ab.AllPrinted(), HasSubstr("run 1 of --new ended with status 7: no such data"));
}

// A shell that a signal ends alone leaves what it has started behind.
TEST_F(RunGate, AbThatIsEnded_EndsWhatItsCommandHasStarted) {
  for (const int signo : {SIGTERM, SIGHUP, SIGINT, SIGQUIT}) {
    TemporaryDirectory directory;
    const std::string pid_file = directory / "pid";
    const std::string command =
        "sleep 1000 & echo $! > " + pid_file + ".new; mv " + pid_file + ".new " + pid_file + "; echo started >&2; wait";
    const auto ab = Running::Start(
        {Tbprof(), "ab", "--pairs=3", "--logdir=" + (directory / "logs"), "--base", command, "--new", command}, In());
    std::string started;
    for (int i = 0; started.empty() && i < 10 * kWaitSeconds; ++i) {
      usleep(100'000);
      started = std::filesystem::exists(pid_file) ? ReadFile(pid_file) : "";
    }
    const pid_t pid = atoi(started.c_str());
    ASSERT_GT(pid, 0);
    ab->Signal(signo);
    const RunResult result = ab->Wait();
    EXPECT_EQ(result.code(), kCannotTell) << signo;
    EXPECT_TRUE(result.Printed("interrupted")) << result.AllPrinted();
    // A background process of a shell without job control ignores SIGINT and SIGQUIT.
    if (signo == SIGTERM || signo == SIGHUP) {
      EXPECT_TRUE(Ends(pid)) << signo;
    } else {
      kill(pid, SIGKILL);
    }
  }
}

TEST_F(RunGate, WrongUse_IsTheCallersFault) {
  EXPECT_EQ(RunTbprof({"ab", "--base", "true"}, In()).code(), kFailed);
  const RunResult rule = Ab("true", "true", {"--fail-on=step_time>+x"});
  EXPECT_EQ(rule.code(), kFailed);
  EXPECT_TRUE(rule.Printed("column 12")) << rule.AllPrinted();
  const RunResult baseline = Record("one", "200", {"--baseline=main"});
  EXPECT_EQ(baseline.code(), kFailed) << baseline.AllPrinted();
  EXPECT_FALSE(std::filesystem::exists(RunPath("one"))) << "the command was started";
}

TEST_F(RunGate, RunBesideABaseline_EndsWith3WhereItIsWorse) {
  ASSERT_EQ(Record("one", "200").code(), 0);
  const RunResult saved = Save("one");
  ASSERT_EQ(saved.code(), 0) << saved.AllPrinted();
  const RunResult same = Record("same", "200", {"--baseline=main", kRule});
  EXPECT_EQ(same.code(), 0) << same.AllPrinted();
  const RunResult worse = Record("worse", "400", {"--baseline=main", kRule});
  EXPECT_EQ(worse.code(), kRunWorse) << worse.AllPrinted();
  EXPECT_TRUE(worse.Printed("allocations_per_step")) << worse.AllPrinted();
  // The times of one run per side are unclear: this passes unless --unclear=fail.
  EXPECT_EQ(Record("unclear", "200", {"--baseline=main"}).code(), 0);
  EXPECT_EQ(Record("strict", "200", {"--baseline=main", "--unclear=fail"}).code(), kRunWorse);
  EXPECT_EQ(Record("failing", "400", {"--baseline=main", kRule}, "9").code(), 9) << "the command's own status";
}

TEST_F(RunGate, CompareWithABaseline_DecidesCountsOfOneRunASide) {
  ASSERT_EQ(Record("one", "200").code(), 0);
  ASSERT_EQ(Save("one").code(), 0);
  ASSERT_EQ(Record("two", "400").code(), 0);
  const auto compare = [&](std::vector<std::string> more) {
    more.insert(more.begin(), "compare");
    more.insert(more.end(), {"baseline:main", RunPath("two")});
    return RunTbprof(more, In());
  };
  EXPECT_EQ(compare({}).code(), kCannotTell);
  EXPECT_EQ(compare({"--unclear=pass"}).code(), 0);
  const RunResult worse = compare({kRule});
  EXPECT_EQ(worse.code(), kWorse) << worse.out;
  EXPECT_THAT(compare({kRule, "--annotations"}).out, HasSubstr("::error"));
  EXPECT_THAT(compare({kRule, "--md"}).out, HasSubstr("| "));
}

}  // namespace
}  // namespace tbprof::integration
