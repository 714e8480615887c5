// SPDX-License-Identifier: Apache-2.0
// What another user of the machine, or a cloned repository, prepares to steer, read, redirect or stop tbprof: root runs
// it, uid 65534 attacks. A directory of root's, the victim, is as it was after every attempt, and the command ran.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <filesystem>

#include "other_user.h"

namespace tbprof::integration {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class OtherUsers : public OtherUserTest {
 protected:
  void SetUp() override {
    OtherUserTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    WriteFile(victim_ + "/settings.toml", "run = \"victims\"\n", 0644);
    before_ = Picture(victim_);
    ASSERT_TRUE(MakeOpenDirectory(shared_, 01777));
    ASSERT_EQ(mkdir(repository_.c_str(), 0755), 0);
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
    EXPECT_FALSE(result.timed_out) << result.AllPrinted();
    EXPECT_EQ(result.err.find('\x1b'), std::string::npos);
    EXPECT_EQ(result.AllPrinted().find('\x1b'), std::string::npos) << "a terminal would execute it";
    return result;
  }
  // The command ran, and its profile lies below `place`.
  static void ExpectProfiled(const RunResult& result, const std::string& place) {
    EXPECT_EQ(result.code(), 5) << result.AllPrinted();
    EXPECT_THAT(FilesBelow(place, ".xplane.pb"), SizeIs(1)) << result.AllPrinted();
  }

  const std::string shared_ = root_ / "shared";          // everybody's, sticky
  const std::string repository_ = root_ / "repository";  // root has cloned it
};

// ---- ./tbprof.toml

TEST_F(OtherUsers, ConfigurationInASharedDirectory_IsIgnored) {
  const std::string config = shared_ + "/tbprof.toml";
  ASSERT_TRUE(AsOther([&] {
    WriteFile(config, "summary-json = \"" + victim_ + "/precious\"\nlog-file = \"" + victim_ +
                          "/precious\"\nlogdir = \"" + victim_ + "\"\nspool-dir = \"" + victim_ +
                          "\"\nlisten = \"all\"\nport = 0\nrun = \"theirs\"\n");
    return true;
  }));
  const RunResult result = RunIn(shared_);
  ExpectProfiled(result, shared_ + "/tbprof-logs");
  EXPECT_TRUE(result.Printed("ignored " + config)) << result.AllPrinted();
  EXPECT_FALSE(result.Printed("theirs"));
  EXPECT_FALSE(result.Printed("profiler service"));
}

TEST_F(OtherUsers, ConfigurationThatIsAFifo_IsIgnored) {
  ASSERT_TRUE(AsOther([&] { return mkfifo((shared_ + "/tbprof.toml").c_str(), 0666) == 0; }));
  ExpectProfiled(RunIn(shared_), shared_ + "/tbprof-logs");
}

TEST_F(OtherUsers, ConfigurationThatIsALinkToRoots_IsIgnored) {
  for (const bool hard : {false, true}) {
    const std::string config = shared_ + "/tbprof.toml";
    fs::remove(config);
    // Made by root: the kernel may forbid hard links to others.
    if (hard) {
      fs::create_hard_link(victim_ + "/settings.toml", config);
    } else {
      ASSERT_TRUE(AsOther([&] { return Link(victim_ + "/settings.toml", config); }));
    }
    const RunResult result = RunIn(shared_);
    EXPECT_EQ(result.code(), 5);
    EXPECT_FALSE(result.Printed("run victims")) << result.AllPrinted();
    fs::remove_all(shared_ + "/tbprof-logs");
  }
}

TEST_F(OtherUsers, ConfigurationInTheirDirectory_IsIgnored) {
  ASSERT_TRUE(AsOther([&] {
    WriteFile(theirs_ + "/tbprof.toml", "logdir = \"elsewhere\"\n");
    return true;
  }));
  const RunResult result = RunIn(theirs_);
  EXPECT_TRUE(result.Printed("ignored ")) << result.AllPrinted();
  ExpectProfiled(result, theirs_ + "/tbprof-logs");
}

TEST_F(OtherUsers, ConfigurationInASharedHome_IsIgnored) {
  ASSERT_TRUE(AsOther([&] {
    fs::create_directories(shared_ + "/.config/tbprof");
    WriteFile(shared_ + "/.config/tbprof/config.toml", "summary-json = \"" + victim_ + "/precious\"\n");
    return true;
  }));
  const RunResult result = RunIn(repository_, {}, {{"HOME", shared_}, {"XDG_CONFIG_HOME", std::nullopt}});
  ExpectProfiled(result, repository_ + "/tbprof-logs");
  EXPECT_TRUE(result.Printed("ignored ")) << result.AllPrinted();
}

TEST_F(OtherUsers, RepositoryThatWritesElsewhere_IsRefused) {
  for (const std::string line :
       {"log-file = \"VICTIM/precious\"", "summary-json = \"VICTIM/precious\"", "spool-dir = \"VICTIM\"",
        "logdir = \"VICTIM\"", "logdir = \"../victim\"", "logdir = \"out\"", "logdir = \"out/below\""}) {
    std::string text = line;
    if (const size_t at = text.find("VICTIM"); at != std::string::npos) text.replace(at, 6, victim_);
    WriteFile(repository_ + "/tbprof.toml", text + "\n");
    fs::remove(repository_ + "/out");
    fs::create_directory_symlink(victim_, repository_ + "/out");
    const RunResult result = RunIn(repository_);
    EXPECT_TRUE(result.Printed(repository_ + "/tbprof.toml")) << line;
    ExpectProfiled(result, repository_ + "/tbprof-logs");
    fs::remove_all(repository_ + "/tbprof-logs");
  }
}

TEST_F(OtherUsers, RepositoryThatOpensAPort_IsRefused) {
  WriteFile(repository_ + "/tbprof.toml", "port = 0\nlisten = \"all\"\n");
  const RunResult result = RunIn(repository_);
  ExpectProfiled(result, repository_ + "/tbprof-logs");
  EXPECT_FALSE(result.Printed("profiler service")) << result.AllPrinted();
}

TEST_F(OtherUsers, RepositoryThatStopsTheRun_IsRefused) {
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

TEST_F(OtherUsers, RepositoryThatSuppressesTheRecording_IsRefused) {
  for (const std::string line :
       {"window = \"none\"", "window = \"nvtx:zz\"", "window = \"1h+1ms\"", "window = \"steps=900:901\"",
        "window = \"cuda-profiler\"", "window = \"last=100ms\"", "trace = \"none\"", "ranks = \"99\"",
        "wait-threshold = \"1h\"", "spool-limit = \"1\"", "spool-rate = \"1\"", "malloc = \"off\"",
        "max-profile-size = \"64KiB\"", "buffer-size = \"64KiB\"", "cuda = \"off\"", "torch = \"off\"",
        "capture-signal = \"none\"", "follow = \"none\"", "on-error = \"run\""}) {
    WriteFile(repository_ + "/tbprof.toml", line + "\n");
    const RunResult result =
        RunIn(repository_, {"--rank-wait=100ms"}, {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_RANK", "0"}});
    ExpectProfiled(result, repository_ + "/tbprof-logs");
    const std::string option = line.substr(0, line.find(' '));
    EXPECT_TRUE(result.Printed("ignored " + option + " of " + repository_ + "/tbprof.toml")) << result.AllPrinted();
    EXPECT_TRUE(result.Printed("to accept: --config=./tbprof.toml")) << result.AllPrinted();
    fs::remove_all(repository_ + "/tbprof-logs");
  }
  WriteFile(repository_ + "/tbprof.toml", "window = \"none\"\n");
  const RunResult accepted = RunIn(repository_, {"--config=./tbprof.toml"});
  EXPECT_EQ(accepted.code(), 5);
  EXPECT_TRUE(accepted.Printed("--window=none")) << accepted.AllPrinted();
}

TEST_F(OtherUsers, RepositoryThatHidesItself_IsNamed) {
  WriteFile(repository_ + "/tbprof.toml", "quiet = true\nprint-ranks = \"99\"\nrun = \"r\"\n");
  const RunResult result = RunIn(repository_, {"--rank-wait=100ms"}, {{"RANK", "0"}, {"WORLD_SIZE", "2"}});
  EXPECT_TRUE(result.Printed("options: " + repository_ + "/tbprof.toml")) << result.AllPrinted();
}

TEST_F(OtherUsers, RepositoryWithControlCharacters_IsEscaped) {
  for (const std::string text : {"window = \"nvtx:\x1b]0;x\x07\"\n", "\x1b[2J = 1\n", "logdir = \"\x1b[2J\"\n",
                                 "step-marker = \"\x1b[2J(\"\n", "[\x1b[2J]\n", "run = \"\x1b[2J\"\n"}) {
    WriteFile(repository_ + "/tbprof.toml", text);
    EXPECT_EQ(RunIn(repository_).code(), 5);
  }
}

// What `doctor` reads of the Python in a repository is not waited for, and nothing of it runs.
TEST_F(OtherUsers, RepositoryWithAHostilePython_IsNotRun) {
  const std::string venv = repository_ + "/.venv";
  fs::create_directories(venv + "/bin");
  fs::create_directories(venv + "/lib/python3.11/site-packages/tensorboard-\x1b[2J.dist-info");
  WriteFile(venv + "/bin/python3", "#!/bin/sh\ntouch " + victim_ + "/ran\n", 0755);
  for (const std::string kind : {"fifo", "endless", "python"}) {
    fs::remove(venv + "/pyvenv.cfg");
    if (kind == "endless") {
      ASSERT_TRUE(Link("/dev/zero", venv + "/pyvenv.cfg"));
    } else {
      ASSERT_EQ(mkfifo((venv + "/pyvenv.cfg").c_str(), 0666), 0);
    }
    if (kind == "python") {
      fs::remove(venv + "/bin/python3");
      ASSERT_EQ(mkfifo((venv + "/bin/python3").c_str(), 0777), 0);
    }
    RunOptions options;
    options.directory = repository_;
    options.timeout_s = 60;
    const RunResult result = RunTbprof({"doctor", "--", "uv", "run", "x"}, options);
    EXPECT_FALSE(result.timed_out) << kind;
    EXPECT_EQ((result.out + result.AllPrinted()).find('\x1b'), std::string::npos);
  }
}

// ---- the log directory as a repository holds it

TEST_F(OtherUsers, RepositoryWithALinkAsDefaultLogdir_IsNotFollowed) {
  fs::create_directory_symlink(victim_, repository_ + "/tbprof-logs");
  const RunResult result = RunIn(repository_, {}, {{"TMPDIR", shared_}});
  EXPECT_TRUE(result.Printed("is a symbolic link")) << result.AllPrinted();
  ExpectProfiled(result, shared_);
}

TEST_F(OtherUsers, RepositoryWithLinksBelowTheLogdir_AreNotFollowed) {
  for (const std::string name : {"plugins", "plugins/profile", ".tbprof", ".tbprof/staging"}) {
    const std::string link = repository_ + "/tbprof-logs/" + name;
    fs::create_directories(fs::path(link).parent_path());
    fs::create_directory_symlink(victim_, link);
    const RunResult result = RunIn(repository_, {}, {{"TMPDIR", shared_}});
    EXPECT_EQ(result.code(), 5) << name;
    EXPECT_EQ(FilesBelow(repository_, ".xplane.pb").size() + FilesBelow(shared_, ".xplane.pb").size(), 1u)
        << name << "\n"
        << result.AllPrinted();
    fs::remove_all(repository_ + "/tbprof-logs");
    fs::remove_all(shared_ + "/tbprof-logs-0");
  }
}

TEST_F(OtherUsers, RepositoryWithAFifoBelowTheLogdir_DoesNotBlock) {
  for (const std::string name : {"plugins", ".tbprof", ".tbprof/staging"}) {
    const std::string fifo = repository_ + "/tbprof-logs/" + name;
    fs::create_directories(fs::path(fifo).parent_path());
    ASSERT_EQ(mkfifo(fifo.c_str(), 0666), 0);
    EXPECT_EQ(RunIn(repository_, {}, {{"TMPDIR", shared_}}).code(), 5) << name;
    fs::remove_all(repository_ + "/tbprof-logs");
    fs::remove_all(shared_ + "/tbprof-logs-0");
  }
}

TEST_F(OtherUsers, NamedRunThatIsALink_IsNotFollowed) {
  fs::create_directories(shared_ + "/logs/plugins/profile");
  chmod((shared_ + "/logs/plugins/profile").c_str(), 01777);
  ASSERT_TRUE(AsOther([&] { return Link(victim_, shared_ + "/logs/plugins/profile/mine"); }));
  ExpectProfiled(RunIn(repository_, {"--logdir=" + shared_ + "/logs", "--run=mine"}), shared_ + "/logs");
}

TEST_F(OtherUsers, DefaultLogdirOfTheirs_IsNotUsed) {
  const std::string prepared = shared_ + "/tbprof-logs";
  ASSERT_TRUE(AsOther([&] { return MakeOpenDirectory(prepared, 0777); }));
  const RunResult result = RunIn(shared_, {}, {{"TMPDIR", repository_}});
  EXPECT_TRUE(result.Printed(prepared + " belongs to uid 65534")) << result.AllPrinted();
  ExpectProfiled(result, repository_);
  EXPECT_TRUE(fs::is_empty(prepared));
}

TEST_F(OtherUsers, SpoolDirectoryOfTheirs_SpoolCannotBeReplaced) {
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
TEST_F(OtherUsers, RecoverWithLinksOfTheirs_IsNotFollowed) {
  ExpectProfiled(RunIn(repository_, {"--keep-spool"}), repository_);
  const std::string own = repository_ + "/tbprof-logs/.tbprof";
  const std::vector<std::string> spools = FilesBelow(own, ".spool");
  ASSERT_THAT(spools, SizeIs(1));
  const std::string spool = own + "/" + fs::path(spools[0]).filename().string();
  const std::string by_directory = theirs_ + "/by_directory", by_file = theirs_ + "/by_file";
  ASSERT_TRUE(AsOther([&] {
    return mkdir(by_directory.c_str(), 0755) == 0 && Link(own, by_directory + "/.tbprof") &&
           mkdir(by_file.c_str(), 0755) == 0 && mkdir((by_file + "/.tbprof").c_str(), 0755) == 0 &&
           Link(spool, by_file + "/.tbprof/x.spool");
  }));
  for (const std::string& logdir : {by_directory, by_file}) {
    RunTbprof({"recover", "--logdir=" + logdir, logdir});
    RunTbprof({"recover", logdir});
    EXPECT_THAT(FilesBelow(logdir, ".xplane.pb"), testing::IsEmpty()) << logdir;
    EXPECT_TRUE(fs::exists(spool)) << logdir;
  }
}

TEST_F(OtherUsers, SpoolDirectoryThatIsTheirLink_IsNotUsed) {
  ASSERT_TRUE(AsOther([&] { return Link(victim_, theirs_ + "/spools"); }));
  const RunResult result = RunIn(repository_, {"--spool-dir=" + theirs_ + "/spools"});
  ExpectProfiled(result, repository_);
  EXPECT_TRUE(result.Printed("spools is a symbolic link of uid 65534")) << result.AllPrinted();
  EXPECT_TRUE(result.Printed("raw records go to the log directory instead")) << result.AllPrinted();
}

// ---- TMPDIR

class FallbackDirectory : public OtherUsers {
 protected:
  // The default logdir cannot be used: something in TMPDIR is.
  void ExpectOwn(const std::string& prepared) {
    WriteFile(repository_ + "/tbprof-logs", "in the way");
    const RunResult result = RunIn(repository_, {}, {{"TMPDIR", shared_}});
    EXPECT_EQ(result.code(), 5) << result.AllPrinted();
    EXPECT_TRUE(result.Printed(prepared + " is not this user's alone")) << result.AllPrinted();
    EXPECT_TRUE(result.Printed("writing to " + prepared + "-")) << result.AllPrinted();
    size_t found = 0;
    for (const std::string& path : FilesBelow(shared_, ".xplane.pb")) found += path.starts_with(prepared + "-");
    EXPECT_EQ(found, 1u);
  }
  const std::string prepared_ = shared_ + "/tbprof-logs-0";
};

TEST_F(FallbackDirectory, Link_IsNotUsed) {
  ASSERT_TRUE(AsOther([&] { return Link(victim_, prepared_); }));
  ExpectOwn(prepared_);
}

TEST_F(FallbackDirectory, DirectoryOfTheirs_IsNotUsed) {
  ASSERT_TRUE(AsOther([&] { return MakeOpenDirectory(prepared_, 0777); }));
  ExpectOwn(prepared_);
  EXPECT_TRUE(fs::is_empty(prepared_));
}

TEST_F(FallbackDirectory, DirectoryOthersCanWrite_IsNotUsed) {
  ASSERT_TRUE(MakeOpenDirectory(prepared_, 0777));
  ExpectOwn(prepared_);
  EXPECT_TRUE(fs::is_empty(prepared_));
}

TEST_F(FallbackDirectory, File_IsNotUsed) {
  ASSERT_TRUE(AsOther([&] { return mkfifo(prepared_.c_str(), 0666) == 0; }));
  ExpectOwn(prepared_);
}

TEST_F(OtherUsers, SpoolDirectoryInTmpdirOfTheirs_IsNotUsed) {
  // In memory, so that the raw records go to TMPDIR.
  const std::string memory = root_ / "memory";
  ASSERT_EQ(mkdir(memory.c_str(), 0755), 0);
  if (mount("tmpfs", memory.c_str(), "tmpfs", 0, "size=16m") != 0) GTEST_SKIP() << "cannot mount a tmpfs";
  const std::string prepared = shared_ + "/tbprof-spool-0";
  ASSERT_TRUE(AsOther([&] { return MakeOpenDirectory(prepared, 0777); }));
  const RunResult result = RunIn(repository_, {"--logdir=" + memory, "--keep-spool"}, {{"TMPDIR", shared_}});
  ExpectProfiled(result, memory);
  EXPECT_TRUE(fs::is_empty(prepared)) << result.AllPrinted();
  EXPECT_TRUE(result.Printed("raw records kept: tbprof convert " + prepared + "-")) << result.AllPrinted();
  umount2(memory.c_str(), MNT_DETACH);
}

TEST_F(OtherUsers, TmpdirOthersCanRename_SocketIsElsewhere) {
  ASSERT_EQ(chmod(shared_.c_str(), 0777), 0);  // no sticky bit
  RunOptions options;
  options.environment = {{"TMPDIR", shared_}};
  const RunResult result = RunUnderTbprof({"/bin/sh", "-c", "ls -a " + shared_ + "; echo $TBPROF_SESSION"}, options);
  EXPECT_EQ(result.out.find("tbprof-"), result.out.find("/tmp/tbprof-") + 5) << result.out;
}

// A process that watches TMPDIR sees the name of the launcher's socket before it is bound.
TEST_F(OtherUsers, SocketNameTakenBefore_IsSafe) {
  for (int i = 0; i < 2000; ++i) {
    // What the launcher looks at first: time for the other one.
    const std::string bait = shared_ + "/tbprof-" + std::to_string(100'000 + i);
    ASSERT_EQ(mkdir(bait.c_str(), 0755), 0);
    GiveToOther(bait);
  }
  const int watch = inotify_init1(IN_CLOEXEC);
  ASSERT_GE(inotify_add_watch(watch, shared_.c_str(), IN_CREATE), 0);
  const pid_t attacker = StartAsOther([&]() -> bool {
    alignas(inotify_event) char buffer[4096];
    for (;;) {
      const ssize_t size = read(watch, buffer, sizeof(buffer));
      for (ssize_t at = 0; at < size;) {
        const auto* event = reinterpret_cast<const inotify_event*>(buffer + at);
        const std::string path = shared_ + "/" + event->name + "/s";
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        memcpy(address.sun_path + 1, path.c_str(), path.size() + 1);
        const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
        const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
        if (bind(fd, reinterpret_cast<sockaddr*>(&address), length) == 0) (void)!listen(fd, 1);
        at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
      }
    }
  });
  for (int i = 0; i < 5; ++i) {
    ExpectProfiled(RunIn(repository_, {}, {{"TMPDIR", shared_}}), repository_);
    fs::remove_all(repository_ + "/tbprof-logs");
  }
  kill(attacker, SIGKILL);
  waitpid(attacker, nullptr, 0);
  close(watch);
}

// A process that outlives tbprof has a name that is free again.
TEST_F(OtherUsers, SocketNameTakenAfterTheEnd_GetsNoRecords) {
  const std::string environment_file = root_ / "environment";
  RunOptions options;
  ASSERT_EQ(RunUnderTbprof({"/bin/sh", "-c", "env >" + environment_file}, options).code(), 0);
  std::string preload, session;
  for (const std::string& line : Lines(ReadFile(environment_file))) {
    if (line.starts_with("LD_PRELOAD=")) preload = line;
    if (line.starts_with("TBPROF_SESSION=")) session = line;
  }
  const size_t from = session.find('/'), to = session.find(';', from);
  ASSERT_NE(from, std::string::npos) << session;
  const std::string path = session.substr(from, to - from);
  int listens[2], ended[2];
  ASSERT_EQ(pipe(listens), 0);
  ASSERT_EQ(pipe(ended), 0);
  const pid_t attacker = StartAsOther([&] {
    char byte = 0;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path + 1, path.c_str(), path.size() + 1);
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
    const int name = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    if (bind(name, reinterpret_cast<sockaddr*>(&address), length) != 0 || listen(name, 8) != 0) return false;
    if (write(listens[1], &byte, 1) != 1 || read(ended[0], &byte, 1) != 1) return false;
    char message[4096];
    fcntl(name, F_SETFL, O_NONBLOCK);
    const int victim = accept(name, nullptr, nullptr);
    return victim >= 0 && recv(victim, message, sizeof(message), MSG_DONTWAIT) > 0;
  });
  char byte = 0;
  close(listens[1]);
  ASSERT_EQ(read(listens[0], &byte, 1), 1);
  const pid_t late = fork();
  if (late == 0) {
    const char* const arguments[] = {"/bin/true", nullptr};
    const char* const environment[] = {preload.c_str(), session.c_str(), nullptr};
    execve(arguments[0], const_cast<char**>(arguments), const_cast<char**>(environment));
    _exit(127);
  }
  int status = 0;
  waitpid(late, &status, 0);
  EXPECT_EQ(status, 0);
  ASSERT_EQ(write(ended[1], &byte, 1), 1);
  waitpid(attacker, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1) << "0: the other user was given what is recorded; 3: it is no other user";
  for (const int fd : {listens[0], ended[0], ended[1]}) close(fd);
}

// ---- --log-file and --summary-json

class FilesOfOptions : public OtherUsers {
 protected:
  // Neither option writes to `path`, the command runs, its profile is written, and a line names what is in the way.
  void ExpectRefused(const std::string& path, const std::string& in_the_way) {
    for (const std::string option : {"--log-file=", "--summary-json="}) {
      const RunResult result = RunIn(repository_, {option + path});
      ExpectProfiled(result, repository_ + "/tbprof-logs");
      EXPECT_TRUE(result.Printed(in_the_way)) << option << "\n" << result.AllPrinted();
      fs::remove_all(repository_ + "/tbprof-logs");
    }
  }
  const std::string path_ = shared_ + "/tbprof.log";
};

TEST_F(FilesOfOptions, TheirLink_IsRefused) {
  ASSERT_TRUE(AsOther([&] { return Link(victim_ + "/precious", path_); }));
  ExpectRefused(path_, path_);
}

TEST_F(FilesOfOptions, TheirDanglingLink_IsRefused) {
  ASSERT_TRUE(AsOther([&] { return Link(victim_ + "/made", path_); }));
  ExpectRefused(path_, path_);
}

TEST_F(FilesOfOptions, TheirLinkInThePath_IsRefused) {
  ASSERT_TRUE(AsOther([&] { return Link(victim_, shared_ + "/way"); }));
  ExpectRefused(shared_ + "/way/precious", shared_ + "/way is a symbolic link");
}

TEST_F(FilesOfOptions, TheirFile_IsRefused) {
  ASSERT_TRUE(AsOther([&] {
    WriteFile(path_, "", 0666);
    return true;
  }));
  ExpectRefused(path_, path_);
  EXPECT_EQ(ReadFile(path_), "");
}

TEST_F(FilesOfOptions, HardLinkToAFileOfRoots_IsRefused) {
  fs::create_hard_link(victim_ + "/precious", path_);
  ExpectRefused(path_, path_);
}

TEST_F(FilesOfOptions, TheirFifoWithAReader_IsRefused) {
  ASSERT_TRUE(AsOther([&] { return mkfifo(path_.c_str(), 0666) == 0; }));
  const int reader = open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  ExpectRefused(path_, path_);
  char byte;
  EXPECT_LE(read(reader, &byte, 1), 0) << "they have read of it";
  close(reader);
}

TEST_F(FilesOfOptions, TheirFifoWithoutAReader_IsRefused) {
  ASSERT_TRUE(AsOther([&] { return mkfifo(path_.c_str(), 0666) == 0; }));
  ExpectRefused(path_, "cannot write " + path_);
}

TEST_F(FilesOfOptions, TheirDirectoryOrNothing_IsRefused) {
  ASSERT_TRUE(AsOther([&] { return mkdir(path_.c_str(), 0700) == 0; }));
  ExpectRefused(path_, "cannot write " + path_);
  ExpectRefused(shared_ + "/none/x", shared_ + "/none");
  ASSERT_TRUE(AsOther([&] { return Link("loop", shared_ + "/loop"); }));
  ExpectRefused(shared_ + "/loop/x", shared_ + "/loop");
}

// The terminal has the cause and what happens instead, in one line, also where it would have nothing else.
TEST_F(FilesOfOptions, QuietWithoutALogFile_CauseIsPrinted) {
  ASSERT_TRUE(AsOther([&] { return mkfifo(path_.c_str(), 0666) == 0; }));
  const RunResult result = RunIn(repository_, {"--quiet", "--log-file=" + path_});
  ExpectProfiled(result, repository_ + "/tbprof-logs");
  ASSERT_THAT(result.printed, SizeIs(1)) << result.AllPrinted();
  EXPECT_THAT(result.printed[0], HasSubstr("lines go to stderr only"));
}

TEST_F(FilesOfOptions, LogFileWhoseReaderLeaves_RunContinues) {
  const std::string fifo = shared_ + "/own-fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const int reader = open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  RunOptions options;
  options.tbprof = {"--log-file=" + fifo};
  const auto running = StartUnderTbprof({Program("records_until_asked"), "20"}, options);
  EXPECT_TRUE(running->WaitForFact("ready 1\n")) << running->Err();
  close(reader);
  WriteFile(running->path() + "/go", "");
  EXPECT_EQ(running->Wait().code(), 7);
}

TEST_F(FilesOfOptions, OwnFiles_AreWritten) {
  WriteFile(root_ / "target", "");
  fs::create_symlink(root_ / "target", shared_ + "/own-link");
  WriteFile(shared_ + "/own-file", "{\n \"schema_version\": 1,\n \"tbprof_version\": \"0.1.0\"\n}");
  for (const std::string& path : {shared_ + "/own-link", shared_ + "/own-file", shared_ + "/new-file"}) {
    const RunResult result = RunIn(repository_, {"--summary-json=" + path});
    EXPECT_EQ(result.code(), 5);
    EXPECT_EQ(ReadFile(path)[0], '{') << path << "\n" << result.AllPrinted();
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
