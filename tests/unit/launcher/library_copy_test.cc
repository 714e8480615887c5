// SPDX-License-Identifier: Apache-2.0
// Copies of the target's libraries that killed launchers left behind.
#include "launcher/target/library_copy.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace tbprof {
namespace {

// The bytes that this process has read; 0: the kernel does not count them.
uint64_t BytesRead() {
  std::ifstream io("/proc/self/io");
  std::string name;
  uint64_t bytes = 0;
  return io >> name >> bytes && name == "rchar:" ? bytes : 0;
}

// TMPDIR is the first place where Sweep looks.
class Sweep : public testing::Test {
 protected:
  Sweep() {
    std::string place = testing::TempDir() + "library_copy_XXXXXX";
    place_ = mkdtemp(place.data());
    setenv("TMPDIR", place_.c_str(), 1);
  }
  ~Sweep() override {
    unsetenv("TMPDIR");
    std::filesystem::remove_all(place_);
  }
  std::string Leave(const std::string& ending) const {
    std::filesystem::create_directory(place_ / ("tbprof-lib-" + ending));
    return place_ / ("tbprof-lib-" + ending);
  }
  static std::string EnvironmentOf(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/environ");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // A process that has the variable in its environment, and nothing else.
  static pid_t StartWith(const std::string& variable) {
    char program[] = "/bin/sleep", seconds[] = "1000";
    char* arguments[] = {program, seconds, nullptr};
    char* environment[] = {const_cast<char*>(variable.c_str()), nullptr};
    pid_t pid = 0;
    EXPECT_EQ(posix_spawn(&pid, program, nullptr, nullptr, arguments, environment), 0);
    // posix_spawn returns when the process has left its parent's memory, before the kernel has set up its environment.
    while (pid > 0 && EnvironmentOf(pid).find(variable) == std::string::npos) {
      if (waitpid(pid, nullptr, WNOHANG) == pid) return 0;
      usleep(1000);
    }
    return pid;
  }
  static void End(pid_t pid) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  std::filesystem::path place_;
};

TEST_F(Sweep, Leftovers_AreRemovedUnlessNeeded) {
  const std::string needed = Leave("need01"), locked = Leave("lock01"), first = Leave("left01"), last = Leave("left02");
  const int lock = open(locked.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(flock(lock, LOCK_EX), 0);
  const pid_t pid = StartWith("LIBRARY=" + needed + "/libtbprof_preload.so");
  LibraryCopy::Sweep();
  EXPECT_FALSE(std::filesystem::exists(first));
  EXPECT_FALSE(std::filesystem::exists(last));
  EXPECT_TRUE(std::filesystem::exists(needed)) << "a process has it in its environment";
  EXPECT_TRUE(std::filesystem::exists(locked)) << "its launcher is alive";
  End(pid);
  close(lock);
  LibraryCopy::Sweep();
  EXPECT_TRUE(std::filesystem::is_empty(place_));
}

// The files of /proc are most of what it reads: once for each copy, they would be thirty times as much.
TEST_F(Sweep, ManyLeftovers_ReadProcOnce) {
  constexpr int kLeftovers = 30;
  uint64_t read[2];
  for (const int count : {1, kLeftovers}) {
    for (int i = 0; i < count; ++i) Leave("left" + std::to_string(10 + i));
    const uint64_t before = BytesRead();
    if (before == 0) GTEST_SKIP() << "/proc/self/io has no count";
    LibraryCopy::Sweep();
    read[count == 1 ? 0 : 1] = BytesRead() - before;
    EXPECT_TRUE(std::filesystem::is_empty(place_));
  }
  EXPECT_GT(read[0], 0u);
  EXPECT_LT(read[1], kLeftovers / 3 * read[0]);
}

// Neither the prefix alone nor a name without its directory is a use.
TEST_F(Sweep, TextLikeACopy_DoesNotKeepIt) {
  Leave("left01");
  const pid_t pid = StartWith("tbprof-lib-=tbprof-lib-left01 tbprof-lib-tbprof-lib-left0/ tbprof-lib-");
  LibraryCopy::Sweep();
  EXPECT_TRUE(std::filesystem::is_empty(place_));
  End(pid);
}

}  // namespace
}  // namespace tbprof
