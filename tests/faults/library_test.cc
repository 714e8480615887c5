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
TEST_F(Installed, AllOfItRemovedInMidRun) {
  const auto running = Start({Program("records_until_told"), "2000"});
  ASSERT_TRUE(running->WaitForFact("ready 1\n")) << running->Err();
  std::filesystem::remove_all(root_ / "bin");
  std::filesystem::remove_all(root_ / "lib");
  WriteFile(running->path() + "/go", "");
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 7);
  EXPECT_EQ(result.out, "done\n");
  EXPECT_EQ(result.err, "");
  ASSERT_NE(result.profile, nullptr) << result.AllSaid();
  EXPECT_EQ(Recorded(result, "read"), 1000);
}

// An upgrade renames a new file into place. A program started after it gets the new library.
TEST_F(Installed, LibraryReplacedByTheSameVersion) {
  const auto running =
      Start({"/bin/sh", "-c", "\"$0\" 2000; exec \"$1\" 5", Program("records_until_told"), Program("sleeps_once")});
  ASSERT_TRUE(running->WaitForFact("ready 1\n")) << running->Err();
  std::filesystem::copy_file(Library(), Library() + ".new");
  std::filesystem::rename(Library() + ".new", Library());
  WriteFile(running->path() + "/go", "");
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 0);
  EXPECT_EQ(result.err, "");
  ASSERT_NE(result.profile, nullptr) << result.AllSaid();
  EXPECT_EQ(Recorded(result, "read"), 1000);
  EXPECT_EQ(Recorded(result, "usleep"), 1);
}

// The loader says so itself, on the program's stderr, and runs the program.
TEST_F(Installed, ProgramsStartedWithoutTheLibraryRun) {
  const auto running =
      Start({"/bin/sh", "-c", "\"$0\" 2000; \"$1\" 5; exit 6", Program("records_until_told"), Program("sleeps_once")});
  ASSERT_TRUE(running->WaitForFact("ready 1\n")) << running->Err();
  std::filesystem::remove(Library());
  WriteFile(running->path() + "/go", "");
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 6);
  EXPECT_EQ(result.out, "done\n");
  EXPECT_THAT(result.err, HasSubstr("ld.so")) << "the loader's own line";
  ASSERT_NE(result.profile, nullptr) << result.AllSaid();
  EXPECT_EQ(Recorded(result, "read"), 1000);
  EXPECT_EQ(Recorded(result, "usleep"), 0);
}

TEST(Hello, OfOtherVersionsIsSaidAndNoiseIsNot) {
  const RunResult result = RunUnderTbprof({Program("greets_wrongly")});
  EXPECT_EQ(result.code(), 5);
  ASSERT_NE(result.profile, nullptr) << result.AllSaid();
  EXPECT_TRUE(result.Said("ABI 4711")) << result.AllSaid();
  EXPECT_TRUE(result.profile->HasWarning("ABI 4711"));
  EXPECT_EQ(result.summary["process_count"], 1) << "the program itself, with its own library";
}

TEST(Privileges, GivenUpOneByOne) {
  const Pair pair = RunBoth(Program("changes_privileges"), {}, {"--wait-threshold=0"});
  EXPECT_EQ(pair.bare.out, "no preload, child 0\n") << pair.bare.err;
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(Recorded(pair.profiled, "read"), 200);
  struct stat info;
  ASSERT_EQ(stat(pair.profiled.run_directories[0].c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, geteuid()) << "published as the launcher's user";
}

TEST(KillSwitch, AlsoWhenEverythingElseIsWrong) {
  RunOptions options;
  options.default_logdir = false;
  options.environment = {{"TBPROF_DISABLE", "1"}, {"TBPROF_NO_SUCH_OPTION", "x"}, {"TBPROF_CONFIG", "/no/such/file"}};
  options.tbprof = {"--logdir=/proc/none", "--buffer-size=nonsense"};
  const RunResult result = RunUnderTbprof({Program("ends"), "exit", "9"}, options);
  EXPECT_EQ(result.code(), 9) << result.AllSaid();
  EXPECT_EQ(result.out, "exit 9\n");
  EXPECT_EQ(result.AllSaid(), "");
}

TEST(KillSwitch, AWrongKeyNamesTheNearest) {
  TemporaryDirectory directory;
  WriteFile(directory / "config.toml", "max-profile-siz = \"1MiB\"\n");
  const RunResult result =
      RunTbprof({"run", "--config=" + (directory / "config.toml"), "--", Program("ends"), "exit", "0"});
  EXPECT_EQ(result.code(), 125);
  EXPECT_TRUE(result.Said("max-profile-size")) << result.AllSaid();
  EXPECT_EQ(result.out, "");
}

}  // namespace
}  // namespace tbprof::integration
