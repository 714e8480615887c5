// SPDX-License-Identifier: Apache-2.0
// A launcher or worker is killed while a profile is written: the log directory holds a whole profile or none, and the
// next run sweeps what was left.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <set>
#include <sstream>
#include <thread>

#include "../integration/harness.h"

namespace tbprof::integration {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using Clock = std::chrono::steady_clock;

std::vector<pid_t> ChildrenOf(pid_t pid) {
  std::istringstream text(ReadFile("/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) + "/children"));
  std::vector<pid_t> children;
  for (pid_t child; text >> child;) children.push_back(child);
  return children;
}

// A process that is no child of ours has ended.
bool WaitForEnd(pid_t pid) {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0) return true;
  pollfd entry{fd, POLLIN, 0};
  const bool ended = poll(&entry, 1, 60000) == 1;
  close(fd);
  return ended;
}

// All that is in the log directory's visible part is whole. The number of profiles; those in `known` are not read
// again.
size_t CheckPublished(const std::string& logdir, int64_t reads, std::set<std::string>* known) {
  // Listed before the profiles: a worker that was not listed may publish another run in between.
  std::vector<std::string> runs;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(logdir + "/plugins/profile", error)) {
    if (entry.is_directory()) runs.push_back(entry.path().string() + "/");
  }
  const std::vector<std::string> profiles = FilesBelow(logdir + "/plugins", ".xplane.pb");
  for (const std::string& path : profiles) {
    if (!known->insert(path).second) continue;
    const auto profile = Profile::Parse(path);
    EXPECT_EQ(profile != nullptr ? profile->Count("read") : -1, reads) << path;
    const std::string summary = std::filesystem::path(path).parent_path() / "summary.json";
    EXPECT_TRUE(nlohmann::json::parse(ReadFile(summary), nullptr, false).is_object()) << summary;
  }
  EXPECT_THAT(FilesBelow(logdir + "/plugins", ".tmp"), IsEmpty());
  for (const std::string& run : runs) {
    const auto first = known->lower_bound(run);
    EXPECT_TRUE(first != known->end() && first->starts_with(run))
        << run << " is listed by TensorBoard, without a profile";
  }
  return profiles.size();
}

// As if it had been left a while ago: what was just made is never swept.
void MakeOld(const std::string& directory) {
  std::error_code error;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory, error)) {
    if (entry.path().string().ends_with(".spool")) continue;
    const timespec times[2] = {{1000, 0}, {1000, 0}};
    utimensat(AT_FDCWD, entry.path().c_str(), times, 0);
  }
}

std::string MakeSpool(const TemporaryDirectory& directory) {
  RunOptions options;
  options.tbprof = {"--wait-threshold=0", "--keep-spool", "--spool-dir=" + (directory / "spool")};
  const RunResult result = RunUnderTbprof({Program("survive"), "6000", "return"}, options);
  EXPECT_EQ(result.code(), 0);
  const auto spools = FilesBelow(directory / "spool", ".spool");
  EXPECT_THAT(spools, SizeIs(1));
  return spools.empty() ? "" : spools[0];
}

constexpr int kKills = 200;

// The launcher or its worker, at moments spread over all that a conversion takes.
TEST(KillInPublish, LauncherOrWorker_LeavesAWholeProfileOrNone) {
  TemporaryDirectory directory;
  const std::string spool = MakeSpool(directory);
  const std::string logdir = directory / "logs";
  const std::vector<std::string> command = {Tbprof(), "convert", "--logdir=" + logdir, spool};
  auto whole = Clock::duration::max();
  for (int i = 0; i < 3; ++i) {
    const auto start = Clock::now();
    EXPECT_EQ(RunBare(command).code(), 0);
    whole = std::min(whole, Clock::now() - start);
  }
  std::set<std::string> known;
  size_t published = CheckPublished(logdir, 3000, &known);
  ASSERT_EQ(published, 3u);
  int none = 0, complete = 0, workers = 0;
  for (int i = 0; i < kKills; ++i) {
    const auto running = Running::Start(command, RunOptions());
    const auto when = Clock::now() + whole * (i + 1) / kKills * 5 / 4;
    while (Clock::now() < when && !running->Ended()) std::this_thread::sleep_for(std::chrono::microseconds(100));
    const std::vector<pid_t> children = ChildrenOf(running->pid());  // the worker, if it is there by now
    const pid_t worker = children.empty() ? 0 : children[0];
    if (i % 2 == 0 && worker > 0) {
      kill(worker, SIGKILL);
      ++workers;
      const RunResult result = running->Wait();
      EXPECT_TRUE(result.code() == 0 || result.Printed("signal 9")) << result.AllPrinted();
    } else {
      running->Signal(SIGKILL);
      running->Wait();
      // What the launcher left finishes its work.
      EXPECT_TRUE(worker == 0 || WaitForEnd(worker));
    }
    const size_t after = CheckPublished(logdir, 3000, &known);
    EXPECT_TRUE(after >= published && after <= published + 2) << "a worker we did not see was one round late";
    (after == published ? none : complete) += 1;
    published = after;
    if (HasFailure()) break;
  }
  printf("%d kills, %d of them of the worker: %d without a profile, %d with a whole one\n", none + complete, workers,
         none, complete);
  // A worker that was started as its launcher was killed may still be at it.
  const auto limit = Clock::now() + std::chrono::seconds(30);
  while (!FilesBelow(logdir + "/.tbprof", ".tmp").empty() && Clock::now() < limit) {
    MakeOld(logdir + "/.tbprof");
    EXPECT_EQ(RunBare(command).code(), 0);
  }
  EXPECT_EQ(access(spool.c_str(), F_OK), 0) << "the raw records stay";
  // The next run sweeps what was left.
  MakeOld(logdir + "/.tbprof");
  MakeOld(logdir + "/plugins/profile");
  EXPECT_EQ(RunBare(command).code(), 0);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(logdir)) {
    EXPECT_EQ(entry.path().string().find(".tbprof"), std::string::npos) << entry.path() << " was left behind";
  }
}

// The launcher of a run, while its command runs and while it writes the profile.
TEST(KillInPublish, LauncherOfARun_SpoolIsRecoverable) {
  TemporaryDirectory directory;
  const std::string logdir = directory / "logs";
  RunOptions options;
  options.default_logdir = false;
  options.tbprof = {"--logdir=" + logdir, "--wait-threshold=0", "--quiet"};
  for (int i = 0; i < 12; ++i) {
    const auto running = StartUnderTbprof({Program("survive"), "6000", "return"}, options);
    EXPECT_TRUE(running->WaitForFact("returned "));
    std::this_thread::sleep_for(std::chrono::milliseconds(2 * i));
    // Stopped, so that it starts no process that is not listed.
    running->Signal(SIGSTOP);
    while (ReadFile("/proc/" + std::to_string(running->pid()) + "/stat").find(") T ") == std::string::npos &&
           !running->Ended()) {
    }
    const std::vector<pid_t> children = ChildrenOf(running->pid());  // probe, command, worker
    running->Signal(SIGKILL);
    const RunResult result = running->Wait();
    for (const pid_t child : children) EXPECT_TRUE(WaitForEnd(child));
    EXPECT_THAT(result.out, testing::AnyOf("about to end\n", "")) << "the command goes on to its own end";
  }
  std::set<std::string> known;
  const size_t before = CheckPublished(logdir, 3000, &known);
  const size_t spools = FilesBelow(logdir + "/.tbprof", ".spool").size();
  EXPECT_GT(spools, 0u);
  MakeOld(logdir + "/.tbprof");
  MakeOld(logdir + "/plugins/profile");
  const RunResult recovered = RunTbprof({"recover", "--logdir=" + logdir});
  EXPECT_EQ(recovered.code(), 0) << recovered.AllPrinted();
  EXPECT_EQ(FilesBelow(logdir + "/plugins", ".xplane.pb").size(), before + spools);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(logdir)) {
    EXPECT_EQ(entry.path().string().find(".tbprof"), std::string::npos) << entry.path() << " was left behind";
  }
}

}  // namespace
}  // namespace tbprof::integration
