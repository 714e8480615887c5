// SPDX-License-Identifier: Apache-2.0
// F4, F29: memory limits of a container. A segment's pages are charged to the program that touches them, and it is the
// program that the kernel ends.
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "../integration/harness.h"
#include "../integration/memory_rows.h"

namespace tbprof::integration {
namespace {

constexpr uint64_t kMiB = 1u << 20;

// A memory cgroup below this process's own, of version 1 or 2; removed at the end.
class Cgroup {
 public:
  Cgroup() {
    for (const std::string& line : Lines(ReadFile("/proc/self/cgroup"))) {
      const size_t first = line.find(':');
      const size_t second = line.find(':', first + 1);
      if (second == std::string::npos) continue;
      const std::string controllers = line.substr(first + 1, second - first - 1);
      const bool unified = controllers.empty();
      if (!unified && controllers != "memory") continue;
      const std::string own = line.substr(second + 1) == "/" ? "" : line.substr(second + 1);
      const std::string parent = (unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory") + own;
      path_ = parent + "/tbprof-test-" + std::to_string(getpid()) + "-" + std::to_string(count_++);
      std::error_code error;
      if (!std::filesystem::create_directory(path_, error)) continue;
      limit_ = path_ + (unified ? "/memory.max" : "/memory.limit_in_bytes");
      peak_ = path_ + (unified ? "/memory.peak" : "/memory.max_usage_in_bytes");
      if (std::filesystem::exists(limit_) && std::filesystem::exists(peak_)) {
        Write(path_ + (unified ? "/memory.swap.max" : "/memory.swappiness"), "0");
        made_ = true;
        return;
      }
      std::filesystem::remove(path_, error);
    }
  }
  ~Cgroup() {
    if (made_) rmdir(path_.c_str());
  }
  Cgroup(const Cgroup&) = delete;
  Cgroup& operator=(const Cgroup&) = delete;

  bool made() const { return made_; }
  void Limit(uint64_t bytes) { ASSERT_TRUE(Write(limit_, std::to_string(bytes))) << limit_; }
  uint64_t Peak() const { return std::stoull(ReadFile(peak_)); }
  // Words to put before a command that is to run in it.
  std::vector<std::string> Entering() const {
    return {"/bin/sh", "-c", "echo $$ >" + path_ + "/cgroup.procs && exec \"$@\"", "sh"};
  }

 private:
  static bool Write(const std::string& path, const std::string& text) {
    std::ofstream file(path);
    file << text << std::flush;
    return file.good();
  }
  static inline int count_ = 0;
  std::string path_, limit_, peak_;
  bool made_ = false;
};

std::vector<std::string> Joined(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// The command alone has the limit, and meets it.
TEST(MemoryLimit, KilledProgram_EarlierRecordsAreKept) {
  Cgroup group;
  if (!group.made()) GTEST_SKIP() << "no memory cgroup may be made here";
  group.Limit(64 * kMiB);
  RunOptions options;
  options.tbprof = {"--wait-threshold=0"};
  const RunResult result = RunUnderTbprof(Joined(group.Entering(), {Program("fills_memory"), "4000", "1000"}), options);
  EXPECT_EQ(result.signal(), SIGKILL) << result.AllPrinted();
  ASSERT_NE(result.profile, nullptr) << result.AllPrinted();
  EXPECT_GE(static_cast<uint64_t>(result.profile->Count("write") + result.profile->Count("read")),
            result.Fact("returned"));
}

// Both have the limit; the kernel ends the larger one, and tbprof names the cause.
TEST(MemoryLimit, OutOfMemoryKill_IsNamed) {
  Cgroup group;
  if (!group.made()) GTEST_SKIP() << "no memory cgroup may be made here";
  group.Limit(128 * kMiB);
  RunOptions options;
  options.launcher = group.Entering();
  options.tbprof = {"--wait-threshold=0"};
  const RunResult result = RunUnderTbprof({Program("fills_memory"), "4000", "100"}, options);
  EXPECT_EQ(result.signal(), SIGKILL) << result.AllPrinted();
  ASSERT_NE(result.profile, nullptr) << result.AllPrinted();
  EXPECT_TRUE(result.Printed("killed for lack of memory")) << result.AllPrinted();
  EXPECT_TRUE(result.profile->HasWarning("killed for lack of memory"));
  EXPECT_GE(static_cast<uint64_t>(result.profile->Count("write") + result.profile->Count("read")),
            result.Fact("returned"));
  const RunResult killed = RunUnderTbprof({Program("ends"), "signal", "9"}, options);
  EXPECT_FALSE(killed.Printed("lack of memory")) << killed.AllPrinted();
}

TEST(MemoryLimit, OutOfMemoryKill_WhatFilledTheHeapIsKnown) {
  for (const bool exact : {false, true}) {
    SCOPED_TRACE(exact);
    Cgroup group;
    if (!group.made()) GTEST_SKIP() << "no memory cgroup may be made here";
    group.Limit(128 * kMiB);
    RunOptions options;
    if (exact) options.tbprof = {"--malloc=exact"};
    const RunResult result = RunUnderTbprof(Joined(group.Entering(), {Program("ledger"), "fill"}), options);
    ASSERT_EQ(result.signal(), SIGKILL) << result.AllPrinted();
    ExpectLedger(result, exact);
  }
}

// tbprof and the program share a limit with little room above the program's own need: twenty times it comes to its end.
TEST(MemoryLimit, LittleAboveTheProgramsNeed_Suffices) {
  const std::vector<std::string> command = {Program("fills_memory"), "48", "1000"};
  uint64_t need = 0;
  {
    Cgroup group;
    if (!group.made()) GTEST_SKIP() << "no memory cgroup may be made here";
    RunOptions options;
    options.launcher = group.Entering();
    ASSERT_EQ(RunBare(command, options).code(), 0);
    need = group.Peak();
  }
  // A twentieth for the records, and the launcher.
  const uint64_t limit = need + need / 20 + 24 * kMiB;
  for (int i = 0; i < 20; ++i) {
    Cgroup group;
    group.Limit(limit);
    RunOptions options;
    options.launcher = group.Entering();
    options.tbprof = {"--wait-threshold=0"};
    const RunResult result = RunUnderTbprof(command, options);
    ASSERT_EQ(result.code(), 0) << result.AllPrinted();
    EXPECT_EQ(result.out, "filled 48\n");
    ASSERT_NE(result.profile, nullptr) << result.AllPrinted();
  }
}

}  // namespace
}  // namespace tbprof::integration
