// SPDX-License-Identifier: Apache-2.0
// tbprof's own files replaced or removed while a command runs, libraries of another version, and programs that take
// away what a library could lean on.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "../integration/harness.h"

namespace tbprof::integration {
namespace {

using ::testing::HasSubstr;

// An installation of its own: bin/tbprof and lib/tbprof/*.
class Installed : public testing::Test {
 protected:
  Installed() {
    std::filesystem::create_directories(root_ / "bin");
    std::filesystem::copy_file(Tbprof(), root_ / "bin/tbprof");
    std::filesystem::copy(TBPROF_BUILD_DIR "/lib", root_ / "lib",
                          std::filesystem::copy_options::recursive | std::filesystem::copy_options::copy_symlinks);
    chmod(root_.path().c_str(), 0755);  // where all users can read it
  }
  std::string Library() const { return root_ / "lib/tbprof/libtbprof_preload.so"; }
  std::unique_ptr<Running> Start(const std::vector<std::string>& command) {
    RunOptions options;
    std::vector<std::string> words = {root_ / "bin/tbprof", "run", "--logdir=@LOGDIR@", "--wait-threshold=0", "--"};
    words.insert(words.end(), command.begin(), command.end());
    return Running::Start(words, options);
  }
  TemporaryDirectory root_;
};

// What runs goes on with what it has mapped; the worker is started from the launcher's own image.
TEST_F(Installed, RemovedDuringTheRun_RunIsWhole) {
  const auto running = Start({Program("records_until_asked"), "2000"});
  ASSERT_TRUE(running->WaitForFact("ready 1\n")) << running->Err();
  std::filesystem::remove_all(root_ / "bin");
  std::filesystem::remove_all(root_ / "lib");
  WriteFile(running->path() + "/go", "");
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 7);
  EXPECT_EQ(result.out, "done\n");
  EXPECT_EQ(result.err, "");
  ASSERT_NE(result.profile, nullptr) << result.AllPrinted();
  EXPECT_EQ(Recorded(result, "read"), 1000);
}

// An upgrade renames a new file into place. A program started after it gets the new library.
TEST_F(Installed, LibraryReplacedBySameVersion_RunIsWhole) {
  const auto running =
      Start({"/bin/sh", "-c", "\"$0\" 2000; exec \"$1\" 5", Program("records_until_asked"), Program("sleeps_once")});
  ASSERT_TRUE(running->WaitForFact("ready 1\n")) << running->Err();
  std::filesystem::copy_file(Library(), Library() + ".new");
  std::filesystem::rename(Library() + ".new", Library());
  WriteFile(running->path() + "/go", "");
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 0);
  EXPECT_EQ(result.err, "");
  ASSERT_NE(result.profile, nullptr) << result.AllPrinted();
  EXPECT_EQ(Recorded(result, "read"), 1000);
  EXPECT_EQ(Recorded(result, "usleep"), 1);
}

// The loader prints that itself, on the program's stderr, and runs the program.
TEST_F(Installed, LibraryRemoved_LaterProgramsRun) {
  const auto running =
      Start({"/bin/sh", "-c", "\"$0\" 2000; \"$1\" 5; exit 6", Program("records_until_asked"), Program("sleeps_once")});
  ASSERT_TRUE(running->WaitForFact("ready 1\n")) << running->Err();
  std::filesystem::remove(Library());
  WriteFile(running->path() + "/go", "");
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 6);
  EXPECT_EQ(result.out, "done\n");
  EXPECT_THAT(result.err, HasSubstr("ld.so")) << "the loader's own line";
  ASSERT_NE(result.profile, nullptr) << result.AllPrinted();
  EXPECT_EQ(Recorded(result, "read"), 1000);
  EXPECT_EQ(Recorded(result, "usleep"), 0);
}

// An installation below a directory of mode 0700, run by root.
class InstalledForRoot : public Installed {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root: nobody else may start a child as another user";
    chmod(root_.path().c_str(), 0700);
    chmod(places_.path().c_str(), 0711);
  }
  std::unique_ptr<Running> StartAt(const std::vector<std::string>& command, const RunOptions& from = {}) {
    RunOptions options = from;
    options.environment.emplace_back("TMPDIR", places_.path());
    std::vector<std::string> words = {root_ / "bin/tbprof", "run", "--logdir=@LOGDIR@", "--wait-threshold=0", "--"};
    words.insert(words.end(), command.begin(), command.end());
    return Running::Start(words, options);
  }
  static std::vector<std::string> AsNobody(std::vector<std::string> command) {
    command.insert(command.begin(), {"/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"});
    return command;
  }
  std::vector<std::string> Copies() const {
    std::vector<std::string> copies;
    for (const auto& entry : std::filesystem::directory_iterator(places_.path())) {
      if (entry.path().filename().string().starts_with("tbprof-lib-")) copies.push_back(entry.path());
    }
    return copies;
  }
  TemporaryDirectory places_;
};

TEST_F(InstalledForRoot, ChildThatDropsItsUser_RunsAsBareAndIsRecorded) {
  const std::vector<std::string> command =
      AsNobody({"/bin/sh", "-c", "read x < /proc/self/status; /bin/ls /proc/self/fd >/dev/null; echo done; exit 5"});
  const RunResult bare = RunBare(command);
  const RunResult result = StartAt(command)->Wait();
  EXPECT_EQ(bare.code(), 5);
  EXPECT_TRUE(SameOutput(bare, result)) << result.err;
  EXPECT_EQ(result.err, "");
  ASSERT_NE(result.profile, nullptr) << result.AllPrinted();
  // setpriv becomes the shell by exec, and ls is a fork child that execs: each is one process.
  EXPECT_GE(result.summary["process_count"], 2) << "the shell, ls";
  EXPECT_FALSE(result.Printed("unrecorded")) << result.AllPrinted();
  EXPECT_THAT(Copies(), testing::IsEmpty()) << "removed at the end";
}

TEST_F(InstalledForRoot, CopyOfAKilledLauncher_IsSweptWhenNobodyNeedsIt) {
  const auto running = StartAt({Program("waits_for_signals"), "60"});
  ASSERT_TRUE(running->WaitForFact("warm ")) << running->Err();
  ASSERT_THAT(Copies(), testing::SizeIs(1));
  const std::string left = Copies()[0];
  running->Signal(SIGKILL);
  running->Wait();
  // The program goes on: what it starts next loads the library from there.
  EXPECT_EQ(StartAt({"/bin/true"})->Wait().code(), 0);
  EXPECT_THAT(Copies(), testing::ElementsAre(left)) << "still in the environment of a process";
  WriteFile(running->path() + "/stop", "");
  while (StartAt({"/bin/true"})->Wait().code() == 0 && !Copies().empty()) usleep(20'000);
  EXPECT_THAT(Copies(), testing::IsEmpty());
}

TEST_F(InstalledForRoot, ProcessThatClearsItsEnvironment_KeepsTheCopy) {
  const auto running = StartAt({Program("overwrites_environment")});
  ASSERT_TRUE(running->WaitForFact("ready 1\n")) << running->Err();
  ASSERT_THAT(Copies(), testing::SizeIs(1));
  const std::string used = Copies()[0];
  running->Signal(SIGKILL);
  running->Wait();
  EXPECT_EQ(StartAt({"/bin/true"})->Wait().code(), 0);
  EXPECT_THAT(Copies(), testing::ElementsAre(used)) << "the process has the library mapped";
  WriteFile(running->path() + "/stop", "");
  while (StartAt({"/bin/true"})->Wait().code() == 0 && !Copies().empty()) usleep(20'000);
}

TEST_F(InstalledForRoot, NoPlaceThatOthersCannotChange_IsUsed) {
  chmod(places_.path().c_str(), 0777);  // not sticky: another user could put a library of his in place of ours
  const auto running = StartAt(AsNobody({"/bin/sh", "-c", "/bin/true; exit 4"}));
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 4);
  EXPECT_EQ(result.err, "") << "another place was found";
  EXPECT_THAT(Copies(), testing::IsEmpty());
}

TEST_F(InstalledForRoot, SuOfRoot_IsRecordedAndNothingElseIsPrinted) {
  if (access("/bin/su", X_OK) != 0) GTEST_SKIP() << "there is no su";
  const RunResult result = StartAt({"/bin/su", "nobody", "-s", "/bin/sh", "-c", "/bin/ls / >/dev/null"})->Wait();
  ASSERT_EQ(result.code(), 0) << result.err;
  EXPECT_FALSE(result.Printed("nothing is recorded")) << result.AllPrinted();
  EXPECT_GE(result.summary["process_count"], 3) << "su, the shell, ls";
}

TEST_F(InstalledForRoot, Doctor_ReportsTheCopy) {
  RunOptions options;
  options.environment = {{"TMPDIR", places_.path()}};
  const RunResult result =
      Running::Start({root_ / "bin/tbprof", "doctor", "--", "/usr/bin/setpriv", "--reuid=65534", "/bin/true"}, options)
          ->Wait();
  EXPECT_THAT(result.out + result.AllPrinted(), HasSubstr("readable by its owner only; each run copies it to"));
}

TEST(Hello, OtherVersion_IsReportedAndNoiseIsNot) {
  const RunResult result = RunUnderTbprof({Program("greets_wrongly")});
  EXPECT_EQ(result.code(), 5);
  ASSERT_NE(result.profile, nullptr) << result.AllPrinted();
  EXPECT_TRUE(result.Printed("ABI 4711")) << result.AllPrinted();
  EXPECT_TRUE(result.profile->HasWarning("ABI 4711"));
  EXPECT_EQ(result.summary["process_count"], 1) << "the program itself, with its own library";
}

TEST(Privileges, GivenUpOneByOne_IsAsBare) {
  const Pair pair = RunBoth(Program("changes_privileges"), {}, {"--wait-threshold=0"});
  EXPECT_EQ(pair.bare.out, "no preload, child 0\n") << pair.bare.err;
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(Recorded(pair.profiled, "read"), 200);
  struct stat info;
  ASSERT_EQ(stat(pair.profiled.run_directories[0].c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, geteuid()) << "published as the launcher's user";
}

TEST(KillSwitch, OtherFaults_CommandRuns) {
  RunOptions options;
  options.default_logdir = false;
  options.environment = {{"TBPROF_DISABLE", "1"}, {"TBPROF_NO_SUCH_OPTION", "x"}, {"TBPROF_CONFIG", "/no/such/file"}};
  options.tbprof = {"--logdir=/proc/none", "--buffer-size=nonsense"};
  const RunResult result = RunUnderTbprof({Program("ends"), "exit", "9"}, options);
  EXPECT_EQ(result.code(), 9) << result.AllPrinted();
  EXPECT_EQ(result.out, "exit 9\n");
  EXPECT_EQ(result.AllPrinted(), "");
}

TEST(KillSwitch, WrongKey_NearestIsNamed) {
  TemporaryDirectory directory;
  WriteFile(directory / "config.toml", "max-profile-siz = \"1MiB\"\n");
  const RunResult result =
      RunTbprof({"run", "--config=" + (directory / "config.toml"), "--", Program("ends"), "exit", "0"});
  EXPECT_EQ(result.code(), 125);
  EXPECT_TRUE(result.Printed("max-profile-size")) << result.AllPrinted();
  EXPECT_EQ(result.out, "");
}

}  // namespace
}  // namespace tbprof::integration
