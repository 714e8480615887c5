// SPDX-License-Identifier: Apache-2.0
// Very many threads and processes: names kept, slots used again, everything counted, and a launcher that does not grow.
#include <dirent.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <span>

#include "../integration/harness.h"

namespace tbprof::integration {
namespace {

int64_t Dropped(const RunResult& result) {
  int64_t dropped = 0;
  for (const auto& [cause, count] : result.summary["records"]["dropped"].items()) dropped += count.get<int64_t>();
  // And what the disk was too slow for, of all kinds.
  for (const std::string& line : result.printed) {
    const size_t at = line.find(" records are missing");
    if (at != std::string::npos) dropped += atoll(line.substr(line.find_last_of(' ', at - 1) + 1).c_str());
  }
  return dropped;
}

struct Size {
  int64_t kilobytes = 0, descriptors = 0, threads = 0;
};
Size SizeOf(pid_t pid) {
  Size size;
  const std::string process = "/proc/" + std::to_string(pid);
  for (const std::string& line : Lines(ReadFile(process + "/status"))) {
    if (line.starts_with("RssAnon:")) size.kilobytes = atoll(line.c_str() + 8);
    if (line.starts_with("Threads:")) size.threads = atoll(line.c_str() + 8);
  }
  if (DIR* listing = opendir((process + "/fd").c_str())) {
    while (readdir(listing) != nullptr) ++size.descriptors;
    closedir(listing);
  }
  return size;
}

TEST(Threads, ThousandAliveAndHundredThousandMade_AreRecorded) {
  RunOptions options;
  options.tbprof = {"--wait-threshold=0", "--max-profile-size=1GiB", "--trace=thread,io"};
  const Pair pair = RunBoth({Program("many_threads"), "1000", "100000"}, options);
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(pair.bare.out, "failed 0\n");
  const Profile& profile = *pair.profiled.profile;
  EXPECT_EQ(pair.profiled.summary["records"]["corrupt"], 0);
  // More than there are slots.
  EXPECT_GT(profile.Count("write"), 4096);
  EXPECT_GE(profile.Count("write") + Dropped(pair.profiled), 101000);
  std::set<std::string> names;
  for (const std::string& line : profile.LineNames()) {
    if (line.starts_with("alive-")) names.insert(line.substr(0, line.find('/')));
  }
  EXPECT_EQ(names.size(), 1000u);
}

// Children one after the other: what the launcher holds after a tenth of them it holds at the end.
class ChildrenInTurn : public testing::TestWithParam<bool> {};

TEST_P(ChildrenInTurn, ManyChildren_LauncherDoesNotGrow) {
  const bool by_exec = GetParam();
  std::vector<std::string> command = {Program("many_children"), by_exec ? "2000" : "20000"};
  if (by_exec) command.insert(command.end(), {"exec", "/bin/true"});
  RunOptions options;
  options.tbprof = {"--window=none"};
  options.timeout_s = 240;
  const auto running = StartUnderTbprof(command, options);
  ASSERT_GT(running->WaitForNumber("a_tenth", 120), 0) << running->Err();
  // The least of ten readings at both ends: a thread that looks something up for a moment is none that it holds, and
  // descriptors of ended children come and go between two passes over them. One that stayed of each would be 1800.
  constexpr size_t kReadings = 10;
  std::vector<Size> sizes;
  while (!running->WaitForFact("children ", 0) && !running->Ended()) {
    const Size now = SizeOf(running->pid());
    // Behind the last child the launcher is about to end.
    if (now.threads > 0 && !running->WaitForFact("children ", 0)) sizes.push_back(now);
    usleep(20000);
  }
  ASSERT_GE(sizes.size(), 2 * kReadings);
  const auto typical = [](std::span<const Size> readings) {
    Size size = readings.back();
    for (const Size& reading : readings) {
      size.threads = std::min(size.threads, reading.threads);
      size.descriptors = std::min(size.descriptors, reading.descriptors);
    }
    return size;
  };
  const Size early = typical(std::span(sizes).first(kReadings)), last = typical(std::span(sizes).last(kReadings));
  const RunResult result = running->Wait();
  EXPECT_EQ(result.out, "bad 0\n");
  EXPECT_EQ(last.threads, early.threads);
  EXPECT_LE(last.descriptors, early.descriptors + 200) << "of children that have just ended";
  EXPECT_LE(last.kilobytes, early.kilobytes + 16 * 1024);
}
INSTANTIATE_TEST_SUITE_P(All, ChildrenInTurn, testing::Bool(),
                         [](const auto& by_exec) { return by_exec.param ? "Exec" : "Fork"; });

// More at a time than there are slots: they run, and the rest is counted.
TEST(Children, MoreAtOnceThanSlots_RestIsCounted) {
  RunOptions options;
  options.tbprof = {"--wait-threshold=0", "--trace=io"};
  options.timeout_s = 240;
  const Pair pair = RunBoth({Program("children_at_once"), "4300"}, options);
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(pair.profiled.out, "alive 4300, ended 4300\n");
  int64_t unrecorded = 0;
  for (const auto& [cause, count] : pair.profiled.summary["records"]["dropped"].items()) {
    if (cause.find("fork children without a free slot") != std::string::npos) unrecorded += count.get<int64_t>();
  }
  EXPECT_GT(unrecorded, 0) << pair.profiled.summary["records"];
  EXPECT_GE(pair.profiled.summary["process_count"].get<int64_t>() + unrecorded, 4301);
  EXPECT_EQ(pair.profiled.summary["complete"], false);
  EXPECT_TRUE(pair.profiled.profile->HasWarning("fork children without a free slot"));
}

// Loops that take what the launcher needs. Ended by their number.
class BusyLoops {
 public:
  explicit BusyLoops(int count) {
    for (int i = 0; i < count; ++i) {
      const pid_t pid = fork();
      if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (volatile uint64_t turns = 0;; turns = turns + 1) {
        }
      }
      if (pid > 0) pids_.push_back(pid);
    }
  }
  ~BusyLoops() {
    for (const pid_t pid : pids_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }
  BusyLoops(const BusyLoops&) = delete;
  BusyLoops& operator=(const BusyLoops&) = delete;

 private:
  std::vector<pid_t> pids_;
};

// Of each child there is one process, with one thread, and nothing of it is lost.
TEST(Storm, ForkAndExecBesideBusyLoops_NothingIsLost) {
  constexpr int kChildren = 5000;
  const BusyLoops loops(2);
  RunOptions options;
  options.tbprof = {"--wait-threshold=0", "--max-profile-size=1GiB"};
  options.timeout_s = 240;
  const RunResult result = RunUnderTbprof({Program("fork_exec_storm"), std::to_string(kChildren), "4"}, options);
  EXPECT_EQ(result.out, "made 5000, good 5000\n");
  ASSERT_NE(result.profile, nullptr) << result.AllPrinted();
  EXPECT_EQ(result.Fact("made"), kChildren);
  EXPECT_EQ(result.summary["process_count"], kChildren + 1);
  EXPECT_EQ(result.summary["threads"], kChildren + 1);
  EXPECT_EQ(result.summary["records"]["dropped"], nlohmann::json::object());
  EXPECT_EQ(result.summary["records"]["corrupt"], 0);
  EXPECT_EQ(result.summary["records"]["not_kept"], 0);
  EXPECT_EQ(result.summary["unrecorded"], nlohmann::json::array());
  EXPECT_EQ(result.summary["complete"], true) << result.AllPrinted();
  const Profile& profile = *result.profile;
  EXPECT_EQ(profile.Count("thread start"), kChildren + 1);
  EXPECT_EQ(profile.Count("execl"), kChildren);
  EXPECT_EQ(profile.Count("fork"), kChildren);
  int forked = 0;
  for (const auto& process : result.summary["processes"]) forked += process["forked"].get<bool>() ? 1 : 0;
  EXPECT_EQ(forked, 0) << "each has become another program";
  EXPECT_FALSE(result.Printed("lost")) << result.AllPrinted();
}

TEST(Storm, Forks_AreRecorded) {
  RunOptions options;
  options.tbprof = {"--wait-threshold=0", "--max-profile-size=1GiB", "--trace=io"};
  options.timeout_s = 240;
  const Pair pair = RunBoth({Program("many_children"), "5000"}, options);
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(pair.bare.out, "bad 0\n");
  // One write in each; of a child that found no slot it is counted.
  EXPECT_GE(pair.profiled.profile->Count("write") + Dropped(pair.profiled), 5000);
  EXPECT_EQ(pair.profiled.summary["records"]["corrupt"], 0);
}

// Children made while other threads are in malloc and in hooks: none hangs.
TEST(Storm, ForksBesideThreadsInHooks_DoNotHang) {
  RunOptions options;
  options.tbprof = {"--trace=malloc,lock"};
  options.timeout_s = 240;
  const RunResult result = RunUnderTbprof({Program("forks_beside_threads"), "10000"}, options);
  EXPECT_EQ(result.code(), 0);
  EXPECT_EQ(result.out, "bad 0\n");
  ASSERT_NE(result.profile, nullptr);
  EXPECT_EQ(result.summary["records"]["corrupt"], 0);
}

}  // namespace
}  // namespace tbprof::integration
