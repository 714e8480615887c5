// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/blocked_threads.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace tbprof {
namespace {

int32_t OwnTid() { return static_cast<int32_t>(syscall(SYS_gettid)); }

// Samples this process until a row of the thread has what is wanted.
BlockedCallRow SampleUntil(int32_t tid, const std::function<bool(const BlockedCallRow&)>& wanted,
                           const BlockedThreads::IsGil& is_gil) {
  BlockedThreads threads(getpid(), BlockedThreads::Scope::kAll);
  for (uint64_t ticks = 1;; ++ticks) {
    std::vector<BlockedCallRow> rows;
    std::vector<ThreadUsageRow> usage;
    threads.Sample(std::chrono::steady_clock::now(), ticks, is_gil, {&rows, &usage});
    threads.Finish({&rows, &usage});
    const auto row = std::ranges::find_if(
        rows, [&](const BlockedCallRow& candidate) { return candidate.tid == tid && wanted(candidate); });
    if (row != rows.end()) return *row;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

bool IsNoGil(uint64_t) { return false; }

// This thread holds a mutex for which another one waits, or will soon.
struct MutexWithAWaiter {
  MutexWithAWaiter() {
    pthread_mutex_lock(&mutex);
    waits = std::thread([this] {
      tid = OwnTid();
      pthread_mutex_lock(&mutex);
      pthread_mutex_unlock(&mutex);
    });
    while (tid == 0) std::this_thread::yield();
  }
  ~MutexWithAWaiter() {
    pthread_mutex_unlock(&mutex);
    waits.join();
  }

  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  std::atomic<int32_t> tid = 0;
  std::thread waits;
};

TEST(BlockedThreads, ThreadInAContendedMutex_HasItsHolderAndItsCall) {
  MutexWithAWaiter held;
  const BlockedCallRow row = SampleUntil(
      held.tid, [](const BlockedCallRow& one) { return one.holder != 0 && one.site != 0; }, IsNoGil);
  EXPECT_EQ(row.kind, BlockedIn::kFutex);
  EXPECT_EQ(row.call, SYS_futex + 1);
  EXPECT_EQ(row.futex, reinterpret_cast<uint64_t>(&held.mutex));
  EXPECT_EQ(row.holder, OwnTid());
  EXPECT_NE(row.function, 0u);
}

TEST(BlockedThreads, FutexOfTheGil_IsAWaitForIt) {
  MutexWithAWaiter held;
  const BlockedCallRow row = SampleUntil(
      held.tid, [](const BlockedCallRow& one) { return one.kind == BlockedIn::kGil; },
      [&](uint64_t futex) { return futex == reinterpret_cast<uint64_t>(&held.mutex); });
  EXPECT_EQ(row.holder, 0);
}

TEST(BlockedThreads, WaitOverSeveralSamples_IsOneRow) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::atomic<int32_t> tid = 0;
  std::thread reader([&] {
    tid = OwnTid();
    char byte;
    EXPECT_EQ(read(ends[0], &byte, 1), 1);
  });
  while (tid == 0) std::this_thread::yield();
  // The reader blocks at some time; from then on each sample sees it.
  SampleUntil(
      tid, [](const BlockedCallRow& one) { return one.kind == BlockedIn::kPipe; }, IsNoGil);
  BlockedThreads threads(getpid(), BlockedThreads::Scope::kAll);
  std::vector<BlockedCallRow> rows;
  std::vector<ThreadUsageRow> usage;
  for (uint64_t ticks = 1; ticks <= 5; ++ticks) {
    threads.Sample(std::chrono::steady_clock::now(), ticks, IsNoGil, {&rows, &usage});
  }
  threads.Finish({&rows, &usage});
  EXPECT_EQ(std::ranges::count(usage, OwnTid(), &ThreadUsageRow::tid) > 0, true) << "the CPU time of each thread";
  const auto of_reader = [&](const BlockedCallRow& row) { return row.tid == tid; };
  ASSERT_EQ(std::ranges::count_if(rows, of_reader), 1);
  const BlockedCallRow row = *std::ranges::find_if(rows, of_reader);
  EXPECT_EQ(row.samples, 5u);
  EXPECT_EQ(row.fd, ends[0]);
  EXPECT_EQ(row.first_ticks, 1u);
  EXPECT_EQ(row.last_ticks, 5u);
  EXPECT_EQ(write(ends[1], "x", 1), 1);
  reader.join();
  close(ends[0]);
  close(ends[1]);
}

// A thread is looked at until it runs.
TEST(BlockedThreads, FirstCallsOnly_EndWhenTheThreadRuns) {
  BlockedThreads threads(getpid(), BlockedThreads::Scope::kFirst);
  std::vector<BlockedCallRow> rows;
  uint64_t ticks = 0;
  const auto sample = [&] { threads.Sample(std::chrono::steady_clock::now(), ++ticks, IsNoGil, {&rows, nullptr}); };
  int32_t waiter = 0;
  {
    MutexWithAWaiter blocked;
    waiter = blocked.tid;
    const auto waits = [&] {
      return std::ranges::any_of(
          rows, [&](const BlockedCallRow& row) { return row.tid == waiter && row.kind == BlockedIn::kFutex; });
    };
    // Each window begins anew, until one finds it in its call.
    while (!waits()) {
      sample();
      threads.Finish({&rows, nullptr});
    }
    sample();
    EXPECT_FALSE(threads.IsDone());
  }
  sample();
  EXPECT_TRUE(threads.IsDone()) << "the thread has ended, and this one runs";
  rows.clear();
  sample();
  threads.Finish({&rows, nullptr});
  EXPECT_TRUE(rows.empty());
}

}  // namespace
}  // namespace tbprof
