// SPDX-License-Identifier: Apache-2.0
// Very many threads and processes: names kept, slots used again, everything counted, and a launcher that does not grow.
#include <dirent.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <set>

#include "../integration/harness.h"

namespace tbprof::integration {
namespace {

int64_t Dropped(const RunResult& result) {
  int64_t dropped = 0;
  for (const auto& [cause, count] : result.summary["records"]["dropped"].items()) dropped += count.get<int64_t>();
  // And what the disk was too slow for, of all kinds.
  for (const std::string& line : result.said) {
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

TEST(Threads, AThousandAliveAndAHundredThousandMade) {
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

TEST_P(ChildrenInTurn, LauncherDoesNotGrow) {
  const bool by_exec = GetParam();
  std::vector<std::string> command = {Program("many_children"), by_exec ? "2000" : "20000"};
  if (by_exec) command.insert(command.end(), {"exec", "/bin/true"});
  RunOptions options;
  options.tbprof = {"--window=none"};
  options.timeout_s = 240;
  const auto running = StartUnderTbprof(command, options);
  ASSERT_GT(running->WaitForNumber("a_tenth", 120), 0) << running->Err();
  const Size early = SizeOf(running->pid());
  Size last = early;
  while (!running->WaitForFact("children ", 0) && !running->Ended()) {
    const Size now = SizeOf(running->pid());
    if (now.threads > 0) last = now;
    usleep(20000);
  }
  const RunResult result = running->Wait();
  EXPECT_EQ(result.out, "bad 0\n");
  EXPECT_EQ(last.threads, early.threads);
  EXPECT_LE(last.descriptors, early.descriptors + 200) << "of children that have just ended";
  EXPECT_LE(last.kilobytes, early.kilobytes + 16 * 1024);
}
INSTANTIATE_TEST_SUITE_P(All, ChildrenInTurn, testing::Bool(),
                         [](const auto& by_exec) { return by_exec.param ? "Exec" : "Fork"; });

// More at a time than there are slots: they run, and the rest is counted.
TEST(Children, MoreAtOnceThanSlots) {
  RunOptions options;
  options.tbprof = {"--wait-threshold=0", "--trace=io"};
  options.timeout_s = 240;
  const Pair pair = RunBoth({Program("children_at_once"), "1200"}, options);
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(pair.profiled.out, "alive 1200, ended 1200\n");
  EXPECT_GT(pair.profiled.summary["records"]["dropped"].value("more than 1024 fork children at a time", 0), 0)
      << pair.profiled.summary["records"];
  EXPECT_GE(pair.profiled.summary["process_count"], 1000);
  EXPECT_TRUE(pair.profiled.profile->HasWarning("1024 fork children"));
}

TEST(Storm, OfForksIsRecorded) {
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
TEST(Storm, BesideThreadsInHooks) {
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
