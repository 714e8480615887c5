// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/cpu_limits.h"

#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <thread>

#include <gtest/gtest.h>

namespace tbprof {
namespace {

// A folder with the layout of /sys/fs/cgroup.
class CpuLimitsTest : public testing::Test {
 protected:
  CpuLimitsTest() {
    std::string name = (std::filesystem::temp_directory_path() / "tbprof-cgroups-XXXXXX").string();
    root_ = mkdtemp(name.data());
    Write("", "cgroup.controllers", "cpu memory\n");
  }
  ~CpuLimitsTest() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& directory, const std::string& file, const std::string& text) {
    std::filesystem::create_directories(root_ + directory);
    std::ofstream(root_ + directory + "/" + file) << text;
  }
  CpuLimitsFact Find(const std::string& membership) {
    CpuLimitsReader reader(getpid(), root_);
    reader.FindCgroup(membership);
    CpuLimitsFact fact = {};
    EXPECT_TRUE(reader.ReadThrottled(&fact));
    EXPECT_EQ(reader.has_quota(), fact.quota_us > 0);
    return fact;
  }
  std::string root_;
};

TEST_F(CpuLimitsTest, SmallestQuotaAbove_CountsWithItsThrottling) {
  Write("/a", "cpu.max", "300000 100000\n");
  Write("/a/b", "cpu.max", "150000 100000\n");
  Write("/a/b", "cpu.stat", "usage_usec 5\nnr_periods 9\nnr_throttled 4\nthrottled_usec 1234\n");
  Write("/a/b/c", "cpu.max", "max 100000\n");
  Write("/a/b/c", "cpu.stat", "usage_usec 5\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n");
  const CpuLimitsFact fact = Find("9:cpu:/elsewhere\n0::/a/b/c\n");
  EXPECT_EQ(fact.quota_us, 150'000);
  EXPECT_EQ(fact.period_us, 100'000);
  EXPECT_EQ(fact.throttled_us, 1234);
  EXPECT_EQ(fact.throttled_periods, 4u);
}

TEST_F(CpuLimitsTest, CgroupWithoutQuota_IsNotThrottled) {
  Write("/a", "cpu.stat", "usage_usec 5\n");
  const CpuLimitsFact fact = Find("0::/a\n");
  EXPECT_EQ(fact.quota_us, -1);
  EXPECT_EQ(fact.throttled_us, 0);
}

TEST_F(CpuLimitsTest, RootOfAContainer_HasItsQuota) {
  Write("", "cpu.max", "50000 100000\n");
  Write("", "cpu.stat", "nr_throttled 1\nthrottled_usec 7\n");
  const CpuLimitsFact fact = Find("0::/\n");
  EXPECT_EQ(fact.quota_us, 50'000);
  EXPECT_EQ(fact.throttled_us, 7);
}

TEST_F(CpuLimitsTest, WhatCannotBeSeen_IsNotKnown) {
  for (const char* membership : {"0::/../other\n", "0::/absent\n", "4:cpu:/\n", ""}) {
    const CpuLimitsFact fact = Find(membership);
    EXPECT_EQ(fact.quota_us, -2) << membership;
    EXPECT_EQ(fact.throttled_us, -1) << membership;
  }
  // cgroup v1.
  std::filesystem::remove(root_ + "/cgroup.controllers");
  EXPECT_EQ(Find("0::/\n").quota_us, -2);
}

TEST_F(CpuLimitsTest, OnlyWhatIsNew_IsReported) {
  Write("/a", "cpu.max", "50000 100000\n");
  Write("/a", "cpu.stat", "nr_throttled 1\nthrottled_usec 7\n");
  CpuLimitsReader reader(getpid(), root_);
  reader.FindCgroup("0::/a\n");
  CpuLimitsFact fact = {};
  EXPECT_TRUE(reader.ReadThrottled(&fact));
  EXPECT_FALSE(reader.ReadThrottled(&fact));
  Write("/a", "cpu.stat", "nr_throttled 2\nthrottled_usec 19\n");
  EXPECT_TRUE(reader.ReadThrottled(&fact));
  EXPECT_EQ(fact.throttled_us, 19);
  std::filesystem::remove(root_ + "/a/cpu.stat");
  EXPECT_FALSE(reader.ReadThrottled(&fact));
  EXPECT_EQ(fact.throttled_us, 19);
}

TEST(CpuLimits, OwnAffinity_IsCounted) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  EXPECT_EQ(AllowedCpus(gettid()), CPU_COUNT(&before));
  CPU_ZERO(&one);
  for (int cpu = 0; CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(AllowedCpus(gettid()), 1);
  EXPECT_EQ(AllowedCpusOfThreads(getpid()), 1);
  if (CPU_COUNT(&before) > 1) {
    std::promise<void> is_set, end;
    cpu_set_t rest = before;
    CPU_XOR(&rest, &before, &one);
    std::thread other([&] {
      sched_setaffinity(0, sizeof(rest), &rest);
      is_set.set_value();
      end.get_future().wait();
    });
    is_set.get_future().wait();
    EXPECT_EQ(AllowedCpusOfThreads(getpid()), CPU_COUNT(&before)) << "a library bound its threads: no CPU was taken";
    end.set_value();
    other.join();
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
  EXPECT_EQ(AllowedCpus(-1), 0);
}

}  // namespace
}  // namespace tbprof
