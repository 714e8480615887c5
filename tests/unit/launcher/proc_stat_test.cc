// SPDX-License-Identifier: Apache-2.0
#include "launcher/base/proc_stat.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace tbprof {
namespace {

// The fields behind the state of a process that a signal has ended.
constexpr char kRest[] =
    " 7 12 12 0 -1 4194560 500 600 17 18 9 9 9 9 20 0 1 0 4242 0 0 18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 1 "
    "0 0 0 0 0 0 0 0 0 0 0 0 139\n";

TEST(ParseProcStat, LineOfTheKernel_HasItsFields) {
  const auto stat = ParseProcStat(std::string("12 (python3) Z") + kRest);
  ASSERT_TRUE(stat.has_value());
  EXPECT_EQ(stat->state, 'Z');
  EXPECT_EQ(stat->parent, 7);
  EXPECT_EQ(stat->minor_faults, 500u);
  EXPECT_EQ(stat->major_faults, 17u);
  EXPECT_EQ(stat->start_ticks, 4242u);
  EXPECT_EQ(stat->last_field, 139);
}

TEST(ParseProcStat, NameLikeTheFieldsBehindIt_IsSkipped) {
  for (const std::string name : {"", ")", "a) R 1 2 3", "((", ") Z (", "two words", "\xff\x01", "(sd-pam)", "a\nb"}) {
    const auto stat = ParseProcStat("12 (" + name + ") S" + kRest);
    ASSERT_TRUE(stat.has_value()) << name;
    EXPECT_EQ(stat->state, 'S') << name;
    EXPECT_EQ(stat->parent, 7) << name;
    EXPECT_EQ(stat->last_field, 139) << name;
  }
}

TEST(ParseProcStat, ShortOrOtherText_IsNone) {
  const std::string whole = std::string("12 (a) S") + kRest;
  const size_t start = whole.find("4242");
  for (size_t size = 0; size < start; ++size) EXPECT_FALSE(ParseProcStat(whole.substr(0, size)).has_value()) << size;
  for (const char* text : {"\n", ")", "12 a S 1", "12 (a)", "12 (a) ", "12 (a) SS 1", "12 (a) S x"}) {
    EXPECT_FALSE(ParseProcStat(text).has_value()) << text;
  }
  EXPECT_FALSE(ParseProcStat(whole.substr(0, start) + "many 0").has_value());
  EXPECT_FALSE(ParseProcStat(whole.substr(0, whole.size() - 1) + "x").has_value());
}

TEST(ReadProcStat, OwnProcessAndThread_AreRead) {
  char name[16];
  ASSERT_EQ(prctl(PR_GET_NAME, name), 0);
  ASSERT_EQ(prctl(PR_SET_NAME, ") Z 1 ("), 0);
  const auto process = ReadProcStat(getpid());
  const auto thread = ReadProcStat(getpid(), gettid());
  prctl(PR_SET_NAME, name);
  ASSERT_TRUE(process.has_value());
  ASSERT_TRUE(thread.has_value());
  EXPECT_EQ(process->state, 'R');
  EXPECT_EQ(process->parent, getppid());
  EXPECT_GT(process->minor_faults, 0u);
  EXPECT_EQ(thread->start_ticks, process->start_ticks);
}

TEST(ReadProcStat, NoSuchProcess_IsNone) {
  EXPECT_FALSE(ReadProcStat(-1).has_value());
  EXPECT_FALSE(ReadProcStat(getpid(), -1).has_value());
  EXPECT_EQ(SchedulerState(-1), '\0');
}

TEST(ReadProcStat, Zombie_HasItsExitStatus) {
  const pid_t child = fork();
  if (child == 0) _exit(3);
  siginfo_t ended;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  const auto stat = ReadProcStat(child);
  EXPECT_EQ(SchedulerState(child), 'Z');
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  ASSERT_TRUE(stat.has_value());
  EXPECT_EQ(stat->state, 'Z');
  EXPECT_EQ(stat->last_field, 3 << 8);
}

}  // namespace
}  // namespace tbprof
