// SPDX-License-Identifier: Apache-2.0
// What another user, who may write there, does to the log directory of root's tbprof while the command runs; and what
// such a directory holds for `recover` and `capture`. Nothing of root's is written outside the directory that was
// checked at the start.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "other_user.h"

namespace tbprof::integration {
namespace {

namespace fs = std::filesystem;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class SwappedLogdir : public OtherUserTest {
 protected:
  RunOptions Options() const {
    RunOptions options;
    options.default_logdir = false;
    options.tbprof = {"--logdir=" + logdir_, "--wait-threshold=0", "--run=mine"};
    return options;
  }
  std::unique_ptr<Running> Start(const std::vector<std::string>& words = {}) {
    RunOptions options = Options();
    options.tbprof.insert(options.tbprof.end(), words.begin(), words.end());
    auto running = StartUnderTbprof({Program("records_until_asked"), "2000"}, options);
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
  // One profile below the directory, with all that was recorded.
  static void ExpectWhole(const RunResult& result, const std::string& directory) {
    const std::vector<std::string> profiles = FilesBelow(directory, ".xplane.pb");
    ASSERT_THAT(profiles, SizeIs(1)) << result.AllPrinted();
    const auto profile = Profile::Parse(profiles[0]);
    ASSERT_NE(profile, nullptr);
    EXPECT_EQ(profile->Count("read") + profile->Count("write"), 2000);
  }

  const std::string logdir_ = theirs_ + "/logs";
};

TEST_F(SwappedLogdir, Link_IsNotFollowed) {
  const auto running = Start();
  ASSERT_TRUE(AsOther([&] { return Rename(logdir_, theirs_ + "/moved") && Link(victim_, logdir_); }));
  const RunResult result = End(running.get());
  ExpectWhole(result, theirs_ + "/moved");
  EXPECT_TRUE(result.Printed("renamed while the command ran")) << result.AllPrinted();
  EXPECT_TRUE(result.Printed(theirs_ + "/moved")) << result.AllPrinted();
}

TEST_F(SwappedLogdir, LinkByTheCommand_IsNotFollowed) {
  RunOptions options = Options();
  const std::string script =
      "cd " + theirs_ + " && mv logs moved && ln -s " + victim_ + " logs && cat /proc/self/status | grep ^Uid";
  const RunResult result = RunUnderTbprof(
      {"/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/bin/sh", "-c", script}, options);
  EXPECT_EQ(result.code(), 0) << result.err;
  EXPECT_THAT(FilesBelow(theirs_ + "/moved", ".xplane.pb"), SizeIs(1)) << result.AllPrinted();
}

TEST_F(SwappedLogdir, Directory_IsNotUsed) {
  const auto running = Start();
  ASSERT_TRUE(AsOther([&] { return Rename(logdir_, theirs_ + "/moved") && mkdir(logdir_.c_str(), 0777) == 0; }));
  ExpectWhole(End(running.get()), theirs_ + "/moved");
  EXPECT_THAT(FilesBelow(logdir_, ""), IsEmpty());
}

TEST_F(SwappedLogdir, Parent_IsNotFollowed) {
  fs::create_directories(theirs_ + "/inner");
  ASSERT_EQ(chown((theirs_ + "/inner").c_str(), kOther, kOther), 0);
  RunOptions options = Options();
  options.tbprof[0] = "--logdir=" + theirs_ + "/inner/logs";
  auto running = StartUnderTbprof({Program("records_until_asked"), "2000"}, options);
  ASSERT_TRUE(running->WaitForFact("ready 1\n")) << running->Err();
  ASSERT_TRUE(
      AsOther([&] { return Rename(theirs_ + "/inner", theirs_ + "/moved") && Link(victim_, theirs_ + "/inner"); }));
  ExpectWhole(End(running.get()), theirs_ + "/moved/logs");
}

TEST_F(SwappedLogdir, BeforeACapture_IsNotFollowed) {
  const auto running = Start({"--window-duration=100ms"});
  ASSERT_TRUE(AsOther([&] { return Rename(logdir_, theirs_ + "/moved") && Link(victim_, logdir_); }));
  kill(running->pid(), SIGUSR1);
  ASSERT_TRUE(running->WaitForError(theirs_ + "/moved/plugins/profile/")) << running->Err();
  const RunResult result = End(running.get());
  EXPECT_THAT(FilesBelow(theirs_ + "/moved", ".xplane.pb"), SizeIs(2)) << result.AllPrinted();
}

TEST_F(SwappedLogdir, NameWithControlCharacters_IsEscaped) {
  const std::string moved = theirs_ + "/\x1b]0;x\x07\nline";
  for (const bool fails : {false, true}) {
    const auto running = Start({"--keep-spool"});
    ASSERT_TRUE(AsOther([&] { return Rename(logdir_, moved); }));
    if (fails) {
      fs::remove_all(moved + "/plugins");
      WriteFile(moved + "/plugins", "in the way");
    }
    const RunResult result = End(running.get());
    EXPECT_EQ(result.AllPrinted().find('\x1b'), std::string::npos);
    EXPECT_EQ(result.err, "") << "lines that are not tbprof's";
    fs::remove_all(moved);
  }
}

// The other user owns the log directory itself.
class SwappedBeneath : public SwappedLogdir {
 protected:
  void SetUp() override {
    SwappedLogdir::SetUp();
    if (IsSkipped()) return;
    ASSERT_EQ(mkdir(logdir_.c_str(), 0755), 0);
    ASSERT_EQ(chown(logdir_.c_str(), kOther, kOther), 0);
  }
};

TEST_F(SwappedBeneath, Plugins_IsNotFollowed) {
  const auto running = Start();
  ASSERT_TRUE(
      AsOther([&] { return Rename(logdir_ + "/plugins", logdir_ + "/old") && Link(victim_, logdir_ + "/plugins"); }));
  const RunResult result = End(running.get());
  // No profile, but no loss: the raw records stay, and the line that is printed works.
  EXPECT_TRUE(result.Printed("is a symbolic link")) << result.AllPrinted();
  ASSERT_TRUE(AsOther([&] { return unlink((logdir_ + "/plugins").c_str()) == 0; }));
  EXPECT_EQ(RunTbprof({"recover", logdir_}).code(), 0);
  ExpectWhole(result, logdir_);
}

TEST_F(SwappedBeneath, PluginsProfile_IsNotFollowed) {
  ASSERT_TRUE(AsOther([&] { return mkdir((logdir_ + "/plugins").c_str(), 0755) == 0; }));
  const auto running = Start();
  ASSERT_TRUE(AsOther([&] {
    return Rename(logdir_ + "/plugins/profile", logdir_ + "/plugins/old") &&
           Link(victim_, logdir_ + "/plugins/profile");
  }));
  EXPECT_TRUE(End(running.get()).Printed("is a symbolic link"));
}

TEST_F(SwappedBeneath, HiddenDirectory_IsNotFollowed) {
  const auto running = Start();
  ASSERT_TRUE(
      AsOther([&] { return Rename(logdir_ + "/.tbprof", logdir_ + "/old") && Link(victim_, logdir_ + "/.tbprof"); }));
  const RunResult result = End(running.get());
  ExpectWhole(result, logdir_);
  EXPECT_THAT(FilesBelow(theirs_, ".spool"), IsEmpty());
}

TEST_F(SwappedBeneath, RunName_IsNotFollowed) {
  const auto running = Start();
  fs::create_directory(victim_ + "/inner");
  ASSERT_EQ(chown((logdir_ + "/plugins/profile").c_str(), kOther, kOther), 0);
  ASSERT_TRUE(AsOther([&] { return Link(victim_, logdir_ + "/plugins/profile/mine"); }));
  ExpectWhole(End(running.get()), logdir_);
  fs::remove(victim_ + "/inner");
}

TEST_F(SwappedBeneath, SpoolOfTheSameName_IsNotUsed) {
  const auto running = Start();
  const std::vector<std::string> spools = FilesBelow(logdir_ + "/.tbprof", ".spool");
  ASSERT_THAT(spools, SizeIs(1));
  const std::string name = fs::path(spools[0]).filename();
  ASSERT_TRUE(AsOther([&] {
    if (!Rename(logdir_ + "/.tbprof", logdir_ + "/old") || mkdir((logdir_ + "/.tbprof").c_str(), 0755) != 0)
      return false;
    WriteFile(logdir_ + "/.tbprof/" + name, "forged");
    return true;
  }));
  ExpectWhole(End(running.get()), logdir_);
  EXPECT_EQ(ReadFile(logdir_ + "/.tbprof/" + name), "forged") << "not ours to remove";
}

// Their directory at the hidden one's name: nothing of ours is put into it.
TEST_F(SwappedBeneath, HiddenDirectoryOfTheirs_IsNotUsed) {
  ASSERT_TRUE(AsOther([&] { return mkdir((logdir_ + "/.tbprof").c_str(), 0777) == 0; }));
  const auto running = Start();
  EXPECT_TRUE(fs::is_empty(logdir_ + "/.tbprof"));
  ExpectWhole(End(running.get()), logdir_);
}

// ---- on the way to it

// What they have put there does not stop the command: the profile goes where that of a silent file server goes.
class OnTheWay : public SwappedLogdir {
 protected:
  RunResult RunWith(const std::string& logdir) const {
    RunOptions options = Options();
    options.tbprof[0] = "--logdir=" + logdir;
    options.environment = {{"TMPDIR", local_}};
    return RunUnderTbprof({Program("ends"), "exit", "5"}, options);
  }
  void ExpectLocal(const RunResult& result, const std::string& cause) {
    EXPECT_EQ(result.code(), 5) << result.AllPrinted();
    EXPECT_TRUE(result.Printed(cause)) << result.AllPrinted();
    EXPECT_TRUE(result.Printed("; writing to " + local_)) << result.AllPrinted();
    EXPECT_THAT(FilesBelow(local_, ".xplane.pb"), SizeIs(1)) << result.AllPrinted();
    fs::remove_all(local_);
    fs::create_directories(local_);
  }
  void SetUp() override {
    SwappedLogdir::SetUp();
    fs::create_directories(local_);
  }
  const std::string local_ = root_ / "local";
};

TEST_F(OnTheWay, TheirLink_IsNotFollowed) {
  ASSERT_TRUE(AsOther([&] { return Link(victim_, theirs_ + "/way"); }));
  for (const std::string& path : {theirs_ + "/way", theirs_ + "/way/logs"}) {
    ExpectLocal(RunWith(path), theirs_ + "/way is a symbolic link of uid 65534");
  }
}

TEST_F(OnTheWay, TheirFileOrFifo_IsNotUsed) {
  ASSERT_TRUE(AsOther([&] {
    WriteFile(theirs_ + "/file", "");
    return mkfifo((theirs_ + "/fifo").c_str(), 0666) == 0;
  }));
  for (const std::string& path : {theirs_ + "/file", theirs_ + "/fifo/logs"}) ExpectLocal(RunWith(path), theirs_);
}

TEST_F(OnTheWay, TheirLinkBelowTheirLogdir_IsNotFollowed) {
  for (const std::string name : {"plugins", "plugins/profile", ".tbprof"}) {
    ASSERT_TRUE(AsOther([&] {
      fs::create_directories((fs::path(logdir_) / name).parent_path());
      return Link(victim_, logdir_ + "/" + name);
    }));
    ExpectLocal(RunWith(logdir_), logdir_ + "/" + name);
    fs::remove_all(logdir_);
  }
}

// The levels change as fast as the other user can rename them.
TEST_F(OnTheWay, LevelsSwappedAllTheTime_RunIsWhole) {
  const std::string level = theirs_ + "/level";
  const pid_t attacker = StartAsOther([&]() -> bool {
    mkdir(level.c_str(), 0777);
    if (!Link(victim_, theirs_ + "/link")) return false;
    for (;;) {
      renameat2(AT_FDCWD, level.c_str(), AT_FDCWD, (theirs_ + "/link").c_str(), RENAME_EXCHANGE);
      rename((level + "/logs").c_str(), (theirs_ + "/taken").c_str());
      rename((theirs_ + "/taken").c_str(), (level + "/logs").c_str());
    }
  });
  for (int i = 0; i < 12; ++i) {
    const RunResult result = RunWith(level + "/logs");
    EXPECT_EQ(result.code(), 5) << result.AllPrinted();
  }
  kill(attacker, SIGKILL);
  waitpid(attacker, nullptr, 0);
}

TEST_F(OnTheWay, OwnMistake_StopsTheRun) {
  WriteFile(root_ / "file", "");
  EXPECT_EQ(RunWith(root_ / "file").code(), 125);
  EXPECT_EQ(RunWith(root_ / "file/logs").code(), 125);
}

// ---- by the rights of their directories, which hold back all but root

class WithoutRights : public OnTheWay {
 protected:
  static constexpr uid_t kVictim = 65533;

  void SetUp() override {
    OnTheWay::SetUp();
    if (IsSkipped()) return;
    ASSERT_EQ(chown(local_.c_str(), kVictim, kVictim), 0);
    ASSERT_TRUE(MakeOpenDirectory(shared_, 01777));
  }
  RunOptions OptionsOf(uid_t uid, const std::string& logdir) const {
    RunOptions options = Options();
    options.tbprof[0] = "--logdir=" + logdir;
    options.environment = {{"TMPDIR", local_}};
    const std::string number = std::to_string(uid);
    options.launcher = {"/usr/bin/setpriv", "--reuid=" + number, "--regid=" + number, "--clear-groups"};
    return options;
  }
  RunResult RunAsVictim(const std::string& logdir, const std::vector<std::string>& words = {}) const {
    RunOptions options = OptionsOf(kVictim, logdir);
    options.tbprof.insert(options.tbprof.end(), words.begin(), words.end());
    return RunUnderTbprof({Program("ends"), "exit", "5"}, options);
  }
  void ExpectLocalOfVictim(const RunResult& result, const std::string& cause) {
    ExpectLocal(result, cause);
    ASSERT_EQ(chown(local_.c_str(), kVictim, kVictim), 0);
  }
  const std::string shared_ = root_ / "shared";
};

TEST_F(WithoutRights, TheirLevelsInASharedDirectory_ProfileIsLocal) {
  ASSERT_TRUE(AsOther([&] { return mkdir((shared_ + "/plugins").c_str(), 0700) == 0; }));
  ExpectLocalOfVictim(RunAsVictim(shared_), shared_ + "/plugins");
  ASSERT_TRUE(AsOther([&] { return chmod((shared_ + "/plugins").c_str(), 0755) == 0; }));
  ExpectLocalOfVictim(RunAsVictim(shared_), shared_ + "/plugins");
  ASSERT_TRUE(AsOther([&] { return mkdir((shared_ + "/plugins/profile").c_str(), 0755) == 0; }));
  ExpectLocalOfVictim(RunAsVictim(shared_), shared_ + "/plugins/profile");
}

TEST_F(WithoutRights, FilesOfTheirRun_ProfileIsLocal) {
  RunOptions theirs = OptionsOf(kOther, shared_);
  theirs.environment.clear();
  ASSERT_EQ(RunUnderTbprof({Program("ends"), "exit", "5"}, theirs).code(), 5);
  ExpectLocalOfVictim(RunAsVictim(shared_), shared_ + "/plugins/profile");
}

TEST_F(WithoutRights, TheirLogdir_ProfileIsLocal) {
  ASSERT_TRUE(AsOther([&] { return mkdir(logdir_.c_str(), 0700) == 0; }));
  for (const std::string& path : {logdir_, logdir_ + "/mine"}) ExpectLocalOfVictim(RunAsVictim(path), logdir_);
  ASSERT_TRUE(AsOther([&] { return chmod(logdir_.c_str(), 0755) == 0; }));
  for (const std::string& path : {logdir_, logdir_ + "/mine"}) ExpectLocalOfVictim(RunAsVictim(path), logdir_);
}

TEST_F(WithoutRights, TheirSpoolDirectory_RecordsAreElsewhere) {
  ASSERT_TRUE(AsOther([&] { return mkdir((theirs_ + "/spool").c_str(), 0700) == 0; }));
  for (const std::string& path : {theirs_ + "/spool", theirs_ + "/spool/mine"}) {
    const RunResult result = RunAsVictim(local_ + "/logs", {"--spool-dir=" + path});
    EXPECT_EQ(result.code(), 5) << result.AllPrinted();
    EXPECT_TRUE(result.Printed("raw records go to the log directory instead")) << result.AllPrinted();
    EXPECT_THAT(FilesBelow(local_ + "/logs", ".xplane.pb"), SizeIs(1)) << result.AllPrinted();
    fs::remove_all(local_ + "/logs");
  }
}

// Taken and given back, and a directory without permissions put in its place.
TEST_F(WithoutRights, PermissionsThatChange_RunIsWhole) {
  const std::string level = shared_ + "/plugins";
  const pid_t attacker = StartAsOther([&]() -> bool {
    if (!MakeOpenDirectory(level, 0777) || !MakeOpenDirectory(level + "/profile", 0777)) return false;
    if (mkdir((shared_ + "/closed").c_str(), 0700) != 0) return false;
    for (;;) {
      chmod(level.c_str(), 0);
      chmod(level.c_str(), 0777);
      renameat2(AT_FDCWD, level.c_str(), AT_FDCWD, (shared_ + "/closed").c_str(), RENAME_EXCHANGE);
      renameat2(AT_FDCWD, level.c_str(), AT_FDCWD, (shared_ + "/closed").c_str(), RENAME_EXCHANGE);
      rename(level.c_str(), (shared_ + "/away").c_str());
      rename((shared_ + "/away").c_str(), level.c_str());
    }
  });
  for (int i = 0; i < 12; ++i) {
    const RunResult result = RunAsVictim(shared_);
    EXPECT_EQ(result.code(), 5) << result.AllPrinted();
  }
  kill(attacker, SIGKILL);
  waitpid(attacker, nullptr, 0);
}

TEST_F(WithoutRights, OwnDirectoryOrRoots_StopsTheRun) {
  for (const uid_t owner : {uid_t{0}, kVictim}) {
    const std::string closed = root_ / ("closed" + std::to_string(owner));
    ASSERT_EQ(mkdir(closed.c_str(), 0555), 0);
    ASSERT_EQ(chown(closed.c_str(), owner, owner), 0);
    for (const std::string& path : {closed, closed + "/logs"}) {
      const RunResult result = RunAsVictim(path);
      EXPECT_EQ(result.code(), 125) << result.AllPrinted();
      EXPECT_TRUE(result.Printed("Permission denied")) << result.AllPrinted();
    }
    EXPECT_EQ(RunAsVictim(local_ + "/logs", {"--spool-dir=" + closed}).code(), 125);
  }
}

TEST_F(SwappedLogdir, OwnLinkInThePath_IsFollowed) {
  fs::create_directories(root_ / "real");
  fs::create_directory_symlink("real", root_ / "home");
  RunOptions options = Options();
  options.tbprof[0] = "--logdir=" + (root_ / "home/logs");
  EXPECT_EQ(RunUnderTbprof({Program("ends"), "exit", "5"}, options).code(), 5);
  EXPECT_THAT(FilesBelow(root_ / "real/logs", ".xplane.pb"), SizeIs(1));
}

// ---- what recover and capture find

class Found : public SwappedLogdir {
 protected:
  // A spool as `run` leaves it, that names `logdir` as the place of its profile.
  std::string MakeSpool(const std::string& logdir) {
    RunOptions options;
    options.default_logdir = false;
    options.tbprof = {"--logdir=" + logdir, "--keep-spool", "--spool-dir=" + (root_ / "made")};
    EXPECT_EQ(RunUnderTbprof({Program("ends"), "exit", "5"}, options).code(), 5);
    const std::vector<std::string> spools = FilesBelow(root_ / "made", ".spool");
    EXPECT_THAT(spools, SizeIs(1));
    fs::remove_all(logdir);
    return spools.empty() ? "" : spools[0];
  }
};

TEST_F(Found, SpoolOfAnotherUser_IsLeft) {
  const std::string spool = MakeSpool(victim_ + "/logs");
  fs::create_directories(theirs_ + "/.tbprof");
  const std::string planted = theirs_ + "/.tbprof/x.spool";
  fs::rename(spool, planted);
  ASSERT_EQ(chown(planted.c_str(), kOther, kOther), 0);
  const RunResult result = RunTbprof({"recover", theirs_});
  EXPECT_EQ(result.code(), 0) << result.AllPrinted();
  EXPECT_TRUE(result.Printed(planted + " is another user's")) << result.AllPrinted();
  EXPECT_THAT(FilesBelow(root_.path(), ".xplane.pb"), IsEmpty());
}

TEST_F(Found, SpoolOfARepository_StaysInIt) {
  const std::string spool = MakeSpool(victim_ + "/logs");
  fs::create_directories(root_ / "repository/tbprof-logs/.tbprof");
  fs::rename(spool, root_ / "repository/tbprof-logs/.tbprof/x.spool");
  RunOptions options;
  options.directory = root_ / "repository";
  const RunResult result = RunTbprof({"recover"}, options);
  EXPECT_EQ(result.code(), 0) << result.AllPrinted();
  EXPECT_THAT(FilesBelow(root_ / "repository/tbprof-logs", ".xplane.pb"), SizeIs(1)) << result.AllPrinted();
}

TEST_F(Found, SpoolWithAForeignLogdir_MakesNoDirectories) {
  const std::string spool = MakeSpool(victim_ + "/logs");
  RunOptions options;
  options.directory = root_ / "made";
  const RunResult result = RunTbprof({"convert", spool}, options);
  EXPECT_EQ(result.code(), 0) << result.AllPrinted();
  EXPECT_THAT(FilesBelow(root_ / "made/tbprof-logs", ".xplane.pb"), SizeIs(1)) << result.AllPrinted();
}

TEST_F(Found, Fifo_IsNoSpool) {
  fs::create_directories(theirs_ + "/.tbprof");
  ASSERT_EQ(mkfifo((theirs_ + "/.tbprof/x.spool").c_str(), 0666), 0);
  EXPECT_EQ(RunTbprof({"recover", theirs_}).code(), 0);
}

TEST_F(Found, PortOfAnotherUser_IsNotCalled) {
  const std::string endpoints = root_ / "shared/.tbprof/endpoints/mine";
  fs::create_directories(endpoints);
  const std::string json = R"({"host": "elsewhere", "pid": 1, "rank": 0, "addresses": ["127.0.0.2:9"]})";
  WriteFile(endpoints + "/a.endpoints.json", json);
  ASSERT_EQ(chown((endpoints + "/a.endpoints.json").c_str(), kOther, kOther), 0);
  ASSERT_EQ(mkfifo((endpoints + "/b.endpoints.json").c_str(), 0666), 0);
  fs::create_symlink("/etc/passwd", endpoints + "/c.endpoints.json");
  const RunResult result = RunTbprof({"capture", "--retries=0", "--logdir=" + (root_ / "shared"), "mine"});
  EXPECT_EQ(result.code(), 125) << result.AllPrinted();
  EXPECT_TRUE(result.Printed("no `tbprof run` of this user")) << result.AllPrinted();
}

TEST_F(SwappedLogdir, FifoAmongSummariesOfRanks_DoesNotBlock) {
  RunOptions options = Options();
  options.environment = {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}};
  options.tbprof.push_back("--rank-wait=100ms");
  const std::string run = logdir_ + "/plugins/profile/mine";
  fs::create_directories(run);
  ASSERT_EQ(mkfifo((run + "/other.summary.json").c_str(), 0666), 0);
  ASSERT_TRUE(Link("/dev/zero", run + "/another.summary.json"));
  options.timeout_s = 60;
  const RunResult result = RunUnderTbprof({Program("ends"), "exit", "5"}, options);
  EXPECT_EQ(result.code(), 5) << result.AllPrinted();
  EXPECT_THAT(FilesBelow(logdir_, ".xplane.pb"), SizeIs(1)) << result.AllPrinted();
}

}  // namespace
}  // namespace tbprof::integration
