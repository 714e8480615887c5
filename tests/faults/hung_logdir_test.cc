// SPDX-License-Identifier: Apache-2.0
// F32: a log directory that does not answer, or no longer: every open() of it waits until the test releases it; or a
// file system in user space whose server is stopped, as a dead NFS server's clients see it, or gone, as a lost one's.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <spawn.h>
#include <sys/fanotify.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <optional>
#include <thread>

#include "tests/integration/harness.h"

namespace tbprof::integration {
namespace {

using ::testing::SizeIs;

// Opens of the directory itself wait for an answer that is not given; the kernel lets them go when the descriptor is
// closed, also at this process's death.
class Hang {
 public:
  explicit Hang(const std::string& directory)
      : fd_(fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC | FAN_NONBLOCK, O_RDONLY | O_CLOEXEC)) {
    hangs_ = fd_ >= 0 && fanotify_mark(fd_, FAN_MARK_ADD, FAN_OPEN_PERM | FAN_ONDIR, AT_FDCWD, directory.c_str()) == 0;
    cause_ = strerror(errno);
  }
  ~Hang() {
    if (fd_ >= 0) close(fd_);
  }
  bool hangs() const { return hangs_; }
  const char* cause() const { return cause_; }

 private:
  int fd_;
  bool hangs_;
  const char* cause_;
};

// A directory served by another process.
class Served {
 public:
  Served() {
    const std::string backing = directory_ / "backing", path = directory_ / "served";
    mkdir(backing.c_str(), 0700);
    mkdir(path.c_str(), 0700);
    mkdir((directory_ / "control").c_str(), 0700);
    can_hang_ = mount("none", (directory_ / "control").c_str(), "fusectl", 0, nullptr) == 0;
    struct stat before, after = {};
    stat(path.c_str(), &before);
    char program[] = "bindfs", foreground[] = "-f";
    char* arguments[] = {program, foreground, const_cast<char*>(backing.c_str()), const_cast<char*>(path.c_str()),
                         nullptr};
    if (posix_spawnp(&server_, program, nullptr, nullptr, arguments, environ) != 0) return;
    for (int i = 0; i < 2000 && !mounted_; ++i) {
      mounted_ = stat(path.c_str(), &after) == 0 && after.st_dev != before.st_dev;
      if (waitpid(server_, nullptr, WNOHANG) == server_) server_ = 0;
      if (server_ == 0) return;
      device_ = after.st_dev;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  ~Served() {
    if (server_ > 0) End();
    umount2((directory_ / "served").c_str(), MNT_DETACH);
    if (can_hang_) umount2((directory_ / "control").c_str(), MNT_DETACH);
  }
  bool mounted() const { return mounted_; }
  bool can_hang() const { return can_hang_; }
  std::string path() const { return directory_ / "served"; }
  std::string backing() const { return directory_ / "backing"; }
  // With no request in its hands: what it has taken can't be given up, not even by a process that is killed.
  void Hang() {
    for (;;) {
      kill(server_, SIGSTOP);
      for (int status = 0; !WIFSTOPPED(status);) ASSERT_EQ(waitpid(server_, &status, WUNTRACED), server_);
      if (ReadFile(directory_ / "control/" + std::to_string(minor(device_)) + "/waiting") == "0\n") return;
      kill(server_, SIGCONT);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  void Answer() { kill(server_, SIGCONT); }
  // What was waiting fails, as does everything from here on.
  void End() {
    kill(server_, SIGKILL);
    waitpid(server_, nullptr, 0);
    server_ = 0;
  }

 private:
  TemporaryDirectory directory_;
  pid_t server_ = 0;
  dev_t device_ = 0;
  bool mounted_ = false;
  bool can_hang_ = false;
};

// A disk of this machine gets ten times as long as a server.
const std::string kOfAServer = "300ms", kOfADisk = "3s";

RunOptions WithLocal(const TemporaryDirectory& local, const std::string& logdir) {
  RunOptions options;
  options.default_logdir = false;
  options.tbprof = {"--publish-timeout=" + kOfAServer, "--logdir=" + logdir};
  options.environment = {{"TMPDIR", local.path()}};
  return options;
}

// A program that runs until `falls_silent` has happened, and ends as if it had not.
RunResult RunWhile(const RunOptions& options, const std::function<void()>& falls_silent) {
  const auto running = StartUnderTbprof({Program("waits_for_signals"), "60"}, options);
  EXPECT_TRUE(running->WaitForFact("warm "));
  falls_silent();
  WriteFile(running->path() + "/stop", "");
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 23) << result.AllPrinted();
  EXPECT_EQ(result.out, "finished\n");
  return result;
}

void ExpectWrittenLocally(const RunResult& result, const TemporaryDirectory& local, const std::string& after) {
  EXPECT_TRUE(result.Printed("does not answer (" + after)) << result.AllPrinted();
  const std::vector<std::string> profiles = FilesBelow(local.path(), ".xplane.pb");
  ASSERT_THAT(profiles, SizeIs(1)) << result.AllPrinted();
  const auto profile = Profile::Parse(profiles[0]);
  ASSERT_NE(profile, nullptr);
  EXPECT_TRUE(profile->HasWarning("written elsewhere"));
  EXPECT_GT(profile->Count("usleep"), 3);
}

TEST(F32, BeforeTheCommand_ProfileIsLocal) {
  TemporaryDirectory local;
  TemporaryDirectory shared;
  Hang hang(shared.path());
  if (!hang.hangs()) GTEST_SKIP() << "fanotify: " << hang.cause();
  const RunResult result = RunUnderTbprof({Program("ends"), "exit", "6"}, WithLocal(local, shared.path()));
  EXPECT_EQ(result.code(), 6);
  EXPECT_TRUE(result.Printed(shared.path() + " does not answer (" + kOfADisk)) << result.AllPrinted();
  EXPECT_TRUE(result.Printed("writing to " + local.path())) << result.AllPrinted();
  EXPECT_THAT(FilesBelow(local.path(), ".xplane.pb"), SizeIs(1)) << result.AllPrinted();
}

// The server falls silent between the probe of the log directory and the file of endpoints, the last file that is
// written there before the command starts.
TEST(F32, EndpointsFile_CommandStartsWithoutIt) {
  TemporaryDirectory local;
  TemporaryDirectory shared;
  const std::string hidden = shared / ".tbprof", endpoints = hidden + "/endpoints";
  ASSERT_EQ(mkdir(hidden.c_str(), 0755), 0);
  ASSERT_EQ(mkdir(endpoints.c_str(), 0755), 0);
  Hang hang(endpoints);
  if (!hang.hangs()) GTEST_SKIP() << "fanotify: " << hang.cause();
  RunOptions options = WithLocal(local, shared.path());
  options.tbprof.push_back("--port=0");
  const RunResult result = RunUnderTbprof({Program("ends"), "exit", "6"}, options);
  EXPECT_EQ(result.code(), 6);
  EXPECT_TRUE(
      result.Printed(shared.path() + " does not answer: on other machines, tbprof capture needs the port's address"))
      << result.AllPrinted();
  EXPECT_THAT(FilesBelow(shared / "plugins", ".xplane.pb"), SizeIs(1)) << result.AllPrinted();
}

TEST(F32, DuringPublish_ProfileIsLocal) {
  TemporaryDirectory local;
  TemporaryDirectory shared;
  std::optional<Hang> hang;
  const RunResult result = RunWhile(WithLocal(local, shared.path()), [&] { hang.emplace(shared.path()); });
  if (!hang->hangs()) GTEST_SKIP() << "fanotify: " << hang->cause();
  ExpectWrittenLocally(result, local, kOfADisk);
}

// The raw records are not there in the first place, so nothing of them is lost.
TEST(FileServer, HangsDuringTheCommand_ProfileIsLocal) {
  TemporaryDirectory local;
  Served served;
  if (!served.mounted() || !served.can_hang()) GTEST_SKIP() << "bindfs cannot mount here";
  ExpectWrittenLocally(RunWhile(WithLocal(local, served.path()), [&] { served.Hang(); }), local, kOfAServer);
}

// The raw records are: they are not waited for, and are there when it answers again.
TEST(FileServer, HangsWithTheSpool_IsRecoveredLater) {
  TemporaryDirectory local;
  TemporaryDirectory logdir;
  Served served;
  if (!served.mounted() || !served.can_hang()) GTEST_SKIP() << "bindfs cannot mount here";
  RunOptions options = WithLocal(local, logdir.path());
  options.tbprof.push_back("--spool-dir=" + served.path());
  const RunResult result = RunWhile(options, [&] { served.Hang(); });
  EXPECT_TRUE(result.Printed("no profile: the raw records' directory does not answer (" + kOfAServer))
      << result.AllPrinted();
  EXPECT_TRUE(result.Printed("tbprof recover " + served.path())) << result.AllPrinted();
  served.Answer();
  const RunResult recovered = RunTbprof({"recover", "--logdir=" + logdir.path(), served.path()});
  EXPECT_EQ(recovered.code(), 0) << recovered.AllPrinted();
  EXPECT_THAT(FilesBelow(logdir.path(), ".xplane.pb"), SizeIs(1)) << recovered.AllPrinted();
}

TEST(FileServer, Lost_ProfileIsLocal) {
  TemporaryDirectory local;
  Served served;
  if (!served.mounted()) GTEST_SKIP() << "bindfs cannot mount here";
  const RunResult result = RunWhile(WithLocal(local, served.path()), [&] { served.End(); });
  EXPECT_TRUE(result.Printed(served.path())) << result.AllPrinted();
  EXPECT_TRUE(result.Printed("raw records kept; to write the profile: tbprof recover " + local.path()))
      << result.AllPrinted();
}

}  // namespace
}  // namespace tbprof::integration
