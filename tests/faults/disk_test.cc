// SPDX-License-Identifier: Apache-2.0
// Full disks and log directories that go away, on small file systems of their own in a private mount namespace: nothing
// outlives a test.
#include <gmock/gmock.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>

#include "../integration/harness.h"

namespace tbprof::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A tmpfs, seen by this process and its children alone.
class SmallDisk {
 public:
  explicit SmallDisk(const std::string& size) {
    static const bool apart = unshare(CLONE_NEWNS) == 0 && mount("", "/", "", MS_REC | MS_PRIVATE, nullptr) == 0;
    mounted_ = apart && mount("tmpfs", directory_.path().c_str(), "tmpfs", 0, ("size=" + size).c_str()) == 0;
  }
  ~SmallDisk() {
    if (mounted_) umount2(directory_.path().c_str(), MNT_DETACH);
  }
  bool mounted() const { return mounted_; }
  std::string operator/(std::string_view name) const { return directory_ / name; }
  const std::string& path() const { return directory_.path(); }
  void Fill(const std::string& name) const {
    FILE* file = fopen((directory_ / name).c_str(), "w");
    ASSERT_NE(file, nullptr);
    setvbuf(file, nullptr, _IONBF, 0);
    const std::string bytes(4096, 'x');
    while (fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size()) {
    }
    fclose(file);
  }

 private:
  TemporaryDirectory directory_;
  bool mounted_ = false;
};

#define NEEDS(disk) \
  if (!(disk).mounted()) GTEST_SKIP() << "no mount namespace: needs root"

RunResult RunOn(const std::string& logdir, const std::vector<std::string>& command,
                const std::vector<std::string>& words = {}) {
  RunOptions options;
  options.default_logdir = false;
  options.tbprof = {"--logdir=" + logdir, "--wait-threshold=0", "--max-profile-size=1GiB"};
  options.tbprof.insert(options.tbprof.end(), words.begin(), words.end());
  RunResult result = RunUnderTbprof(command, options);
  result.logdir = logdir;
  ReadProfile(&result);
  return result;
}

int64_t Calls(const nlohmann::json& summary) {
  int64_t calls = 0;
  if (!summary.is_object()) return -1;
  for (const auto& operation : summary["processes"][0]["operations"]) {
    if (operation["operation"] == "read" || operation["operation"] == "write") {
      calls += operation["recorded"].get<int64_t>();
    }
  }
  return calls;
}

TEST(FullDisk, BeforeTheStart_IsRefused) {
  SmallDisk disk("1m");
  NEEDS(disk);
  disk.Fill("ballast");
  const RunResult result = RunOn(disk / "logs", {Program("ends"), "exit", "0"});
  EXPECT_EQ(result.code(), 125) << result.AllPrinted();
  EXPECT_EQ(result.out, "") << "the command was started";
  ASSERT_THAT(result.printed, SizeIs(1));
  EXPECT_THAT(result.printed[0], HasSubstr("No space left on device"));
  EXPECT_THAT(result.printed[0], HasSubstr(disk / "logs"));
  const RunResult anyway = RunOn(disk / "logs", {Program("ends"), "exit", "6"}, {"--on-error=run"});
  EXPECT_EQ(anyway.code(), 6);
}

// ---- no place for the launcher's socket

// `full` are tmpfs of so many inodes: their root takes one, and a second is enough for a directory without a socket.
RunResult RunWithFull(const std::vector<std::string>& full, const std::string& inodes, const std::string& logdir,
                      const std::vector<std::string>& words = {}, const std::string& runtime_directory = "") {
  RunOptions options;
  options.default_logdir = false;
  options.tbprof = {"--logdir=" + logdir, "--wait-threshold=0"};
  options.tbprof.insert(options.tbprof.end(), words.begin(), words.end());
  options.environment = {{"TMPDIR", std::nullopt}, {"XDG_RUNTIME_DIR", std::nullopt}};
  if (!runtime_directory.empty()) options.environment[1].second = runtime_directory;
  std::string before;
  for (const std::string& place : full) {
    before += "mount -t tmpfs -o mode=1777,nr_inodes=" + inodes + " tmpfs " + place + " || exit 99; ";
  }
  options.launcher = {"/usr/bin/unshare", "-m", "--propagation",        "private",
                      "/bin/sh",          "-c", before + "exec \"$@\"", "sh"};
  RunResult result = RunUnderTbprof({"/bin/sh", "-c", "echo $TBPROF_SESSION; exit 7"}, options);
  result.logdir = logdir;
  ReadProfile(&result);
  return result;
}

// What the tests keep is in /tmp, too: here it is not.
class NoInodes : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "mounting needs root";
    ASSERT_NE(mkdtemp(place_.data()), nullptr);
    ASSERT_EQ(mkdir((place_ + "/run").c_str(), 0700), 0);
    logdir_ = place_ + "/logs";
  }
  void TearDown() override { std::filesystem::remove_all(place_); }
  void ExpectProfiled(const RunResult& result, const std::string& socket) {
    EXPECT_EQ(result.code(), 7) << result.AllPrinted();
    EXPECT_THAT(result.out, HasSubstr(";" + socket + "/tbprof-"));
    EXPECT_NE(result.profile, nullptr) << result.AllPrinted();
    EXPECT_THAT(FilesBelow(place_, "/s"), IsEmpty());
    EXPECT_FALSE(std::filesystem::exists(logdir_ + "/.tbprof"));
  }
  std::string place_ = "/var/tmp/tbprof-test-XXXXXX";
  std::string logdir_;
};

TEST_P(NoInodes, Tmp_SocketIsElsewhere) {
  ExpectProfiled(RunWithFull({"/tmp"}, GetParam(), logdir_, {}, place_ + "/run"), place_ + "/run");
  ExpectProfiled(RunWithFull({"/tmp"}, GetParam(), logdir_), "/dev/shm");
}

// A directory that others can write to is no place for it.
TEST_P(NoInodes, TmpAndRuntimeDirectoryOfOthers_SocketIsInSharedMemory) {
  ASSERT_EQ(chmod((place_ + "/run").c_str(), 0777), 0);
  ExpectProfiled(RunWithFull({"/tmp"}, GetParam(), logdir_, {}, place_ + "/run"), "/dev/shm");
}

TEST_P(NoInodes, TmpAndSharedMemory_SocketIsInTheLogdir) {
  ExpectProfiled(RunWithFull({"/tmp", "/dev/shm"}, GetParam(), logdir_), logdir_ + "/.tbprof");
}

TEST_P(NoInodes, Everywhere_IsRefused) {
  const std::string far = place_ + "/" + std::string(100, 'x') + "/logs";  // fits no socket's address
  const RunResult result = RunWithFull({"/tmp", "/dev/shm"}, GetParam(), far);
  EXPECT_EQ(result.code(), 125);
  EXPECT_EQ(result.out, "") << "the command was started";
  ASSERT_THAT(result.printed, SizeIs(1));
  EXPECT_THAT(result.printed[0], HasSubstr("No space left on device"));
  EXPECT_THAT(result.printed[0], HasSubstr("--on-error=run"));
  EXPECT_THAT(FilesBelow(place_, ".spool"), IsEmpty());
  EXPECT_EQ(RunWithFull({"/tmp", "/dev/shm"}, GetParam(), far, {"--on-error=run"}).code(), 7);
}
INSTANTIATE_TEST_SUITE_P(All, NoInodes, testing::Values("1", "2"));

// The spool takes half of what is free by itself, so that the profile fits, and counts the rest.
TEST(FullDisk, Spool_LeavesSpaceForTheProfile) {
  SmallDisk disk("16m");
  NEEDS(disk);
  const RunResult result =
      RunOn(disk / "logs", {Program("survive"), "400000", "return"},
            {"--wait-threshold=0", "--max-profile-size=1MiB", "--window=all", "--spool-dir=" + (disk / "spool")});
  EXPECT_EQ(result.code(), 0);
  EXPECT_EQ(result.out, "about to end\n");
  ASSERT_NE(result.profile, nullptr) << result.AllPrinted();
  EXPECT_TRUE(result.Printed("records are missing")) << result.AllPrinted();
  EXPECT_TRUE(result.profile->HasWarning("records are missing"));
  EXPECT_GT(Calls(result.summary), 0);
  EXPECT_LT(Calls(result.summary), 400000);
  EXPECT_THAT(FilesBelow(disk.path(), ".spool"), IsEmpty());
}

// Its end is shown, and everything counted, with no room for half of it.
TEST(FullDisk, SpoolFull_RunContinuesWithTheRest) {
  SmallDisk disk("16m");
  NEEDS(disk);
  const RunResult result = RunOn(disk / "logs", {Program("survive"), "400000", "return"},
                                 {"--wait-threshold=0", "--max-profile-size=1MiB", "--spool-dir=" + (disk / "spool")});
  EXPECT_EQ(result.code(), 0);
  EXPECT_EQ(result.out, "about to end\n");
  EXPECT_TRUE(result.Printed("too much for one profile")) << result.AllPrinted();
  EXPECT_FALSE(result.Printed("records are missing")) << result.AllPrinted();
  const std::vector<std::string> ends = FilesBelow(disk.path(), "_end/summary.json");
  ASSERT_THAT(ends, SizeIs(1)) << result.AllPrinted();
  EXPECT_EQ(Calls(nlohmann::json::parse(ReadFile(ends[0]))), 400000);
  EXPECT_THAT(FilesBelow(disk.path(), ".spool"), IsEmpty());
}

TEST(FullDisk, DuringTheSpool_RecordsThatFitAreKept) {
  SmallDisk disk("8m");
  SmallDisk logs("64m");
  NEEDS(disk);
  const RunResult result = RunOn(logs / "logs", {Program("survive"), "400000", "return"},
                                 {"--spool-dir=" + (disk / "spool"), "--spool-limit=1GiB"});
  EXPECT_EQ(result.code(), 0);
  EXPECT_EQ(result.out, "about to end\n");
  ASSERT_NE(result.profile, nullptr) << result.AllPrinted();
  EXPECT_TRUE(result.Printed("No space left on device")) << result.AllPrinted();
  EXPECT_TRUE(result.Printed(disk / "spool")) << result.AllPrinted();
  EXPECT_TRUE(result.profile->HasWarning("No space left on device"));
  EXPECT_GT(Calls(result.summary), 0) << "what fits is kept";
  EXPECT_EQ(result.summary["records"]["corrupt"], 0);
}

// Nothing half is published, the raw records stay, and make the profile where there is room.
TEST(FullDisk, DuringPublish_SpoolIsKept) {
  SmallDisk disk("1m");
  SmallDisk spools("64m");
  NEEDS(disk);
  const RunResult result =
      RunOn(disk / "logs", {Program("survive"), "200000", "_exit"}, {"--spool-dir=" + (spools / "spool")});
  EXPECT_EQ(result.code(), 3);
  EXPECT_EQ(result.profile, nullptr);
  EXPECT_TRUE(result.Printed("No space left on device")) << result.AllPrinted();
  EXPECT_TRUE(result.Printed(disk / "logs/plugins/profile")) << result.AllPrinted();
  EXPECT_TRUE(result.Printed("tbprof recover " + (spools / "spool"))) << result.AllPrinted();
  EXPECT_THAT(FilesBelow(disk.path(), ".pb"), IsEmpty());
  EXPECT_THAT(FilesBelow(disk.path(), ".tmp"), IsEmpty());
  ASSERT_THAT(FilesBelow(spools.path(), ".spool"), SizeIs(1));
  const RunResult recovered =
      RunTbprof({"recover", "--logdir=" + (spools / "logs"), "--max-profile-size=1GiB", spools / "spool"});
  EXPECT_EQ(recovered.code(), 0) << recovered.AllPrinted();
  RunResult found;
  found.logdir = spools / "logs";
  ReadProfile(&found);
  ASSERT_NE(found.profile, nullptr);
  EXPECT_EQ(Calls(found.summary), 200000);
}

TEST(FullDisk, Strict_IsTheExitStatus) {
  SmallDisk disk("1m");
  SmallDisk spools("64m");
  NEEDS(disk);
  const RunResult result =
      RunOn(disk / "logs", {Program("survive"), "200000", "return"}, {"--spool-dir=" + (spools / "spool"), "--strict"});
  EXPECT_EQ(result.code(), 125);
}

TEST(LogDirectory, ReadOnlyFileSystem_IsRefused) {
  SmallDisk disk("1m");
  NEEDS(disk);
  ASSERT_EQ(mount("", disk.path().c_str(), "", MS_REMOUNT | MS_RDONLY, nullptr), 0);
  const RunResult result = RunOn(disk / "logs", {Program("ends"), "exit", "0"});
  EXPECT_EQ(result.code(), 125);
  EXPECT_TRUE(result.Printed("Read-only file system")) << result.AllPrinted();
  EXPECT_TRUE(result.Printed(disk / "logs"));
  EXPECT_EQ(result.out, "");
}

// ---- what happens to the directory while the command runs

class Vanished : public testing::Test {
 protected:
  std::unique_ptr<Running> Start() {
    auto running = StartUnderTbprof({Program("records_until_asked"), "2000"}, options_);
    EXPECT_TRUE(running->WaitForFact("ready 1\n")) << running->Err();
    return running;
  }
  static RunResult End(Running* running) {
    WriteFile(running->path() + "/go", "");
    RunResult result = running->Wait();
    EXPECT_EQ(result.code(), 7);
    EXPECT_EQ(result.out, "done\n");
    return result;
  }
  static void ExpectWhole(const RunResult& result, std::string_view what) {
    ASSERT_NE(result.profile, nullptr) << result.AllPrinted();
    EXPECT_EQ(Calls(result.summary), 2000);
    EXPECT_TRUE(result.Printed(what)) << result.AllPrinted();
    EXPECT_TRUE(result.profile->HasWarning(what));
  }
  RunOptions options_ = [] {
    RunOptions options;
    options.tbprof = {"--wait-threshold=0"};
    return options;
  }();
};

// Whatever has its name now, a directory of another user's for instance, is not the one that was checked.
TEST_F(Vanished, RenamedLogdir_ProfileIsWrittenThere) {
  for (const bool in_the_way : {false, true}) {
    const auto running = Start();
    const std::string moved = running->path() + "/moved";
    std::filesystem::rename(running->logdir(), moved);
    if (in_the_way) std::filesystem::create_directory(running->logdir());
    RunResult result = End(running.get());
    EXPECT_TRUE(result.Printed(moved + "/plugins/profile")) << result.AllPrinted();
    EXPECT_EQ(std::filesystem::exists(result.logdir), in_the_way);
    EXPECT_THAT(FilesBelow(result.logdir, ""), IsEmpty());
    result.logdir = moved;
    ReadProfile(&result);
    ExpectWhole(result, "renamed while the command ran");
    EXPECT_THAT(FilesBelow(moved, ".spool"), IsEmpty()) << "read where it went, and removed there";
  }
}

TEST_F(Vanished, RemovedLogdir_IsMadeAgain) {
  const auto running = Start();
  std::filesystem::remove_all(running->logdir());
  ExpectWhole(End(running.get()), "removed while the command ran");
}

// The raw records are where they were: the line that is printed works.
TEST_F(Vanished, LogdirNotWritable_IsAnErrorAndTheSpoolKept) {
  const auto running = Start();
  const std::string moved = running->path() + "/moved";
  std::filesystem::rename(running->logdir(), moved);
  std::filesystem::remove_all(moved + "/plugins");
  WriteFile(moved + "/plugins", "in the way");
  RunResult result = End(running.get());
  EXPECT_EQ(result.profile, nullptr);
  EXPECT_TRUE(result.Printed(moved + "/plugins")) << result.AllPrinted();
  ASSERT_THAT(FilesBelow(moved, ".spool"), SizeIs(1));
  EXPECT_TRUE(result.Printed("tbprof recover " + FilesBelow(moved, ".spool")[0])) << result.AllPrinted();
  std::filesystem::remove(moved + "/plugins");
  EXPECT_EQ(RunTbprof({"recover", moved}).code(), 0);
  result.logdir = moved;
  ReadProfile(&result);
  ASSERT_NE(result.profile, nullptr);
  EXPECT_EQ(Calls(result.summary), 2000);
}

TEST_F(Vanished, LostSpool_IsReported) {
  const auto running = Start();
  std::filesystem::remove_all(running->logdir());
  WriteFile(running->logdir(), "in the way");
  const RunResult result = End(running.get());
  EXPECT_EQ(result.profile, nullptr);
  EXPECT_TRUE(result.Printed("was removed")) << result.AllPrinted();
  EXPECT_FALSE(result.Printed("recover")) << result.AllPrinted();
}

TEST_F(Vanished, RemovedProfileDirectory_IsMadeAgain) {
  const auto running = Start();
  std::filesystem::remove_all(running->logdir() + "/plugins");
  const RunResult result = End(running.get());
  ASSERT_NE(result.profile, nullptr) << result.AllPrinted();
  EXPECT_EQ(Calls(result.summary), 2000);
}

}  // namespace
}  // namespace tbprof::integration
