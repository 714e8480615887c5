// SPDX-License-Identifier: Apache-2.0
// F32: a log directory that does not answer, as on a dead NFS server: every open() of it waits until the test lets go.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/fanotify.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

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

std::vector<std::string> ProfilesBelow(const std::string& directory) {
  std::vector<std::string> found;
  std::error_code none;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory, none)) {
    if (entry.path().string().ends_with(".xplane.pb")) found.push_back(entry.path());
  }
  return found;
}

RunOptions WithLocal(const TemporaryDirectory& local, const std::string& logdir) {
  RunOptions options;
  options.default_logdir = false;
  options.tbprof = {"--publish-timeout=300ms", "--logdir=" + logdir};
  options.environment = {{"TMPDIR", local.path()}};
  return options;
}

TEST(F32, BeforeTheCommandStarts) {
  TemporaryDirectory local;
  TemporaryDirectory shared;
  Hang hang(shared.path());
  if (!hang.hangs()) GTEST_SKIP() << "fanotify: " << hang.cause();
  const RunResult result = RunUnderTbprof({Program("ends"), "exit", "6"}, WithLocal(local, shared.path()));
  EXPECT_EQ(result.code(), 6);
  EXPECT_TRUE(result.Said(shared.path() + " gives no answer")) << result.AllSaid();
  EXPECT_TRUE(result.Said("writing to " + local.path())) << result.AllSaid();
  EXPECT_THAT(ProfilesBelow(local.path()), SizeIs(1)) << result.AllSaid();
}

TEST(F32, WhileTheProfileIsPublished) {
  TemporaryDirectory local;
  TemporaryDirectory shared;
  const auto running = StartUnderTbprof({Program("waits_for_signals"), "60"}, WithLocal(local, shared.path()));
  ASSERT_TRUE(running->WaitForFact("warm "));
  Hang hang(shared.path());
  if (!hang.hangs()) GTEST_SKIP() << "fanotify: " << hang.cause();
  WriteFile(running->path() + "/stop", "");
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 23) << result.AllSaid();
  EXPECT_EQ(result.out, "finished\n");
  EXPECT_TRUE(result.Said("gives no answer")) << result.AllSaid();
  const std::vector<std::string> profiles = ProfilesBelow(local.path());
  ASSERT_THAT(profiles, SizeIs(1)) << result.AllSaid();
  const auto profile = Profile::Parse(profiles[0]);
  ASSERT_NE(profile, nullptr);
  EXPECT_TRUE(profile->HasWarning("written elsewhere"));
  EXPECT_GT(profile->Count("usleep"), 3);
}

}  // namespace
}  // namespace tbprof::integration
