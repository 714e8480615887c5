// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/thread_usage.h"

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "writer/base/scoped.h"

namespace tbprof {
namespace {

using std::chrono::milliseconds;
using Time = UsageTrack::Time;

Time At(int ms) { return Time(milliseconds(1000 + ms)); }

// One track, fed with readings at given milliseconds; ticks are milliseconds, too.
class UsageTrackTest : public testing::Test {
 protected:
  void Take(int ms, uint64_t run, uint64_t delay = 0) {
    track_.Take({run, delay, run}, 7, static_cast<uint64_t>(ms), At(ms), &rows_);
  }
  std::vector<uint64_t> Ticks() const {
    std::vector<uint64_t> ticks;
    for (const ThreadUsageRow& row : rows_) ticks.push_back(row.ticks);
    return ticks;
  }
  UsageTrack track_;
  std::vector<ThreadUsageRow> rows_;
};

TEST_F(UsageTrackTest, ThreadThatRuns_HasARowEach50Milliseconds) {
  for (int ms = 1; ms <= 201; ms += 10) Take(ms, static_cast<uint64_t>(ms) * 1000);
  EXPECT_EQ(Ticks(), (std::vector<uint64_t>{1, 51, 101, 151, 201}));
  EXPECT_EQ(rows_[2].cpu_ns, 101'000u);
  EXPECT_EQ(rows_[2].tid, 7);
}

TEST_F(UsageTrackTest, IdleThread_HasARowAtBothEndsOfTheIdleTime) {
  for (int ms = 1; ms <= 500; ms += 10) Take(ms, 1000);
  Take(501, 1900, 30);
  EXPECT_EQ(Ticks(), (std::vector<uint64_t>{1, 491, 501}));
  EXPECT_EQ(rows_[1].cpu_ns, 1000u);
  EXPECT_EQ(rows_[2].cpu_ns, 1900u);
  EXPECT_EQ(rows_[2].run_delay_ns, 30u);
}

TEST_F(UsageTrackTest, End_HasWhatWasReadLast) {
  Take(1, 1000);
  Take(11, 2000);
  track_.Finish(&rows_);
  EXPECT_EQ(Ticks(), (std::vector<uint64_t>{1, 11}));
  EXPECT_EQ(rows_[1].cpu_ns, 2000u);
  track_.Finish(&rows_);
  EXPECT_EQ(rows_.size(), 2u);
  Take(21, 2000);
  EXPECT_EQ(Ticks(), (std::vector<uint64_t>{1, 11, 21}));
}

TEST_F(UsageTrackTest, FaultsOfAThreadThatDidNotRun_AreNotReadAgain) {
  EXPECT_TRUE(track_.WantsFaults({1, 0, 1}, At(0), milliseconds(500)));
  EXPECT_FALSE(track_.WantsFaults({1, 0, 2}, At(499), milliseconds(500)));
  EXPECT_TRUE(track_.WantsFaults({1, 0, 2}, At(500), milliseconds(500)));
  EXPECT_FALSE(track_.WantsFaults({1, 0, 2}, At(9000), milliseconds(500)));
  track_.SetFaults(FaultCounts{uint64_t{1} << 40, 7});
  Take(9001, 5);
  EXPECT_EQ(rows_.back().major_faults, UINT32_MAX);
  EXPECT_EQ(rows_.back().minor_faults, 7u);
}

TEST(ThreadUsage, OwnThread_IsRead) {
  const ScopedFd file(open(SchedulePath(getpid(), gettid()).c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(file.valid());
  const auto first = ReadSchedule(file.get());
  if (!first) GTEST_SKIP() << "this kernel does not count";
  usleep(1000);  // gives up the CPU: the kernel then counts the time until now
  std::optional<ScheduleReading> second;
  do {
    second = ReadSchedule(file.get());
    ASSERT_TRUE(second.has_value());
  } while (second->run_ns == first->run_ns);
  EXPECT_GT(second->run_ns, first->run_ns);
  EXPECT_GE(second->delay_ns, first->delay_ns);
  EXPECT_TRUE(ReadFaults(getpid(), gettid()).has_value());
  EXPECT_FALSE(ReadFaults(getpid(), -1).has_value());
}

}  // namespace
}  // namespace tbprof
