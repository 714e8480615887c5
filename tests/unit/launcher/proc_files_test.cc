// SPDX-License-Identifier: Apache-2.0
#include "launcher/base/proc_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <thread>

namespace tbprof {
namespace {

using testing::Contains;
using testing::IsEmpty;

constexpr char kStatus[] =
    "Name:\tCapEff:\n"
    "State:\tS (sleeping)\n"
    "Uid:\t1000\t1001\t1002\t1003\n"
    "Gid:\t7\n"
    "SigCgt:\t8000000000000001\n"
    "CapInh:\tffffffffffffffff\n"
    "CapEff:\t0000000000080080\n"
    "Seccomp:\t2\n"
    "Empty:\n";

TEST(StatusField, Line_IsFoundByItsWholeName) {
  EXPECT_EQ(StatusField(kStatus, "State"), "S (sleeping)");
  EXPECT_EQ(StatusField(kStatus, "Name"), "CapEff:");
  EXPECT_EQ(StatusField(kStatus, "Empty"), "");
  EXPECT_EQ(StatusField(kStatus, "Cap"), "");
  EXPECT_EQ(StatusField("flags\t\t: fpu vme\nflags\t\t: other\n", "flags"), "fpu vme");
  EXPECT_EQ(StatusField("", "State"), "");
  EXPECT_EQ(StatusField("Seccomp:\t2", "Seccomp"), "2");
}

TEST(StatusIds, RealEffectiveAndSavedId_AreReturned) {
  EXPECT_EQ(StatusIds(kStatus, "Uid"), (std::array<unsigned, 3>{1000, 1001, 1002}));
  EXPECT_FALSE(StatusIds(kStatus, "Gid").has_value());
  EXPECT_FALSE(StatusIds(kStatus, "Other").has_value());
}

TEST(StatusBit, BitOfAField_IsReturned) {
  EXPECT_EQ(StatusBit(kStatus, "SigCgt", 0), true);
  EXPECT_EQ(StatusBit(kStatus, "SigCgt", 1), false);
  EXPECT_EQ(StatusBit(kStatus, "SigCgt", 63), true);
  EXPECT_EQ(StatusBit(kStatus, "SigCgt", 64), false);
  EXPECT_FALSE(StatusBit(kStatus, "SigIgn", 0).has_value());
}

TEST(HasCapability, EffectiveSet_Counts) {
  EXPECT_TRUE(HasCapability(kStatus, 7));
  EXPECT_TRUE(HasCapability(kStatus, 19));
  EXPECT_FALSE(HasCapability(kStatus, 8));
  EXPECT_FALSE(HasCapability(kStatus, 40));
  EXPECT_FALSE(HasCapability("CapInh:\tffffffffffffffff\n", 7));
  EXPECT_FALSE(HasCapability("", 7));
}

TEST(LinkText, WholeText_OrEmpty) {
  EXPECT_EQ(LinkText("/proc/self"), std::to_string(getpid()));
  EXPECT_EQ(LinkText("/proc/self/status"), "");
  EXPECT_EQ(LinkText("/proc/no such file"), "");
}

TEST(Pids, OwnProcess_IsListed) {
  EXPECT_THAT(Pids(), Contains(getpid()));
  EXPECT_THAT(NumbersIn("/proc/no such file"), IsEmpty());
}

TEST(TasksOf, OwnThreads_MainThreadIsFirst) {
  pid_t tid = 0;
  std::vector<pid_t> tasks;
  std::thread([&] {
    tid = gettid();
    tasks = TasksOf(getpid());
  }).join();
  ASSERT_FALSE(tasks.empty());
  EXPECT_EQ(tasks[0], getpid());
  EXPECT_THAT(tasks, Contains(tid));
  EXPECT_THAT(TasksOf(-1), IsEmpty());
}

TEST(ReadText, FileOfTheKernel_IsReadWhole) {
  int error = -1;
  const std::string maps = ReadProcFile("/proc/self/maps", &error);
  EXPECT_EQ(error, 0);
  EXPECT_TRUE(maps.ends_with('\n'));
  EXPECT_EQ(ReadProcFile("/proc/no such file", &error), "");
  EXPECT_EQ(error, ENOENT);
  EXPECT_EQ(ReadText("/proc/self/comm"), ReadProcFile("/proc/self/comm", &error));
}

TEST(ReadText, Errno_IsThatOfTheFailedCall) {
  errno = ERANGE;
  EXPECT_NE(ReadText("/proc/self/status"), "");
  EXPECT_EQ(errno, ERANGE);
  EXPECT_EQ(ReadText("/proc/no such file"), "");
  EXPECT_EQ(errno, ENOENT);
}

TEST(ReadText, NoRegularFile_IsEmptyAtOnce) {
  char directory[] = "/tmp/tbprof-test-XXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  const std::string fifo = std::string(directory) + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(ReadText(fifo), "");
  EXPECT_EQ(ReadText(directory), "");
  EXPECT_EQ(ReadText("/dev/zero"), "");
  unlink(fifo.c_str());
  rmdir(directory);
}

}  // namespace
}  // namespace tbprof
