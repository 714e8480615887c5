// SPDX-License-Identifier: Apache-2.0
// What another user of the machine, or a cloned repository, prepares to steer, read, redirect or stop tbprof: root runs
// it, uid 65534 attacks. A directory of root's, the victim, is as it was after every attempt, and the command ran.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <set>

#include "../integration/harness.h"

namespace tbprof::integration {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uid_t kOther = 65534;

// In a child that is the other user. False: it could not do what it wanted.
bool AsOther(const std::function<bool()>& act) {
  const pid_t child = fork();
  if (child == 0) {
    if (setgroups(0, nullptr) != 0 || setgid(kOther) != 0 || setuid(kOther) != 0) _exit(3);
    _exit(act() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void GiveToOther(const std::string& path) { ASSERT_EQ(lchown(path.c_str(), kOther, kOther), 0) << path; }

// Names, types and contents.
std::string Picture(const std::string& directory) {
  std::set<std::string> lines;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    const bool plain = entry.is_regular_file() && !entry.is_symlink();
    lines.insert(entry.path().string() + "\t" + (plain ? ReadFile(entry.path()) : "-"));
  }
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

class OtherUsers : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "another user's files need root";
    ASSERT_EQ(chmod(root_.path().c_str(), 0755), 0);
    ASSERT_EQ(mkdir(victim_.c_str(), 0755), 0);
    WriteFile(victim_ + "/precious", "precious\n", 0644);
    WriteFile(victim_ + "/settings.toml", "run = \"victims\"\n", 0644);
    ASSERT_EQ(mkdir(shared_.c_str(), 0777), 0);
    ASSERT_EQ(chmod(shared_.c_str(), 01777), 0);
    ASSERT_EQ(mkdir(theirs_.c_str(), 0755), 0);
    GiveToOther(theirs_);
    ASSERT_EQ(mkdir(repository_.c_str(), 0755), 0);
    before_ = Picture(victim_);
  }
  void TearDown() override {
    if (before_.empty()) return;  // skipped
    EXPECT_EQ(Picture(victim_), before_);
  }

  // Root, in `directory`, with these options.
  RunResult RunIn(const std::string& directory, const std::vector<std::string>& words = {},
                  std::vector<std::pair<std::string, std::optional<std::string>>> environment = {}) {
    RunOptions options;
    options.directory = directory;
    options.default_logdir = false;
    options.tbprof = words;
    options.environment = std::move(environment);
    options.environment.emplace_back("TBPROF_LOGDIR", std::nullopt);
    options.timeout_s = 60;
    RunResult result = RunUnderTbprof({Program("ends"), "exit", "5"}, options);
    EXPECT_FALSE(result.timed_out) << result.AllSaid();
    EXPECT_EQ(result.err.find('\x1b'), std::string::npos);
    EXPECT_EQ(result.AllSaid().find('\x1b'), std::string::npos) << "a terminal would obey it";
    return result;
  }
  // The command ran, and its profile lies below `place`.
  static void ExpectProfiled(const RunResult& result, const std::string& place) {
    EXPECT_EQ(result.code(), 5) << result.AllSaid();
    EXPECT_THAT(FilesBelow(place, ".xplane.pb"), SizeIs(1)) << result.AllSaid();
  }

  TemporaryDirectory root_;
  const std::string victim_ = root_ / "victim";          // root's
  const std::string shared_ = root_ / "shared";          // everybody's, sticky
  const std::string theirs_ = root_ / "theirs";          // the other user's
  const std::string repository_ = root_ / "repository";  // root has cloned it
  std::string before_;
};

// ---- ./tbprof.toml

TEST_F(OtherUsers, ConfigurationInASharedDirectory) {
  const std::string config = shared_ + "/tbprof.toml";
  ASSERT_TRUE(AsOther([&] {
    WriteFile(config, "summary-json = \"" + victim_ + "/precious\"\nlog-file = \"" + victim_ +
                          "/precious\"\nlogdir = \"" + victim_ + "\"\nspool-dir = \"" + victim_ +
                          "\"\nlisten = \"all\"\nport = 0\nrun = \"theirs\"\n");
    return true;
  }));
  const RunResult result = RunIn(shared_);
  ExpectProfiled(result, shared_ + "/tbprof-logs");
  EXPECT_TRUE(result.Said("ignored " + config)) << result.AllSaid();
  EXPECT_FALSE(result.Said("theirs"));
  EXPECT_FALSE(result.Said("profiler service"));
}

TEST_F(OtherUsers, ConfigurationThatIsAFifo) {
  ASSERT_TRUE(AsOther([&] { return mkfifo((shared_ + "/tbprof.toml").c_str(), 0666) == 0; }));
  ExpectProfiled(RunIn(shared_), shared_ + "/tbprof-logs");
}

TEST_F(OtherUsers, ConfigurationThatIsALinkToOneOfRoots) {
  for (const bool hard : {false, true}) {
    const std::string config = shared_ + "/tbprof.toml";
    fs::remove(config);
    // Made by root: the kernel may forbid hard links to others.
    if (hard) {
      fs::create_hard_link(victim_ + "/settings.toml", config);
    } else {
      ASSERT_TRUE(AsOther([&] { return symlink((victim_ + "/settings.toml").c_str(), config.c_str()) == 0; }));
    }
    const RunResult result = RunIn(shared_);
    EXPECT_EQ(result.code(), 5);
    EXPECT_FALSE(result.Said("run victims")) << result.AllSaid();
    fs::remove_all(shared_ + "/tbprof-logs");
  }
}

TEST_F(OtherUsers, ConfigurationInTheirDirectory) {
  ASSERT_TRUE(AsOther([&] {
    WriteFile(theirs_ + "/tbprof.toml", "logdir = \"elsewhere\"\n");
    return true;
  }));
  const RunResult result = RunIn(theirs_);
  EXPECT_TRUE(result.Said("ignored ")) << result.AllSaid();
  ExpectProfiled(result, theirs_ + "/tbprof-logs");
}

TEST_F(OtherUsers, ConfigurationInAHomeOfAll) {
  ASSERT_TRUE(AsOther([&] {
    fs::create_directories(shared_ + "/.config/tbprof");
    WriteFile(shared_ + "/.config/tbprof/config.toml", "summary-json = \"" + victim_ + "/precious\"\n");
    return true;
  }));
  const RunResult result = RunIn(repository_, {}, {{"HOME", shared_}, {"XDG_CONFIG_HOME", std::nullopt}});
  ExpectProfiled(result, repository_ + "/tbprof-logs");
  EXPECT_TRUE(result.Said("ignored ")) << result.AllSaid();
}

TEST_F(OtherUsers, RepositoryThatWritesElsewhere) {
  for (const std::string line :
       {"log-file = \"VICTIM/precious\"", "summary-json = \"VICTIM/precious\"", "spool-dir = \"VICTIM\"",
        "logdir = \"VICTIM\"", "logdir = \"../victim\"", "logdir = \"out\"", "logdir = \"out/below\""}) {
    std::string text = line;
    if (const size_t at = text.find("VICTIM"); at != std::string::npos) text.replace(at, 6, victim_);
    WriteFile(repository_ + "/tbprof.toml", text + "\n");
    fs::remove(repository_ + "/out");
    fs::create_directory_symlink(victim_, repository_ + "/out");
    const RunResult result = RunIn(repository_);
    EXPECT_TRUE(result.Said(repository_ + "/tbprof.toml: ")) << line;
    ExpectProfiled(result, repository_ + "/tbprof-logs");
    fs::remove_all(repository_ + "/tbprof-logs");
  }
}

TEST_F(OtherUsers, RepositoryThatOpensAPort) {
  WriteFile(repository_ + "/tbprof.toml", "port = 0\nlisten = \"all\"\n");
  const RunResult result = RunIn(repository_);
  ExpectProfiled(result, repository_ + "/tbprof-logs");
  EXPECT_FALSE(result.Said("profiler service")) << result.AllSaid();
}

TEST_F(OtherUsers, RepositoryThatStopsTheRun) {
  const std::vector<std::string> texts = {"nonsense = 1\n",
                                          "window = \"rubbish\"\n",
                                          "[[[",
                                          "logdir = \"tbprof.toml\"\n",
                                          "also = \"nothing\"\n",
                                          "require-gpu = true\ncuda = \"off\"\n",
                                          std::string(200, '[') + "\n",
                                          std::string(3 << 20, '\0'),
                                          "[" + std::string(20000, '.') + "]\n"};
  for (const std::string& text : texts) {
    WriteFile(repository_ + "/tbprof.toml", text);
    const RunResult result = RunIn(repository_);
    ExpectProfiled(result, repository_ + "/tbprof-logs");
    fs::remove_all(repository_ + "/tbprof-logs");
  }
}

TEST_F(OtherUsers, RepositoryThatHidesItself) {
  WriteFile(repository_ + "/tbprof.toml", "quiet = true\nprint-ranks = \"99\"\nrun = \"r\"\n");
  const RunResult result = RunIn(repository_, {"--rank-wait=100ms"}, {{"RANK", "0"}, {"WORLD_SIZE", "2"}});
  EXPECT_TRUE(result.Said("options: " + repository_ + "/tbprof.toml")) << result.AllSaid();
}

TEST_F(OtherUsers, RepositoryThatWritesToTheTerminal) {
  for (const std::string text : {"window = \"nvtx:\x1b]0;x\x07\"\n", "\x1b[2J = 1\n", "logdir = \"\x1b[2J\"\n",
                                 "step-marker = \"\x1b[2J(\"\n", "[\x1b[2J]\n", "run = \"\x1b[2J\"\n"}) {
    WriteFile(repository_ + "/tbprof.toml", text);
    EXPECT_EQ(RunIn(repository_).code(), 5);
  }
}

// ---- the log directory as a repository holds it

TEST_F(OtherUsers, RepositoryWithALinkAsDefaultLogdir) {
  fs::create_directory_symlink(victim_, repository_ + "/tbprof-logs");
  const RunResult result = RunIn(repository_, {}, {{"TMPDIR", shared_}});
  EXPECT_TRUE(result.Said("is a symbolic link")) << result.AllSaid();
  ExpectProfiled(result, shared_);
}

TEST_F(OtherUsers, RepositoryWithLinksBeneathTheLogdir) {
  for (const std::string name : {"plugins", "plugins/profile", ".tbprof", ".tbprof/staging"}) {
    const std::string link = repository_ + "/tbprof-logs/" + name;
    fs::create_directories(fs::path(link).parent_path());
    fs::create_directory_symlink(victim_, link);
    const RunResult result = RunIn(repository_, {}, {{"TMPDIR", shared_}});
    EXPECT_EQ(result.code(), 5) << name;
    EXPECT_EQ(FilesBelow(repository_, ".xplane.pb").size() + FilesBelow(shared_, ".xplane.pb").size(), 1u)
        << name << "\n"
        << result.AllSaid();
    fs::remove_all(repository_ + "/tbprof-logs");
    fs::remove_all(shared_ + "/tbprof-logs-0");
  }
}

TEST_F(OtherUsers, RepositoryWithAFifoBeneathTheLogdir) {
  for (const std::string name : {"plugins", ".tbprof", ".tbprof/staging"}) {
    const std::string fifo = repository_ + "/tbprof-logs/" + name;
    fs::create_directories(fs::path(fifo).parent_path());
    ASSERT_EQ(mkfifo(fifo.c_str(), 0666), 0);
    EXPECT_EQ(RunIn(repository_, {}, {{"TMPDIR", shared_}}).code(), 5) << name;
    fs::remove_all(repository_ + "/tbprof-logs");
    fs::remove_all(shared_ + "/tbprof-logs-0");
  }
}

TEST_F(OtherUsers, NamedRunThatIsALink) {
  fs::create_directories(shared_ + "/logs/plugins/profile");
  chmod((shared_ + "/logs/plugins/profile").c_str(), 01777);
  ASSERT_TRUE(AsOther([&] { return symlink(victim_.c_str(), (shared_ + "/logs/plugins/profile/mine").c_str()) == 0; }));
  ExpectProfiled(RunIn(repository_, {"--logdir=" + shared_ + "/logs", "--run=mine"}), shared_ + "/logs");
}

TEST_F(OtherUsers, DefaultLogdirThatTheyHaveMade) {
  const std::string prepared = shared_ + "/tbprof-logs";
  ASSERT_TRUE(AsOther([&] { return mkdir(prepared.c_str(), 0777) == 0 && chmod(prepared.c_str(), 0777) == 0; }));
  const RunResult result = RunIn(shared_, {}, {{"TMPDIR", repository_}});
  EXPECT_TRUE(result.Said(prepared + " belongs to uid 65534")) << result.AllSaid();
  ExpectProfiled(result, repository_);
  EXPECT_TRUE(fs::is_empty(prepared));
}

TEST_F(OtherUsers, SpoolDirectoryOfTheirs) {
  ASSERT_TRUE(AsOther([&] { return chmod(theirs_.c_str(), 0777) == 0; }));
  const RunResult result = RunIn(repository_, {"--spool-dir=" + theirs_, "--keep-spool"});
  ExpectProfiled(result, repository_);
  const std::vector<std::string> spools = FilesBelow(theirs_, ".spool");
  ASSERT_THAT(spools, SizeIs(1));
  EXPECT_FALSE(AsOther([&] { return unlink(spools[0].c_str()) == 0; })) << "they could put another in its place";
  EXPECT_EQ(RunTbprof({"recover", "--logdir=" + (root_ / "recovered"), theirs_}).code(), 0);
  EXPECT_THAT(FilesBelow(root_ / "recovered", ".xplane.pb"), SizeIs(1)) << "it is found there";
}

// Root looks for spools in a log directory of theirs, whose links lead to a spool of root's.
TEST_F(OtherUsers, RecoverFollowsNoLinkOfTheirs) {
  ExpectProfiled(RunIn(repository_, {"--keep-spool"}), repository_);
  const std::string own = repository_ + "/tbprof-logs/.tbprof";
  const std::vector<std::string> spools = FilesBelow(own, ".spool");
  ASSERT_THAT(spools, SizeIs(1));
  const std::string spool = own + "/" + fs::path(spools[0]).filename().string();
  const std::string by_directory = theirs_ + "/by_directory", by_file = theirs_ + "/by_file";
  ASSERT_TRUE(AsOther([&] {
    return mkdir(by_directory.c_str(), 0755) == 0 && symlink(own.c_str(), (by_directory + "/.tbprof").c_str()) == 0 &&
           mkdir(by_file.c_str(), 0755) == 0 && mkdir((by_file + "/.tbprof").c_str(), 0755) == 0 &&
           symlink(spool.c_str(), (by_file + "/.tbprof/x.spool").c_str()) == 0;
  }));
  for (const std::string& logdir : {by_directory, by_file}) {
    RunTbprof({"recover", "--logdir=" + logdir, logdir});
    RunTbprof({"recover", logdir});
    EXPECT_THAT(FilesBelow(logdir, ".xplane.pb"), testing::IsEmpty()) << logdir;
    EXPECT_TRUE(fs::exists(spool)) << logdir;
  }
}

TEST_F(OtherUsers, SpoolDirectoryThatIsTheirLink) {
  ASSERT_TRUE(AsOther([&] { return symlink(victim_.c_str(), (theirs_ + "/spools").c_str()) == 0; }));
  const RunResult result = RunIn(repository_, {"--spool-dir=" + theirs_ + "/spools"});
  EXPECT_EQ(result.code(), 125);
  EXPECT_TRUE(result.Said("spools is a symbolic link of uid 65534")) << result.AllSaid();
}

// ---- TMPDIR

class FallbackDirectory : public OtherUsers {
 protected:
  // The default logdir cannot be used: something in TMPDIR is.
  void ExpectOwn(const std::string& prepared) {
    WriteFile(repository_ + "/tbprof-logs", "in the way");
    const RunResult result = RunIn(repository_, {}, {{"TMPDIR", shared_}});
    EXPECT_EQ(result.code(), 5) << result.AllSaid();
    EXPECT_TRUE(result.Said(prepared + " is not this user's alone")) << result.AllSaid();
    EXPECT_TRUE(result.Said("writing to " + prepared + "-")) << result.AllSaid();
    size_t found = 0;
    for (const std::string& path : FilesBelow(shared_, ".xplane.pb")) found += path.starts_with(prepared + "-");
    EXPECT_EQ(found, 1u);
  }
  const std::string prepared_ = shared_ + "/tbprof-logs-0";
};

TEST_F(FallbackDirectory, ThatIsALink) {
  ASSERT_TRUE(AsOther([&] { return symlink(victim_.c_str(), prepared_.c_str()) == 0; }));
  ExpectOwn(prepared_);
}

TEST_F(FallbackDirectory, ThatIsTheirs) {
  ASSERT_TRUE(AsOther([&] { return mkdir(prepared_.c_str(), 0777) == 0 && chmod(prepared_.c_str(), 0777) == 0; }));
  ExpectOwn(prepared_);
  EXPECT_TRUE(fs::is_empty(prepared_));
}

TEST_F(FallbackDirectory, ThatOthersCanWrite) {
  ASSERT_EQ(mkdir(prepared_.c_str(), 0777), 0);
  ASSERT_EQ(chmod(prepared_.c_str(), 0777), 0);
  ExpectOwn(prepared_);
  EXPECT_TRUE(fs::is_empty(prepared_));
}

TEST_F(FallbackDirectory, ThatIsAFile) {
  ASSERT_TRUE(AsOther([&] { return mkfifo(prepared_.c_str(), 0666) == 0; }));
  ExpectOwn(prepared_);
}

TEST_F(OtherUsers, SpoolDirectoryPreparedInTmpdir) {
  // In memory, so that the raw records go to TMPDIR.
  const std::string memory = root_ / "memory";
  ASSERT_EQ(mkdir(memory.c_str(), 0755), 0);
  if (mount("tmpfs", memory.c_str(), "tmpfs", 0, "size=16m") != 0) GTEST_SKIP() << "cannot mount a tmpfs";
  const std::string prepared = shared_ + "/tbprof-spool-0";
  ASSERT_TRUE(AsOther([&] { return mkdir(prepared.c_str(), 0777) == 0 && chmod(prepared.c_str(), 0777) == 0; }));
  const RunResult result = RunIn(repository_, {"--logdir=" + memory, "--keep-spool"}, {{"TMPDIR", shared_}});
  ExpectProfiled(result, memory);
  EXPECT_TRUE(fs::is_empty(prepared)) << result.AllSaid();
  EXPECT_TRUE(result.Said("raw records kept: tbprof convert " + prepared + "-")) << result.AllSaid();
  umount2(memory.c_str(), MNT_DETACH);
}

TEST_F(OtherUsers, SocketInATmpdirThatOthersCanRename) {
  ASSERT_EQ(chmod(shared_.c_str(), 0777), 0);  // no sticky bit
  RunOptions options;
  options.environment = {{"TMPDIR", shared_}};
  const RunResult result = RunUnderTbprof({"/bin/sh", "-c", "ls -a " + shared_ + "; echo $TBPROF_SESSION"}, options);
  EXPECT_EQ(result.out.find("tbprof-"), result.out.find("/tmp/tbprof-") + 5) << result.out;
}

// ---- --log-file and --summary-json

class FilesOfOptions : public OtherUsers {
 protected:
  // Neither option writes to `path`, the command runs, its profile is written, and a line names what is in the way.
  void ExpectRefused(const std::string& path, const std::string& in_the_way) {
    for (const std::string option : {"--log-file=", "--summary-json="}) {
      const RunResult result = RunIn(repository_, {option + path});
      ExpectProfiled(result, repository_ + "/tbprof-logs");
      EXPECT_TRUE(result.Said(in_the_way)) << option << "\n" << result.AllSaid();
      fs::remove_all(repository_ + "/tbprof-logs");
    }
  }
  const std::string path_ = shared_ + "/tbprof.log";
};

TEST_F(FilesOfOptions, TheirLink) {
  ASSERT_TRUE(AsOther([&] { return symlink((victim_ + "/precious").c_str(), path_.c_str()) == 0; }));
  ExpectRefused(path_, path_);
}

TEST_F(FilesOfOptions, TheirLinkToNothing) {
  ASSERT_TRUE(AsOther([&] { return symlink((victim_ + "/made").c_str(), path_.c_str()) == 0; }));
  ExpectRefused(path_, path_);
}

TEST_F(FilesOfOptions, TheirLinkOnTheWay) {
  ASSERT_TRUE(AsOther([&] { return symlink(victim_.c_str(), (shared_ + "/way").c_str()) == 0; }));
  ExpectRefused(shared_ + "/way/precious", shared_ + "/way is a symbolic link");
}

TEST_F(FilesOfOptions, TheirFile) {
  ASSERT_TRUE(AsOther([&] {
    WriteFile(path_, "", 0666);
    return true;
  }));
  ExpectRefused(path_, path_);
  EXPECT_EQ(ReadFile(path_), "");
}

TEST_F(FilesOfOptions, AHardLinkToAFileOfRoots) {
  fs::create_hard_link(victim_ + "/precious", path_);
  ExpectRefused(path_, path_);
}

TEST_F(FilesOfOptions, TheirFifoThatTheyRead) {
  ASSERT_TRUE(AsOther([&] { return mkfifo(path_.c_str(), 0666) == 0; }));
  const int reader = open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  ExpectRefused(path_, path_);
  char byte;
  EXPECT_LE(read(reader, &byte, 1), 0) << "they have read of it";
  close(reader);
}

TEST_F(FilesOfOptions, OnesOwnWork) {
  WriteFile(root_ / "target", "");
  fs::create_symlink(root_ / "target", shared_ + "/own-link");
  WriteFile(shared_ + "/own-file", "old text");
  for (const std::string& path : {shared_ + "/own-link", shared_ + "/own-file", shared_ + "/new-file"}) {
    const RunResult result = RunIn(repository_, {"--summary-json=" + path});
    EXPECT_EQ(result.code(), 5);
    EXPECT_EQ(ReadFile(path)[0], '{') << path << "\n" << result.AllSaid();
  }
  EXPECT_THAT(ReadFile(root_ / "target"), HasSubstr("\"schema_version\""));
  for (const std::string path : {"/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"}) {
    EXPECT_THAT(RunIn(repository_, {"--summary-json=" + path}).out, HasSubstr("\"schema_version\"")) << path;
  }
  for (const std::string path : {"/dev/null", "/dev/stderr"}) {
    EXPECT_EQ(RunIn(repository_, {"--log-file=" + path, "--summary-json=" + path}).code(), 5) << path;
  }
  const std::string fifo = shared_ + "/own-fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const int reader = open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  EXPECT_EQ(RunIn(repository_, {"--summary-json=" + fifo}).code(), 5);
  char byte = 0;
  EXPECT_EQ(read(reader, &byte, 1), 1);
  EXPECT_EQ(byte, '{');
  close(reader);
}

}  // namespace
}  // namespace tbprof::integration
