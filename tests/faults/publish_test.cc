// SPDX-License-Identifier: Apache-2.0
// Whatever stands where a profile, or a file on its way, is to be: it is not followed, replaced or waited for.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "../integration/harness.h"

namespace tbprof::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// ---- what stands in the way

class InTheWay : public testing::Test {
 protected:
  RunResult Run(const std::vector<std::string>& words = {}, const std::string& temporary = "/tmp") {
    RunOptions options;
    options.environment = {{"TMPDIR", temporary}};
    options.default_logdir = false;
    options.tbprof = {"--logdir=" + logdir_};
    options.tbprof.insert(options.tbprof.end(), words.begin(), words.end());
    options.timeout_s = 30;
    RunResult result = RunUnderTbprof({Program("ends"), "exit", "5"}, options);
    result.logdir = logdir_;
    return result;
  }
  // A shared directory that another user has written to.
  void Share(const std::string& path) {
    std::filesystem::create_directories(path);
    ASSERT_EQ(chmod(path.c_str(), 01777), 0);
  }
  TemporaryDirectory directory_;
  const std::string logdir_ = directory_ / "logs";
};

TEST_F(InTheWay, LinkOfAnotherUser_IsNotFollowed) {
  if (geteuid() != 0) GTEST_SKIP() << "a stranger's files need root";
  Share(logdir_);
  std::filesystem::create_directory(directory_ / "victim");
  for (const char* name : {"plugins", ".tbprof"}) {
    const std::string link = logdir_ + "/" + name;
    std::filesystem::create_symlink(directory_ / "victim", link);
    ASSERT_EQ(lchown(link.c_str(), 65534, 65534), 0);
    const RunResult result = Run({}, directory_.path());
    EXPECT_EQ(result.code(), 5) << result.AllPrinted();
    EXPECT_TRUE(result.Printed("symbolic link")) << result.AllPrinted();
    EXPECT_TRUE(result.Printed(link)) << result.AllPrinted();
    EXPECT_TRUE(result.Printed("; writing to " + directory_.path())) << result.AllPrinted();
    EXPECT_TRUE(std::filesystem::is_empty(directory_ / "victim")) << name;
    std::filesystem::remove_all(logdir_ + "/plugins");
    std::filesystem::remove_all(logdir_ + "/.tbprof");
  }
}

TEST_F(InTheWay, Fifo_DoesNotBlock) {
  std::filesystem::create_directories(logdir_);
  for (const char* name : {"plugins", ".tbprof"}) {
    ASSERT_EQ(mkfifo((logdir_ + "/" + name).c_str(), 0666), 0);
    const RunResult result = Run();
    EXPECT_EQ(result.code(), 125) << result.AllPrinted();
    EXPECT_TRUE(result.Printed(logdir_ + "/" + name)) << result.AllPrinted();
    std::filesystem::remove(logdir_ + "/" + name);
  }
  ASSERT_EQ(mkfifo((directory_ / "fifo").c_str(), 0666), 0);
  const RunResult summary = Run({"--summary-json=" + (directory_ / "fifo")});
  EXPECT_EQ(summary.code(), 5) << summary.AllPrinted();
  EXPECT_TRUE(summary.Printed(directory_ / "fifo")) << "nobody reads it: " << summary.AllPrinted();
  EXPECT_THAT(FilesBelow(logdir_ + "/plugins", ".xplane.pb"), SizeIs(1));
  const RunResult log = Run({"--log-file=" + (directory_ / "fifo")});
  EXPECT_EQ(log.code(), 5) << log.AllPrinted();
  EXPECT_TRUE(log.Printed("no log file: cannot write " + (directory_ / "fifo"))) << log.AllPrinted();
}

// In a run of a given name, in which every rank puts its file: what has the file's name stays, whatever it is.
TEST_F(InTheWay, FileOfTheName_IsNotFollowedOrReplaced) {
  const RunResult first = Run({"--run=first"});
  const std::vector<std::string> made = FilesBelow(logdir_ + "/plugins/profile/first", ".xplane.pb");
  ASSERT_THAT(made, SizeIs(1)) << first.AllPrinted();
  const std::string file = std::filesystem::path(made[0]).filename();
  WriteFile(directory_ / "victim", "untouched");
  for (const std::string kind : {"symlink", "hard link", "fifo", "dangling"}) {
    const std::string run = logdir_ + "/plugins/profile/" + kind;
    std::filesystem::create_directories(run);
    const std::string path = run + "/" + file;
    if (kind == "symlink") std::filesystem::create_symlink(directory_ / "victim", path);
    if (kind == "hard link") std::filesystem::create_hard_link(directory_ / "victim", path);
    if (kind == "fifo" && mkfifo(path.c_str(), 0666) != 0) FAIL() << strerror(errno);
    if (kind == "dangling") std::filesystem::create_symlink(directory_ / "made", path);
    const RunResult result = Run({"--run=" + kind});
    EXPECT_EQ(result.code(), 5) << result.AllPrinted();
    EXPECT_EQ(ReadFile(directory_ / "victim"), "untouched");
    EXPECT_FALSE(std::filesystem::exists(directory_ / "made"));
    size_t whole = 0;
    for (const std::string& other : FilesBelow(run, ".xplane.pb")) {
      if (other == path) continue;
      EXPECT_NE(Profile::Parse(other), nullptr);
      ++whole;
    }
    EXPECT_EQ(whole, 1u) << kind << ": under a name of its own";
  }
}

TEST_F(InTheWay, LinksAtTemporaryNames_AreNotFollowed) {
  // The names under which files are staged can be guessed: the run's, the host's. Automatic run names change by the
  // second, so they are given here.
  WriteFile(directory_ / "victim", "untouched");
  std::filesystem::create_directories(logdir_ + "/.tbprof/staging");
  const RunResult first = Run({"--run=first"});
  const std::vector<std::string> made = FilesBelow(logdir_ + "/plugins/profile/first", ".xplane.pb");
  ASSERT_THAT(made, SizeIs(1)) << first.AllPrinted();
  const std::string host = std::filesystem::path(made[0]).stem().stem();
  std::filesystem::create_directories(logdir_ + "/.tbprof/staging");
  std::filesystem::create_directory_symlink(directory_.path(), logdir_ + "/.tbprof/staging/second@" + host);
  const RunResult result = Run({"--run=second"});
  EXPECT_EQ(result.code(), 5);
  EXPECT_THAT(FilesBelow(logdir_ + "/plugins/profile/second", ".xplane.pb"), SizeIs(1)) << result.AllPrinted();
  EXPECT_EQ(ReadFile(directory_ / "victim"), "untouched");
  EXPECT_THAT(FilesBelow(directory_.path(), ".tmp"), IsEmpty());
}

// ---- names

TEST(Collisions, BothArePidOne_GiveTwoProfiles) {
  if (geteuid() != 0) GTEST_SKIP() << "pid namespaces need root";
  TemporaryDirectory directory;
  for (const std::string run : {"", "given"}) {
    RunOptions options;
    options.default_logdir = false;
    options.tbprof = {"--logdir=" + (directory / "logs"), "--run=" + run};
    if (run.empty()) options.tbprof.pop_back();
    options.launcher = {"/usr/bin/unshare", "-p", "-f", "--mount-proc", "--kill-child"};
    const size_t before = FilesBelow(directory / "logs", ".xplane.pb").size();
    std::vector<std::unique_ptr<Running>> all;
    for (int i = 0; i < 4; ++i) all.push_back(StartUnderTbprof({Program("ends"), "exit", "5"}, options));
    for (auto& one : all) {
      const RunResult result = one->Wait();
      EXPECT_EQ(result.code(), 5) << result.AllPrinted() << result.err;
    }
    const auto after = FilesBelow(directory / "logs", ".xplane.pb");
    EXPECT_EQ(after.size(), before + 4);
    for (const std::string& path : after) EXPECT_NE(Profile::Parse(path), nullptr);
  }
  EXPECT_THAT(FilesBelow(directory / "logs", ".spool"), IsEmpty());
}

}  // namespace
}  // namespace tbprof::integration
