// SPDX-License-Identifier: Apache-2.0
#include "cupti/buffers.h"

#include <cstring>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace tbprof::cupti {
namespace {

std::unique_ptr<Buffers> Started(bool may_refuse = true) {
  auto buffers = std::make_unique<Buffers>();
  EXPECT_TRUE(buffers->Start(may_refuse));
  return buffers;
}

TEST(Buffers, Request_BuffersAreZeroedAndTakenInOrderOfCompletion) {
  auto buffers = Started();
  uint8_t* first = buffers->Request(1);
  uint8_t* second = buffers->Request(1);
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, first);
  EXPECT_EQ(buffers->lent(), 2u);
  memset(first, 1, Buffers::kBufferBytes);
  buffers->Complete(second, 16);
  buffers->Complete(first, Buffers::kBufferBytes);
  EXPECT_EQ(buffers->lent(), 0u);
  Buffers::Filled filled;
  ASSERT_TRUE(buffers->Take(&filled));
  EXPECT_EQ(filled.data, second);
  EXPECT_EQ(filled.valid, 16u);
  buffers->Return(filled);
  ASSERT_TRUE(buffers->Take(&filled));
  EXPECT_EQ(filled.data, first);
  buffers->Return(filled);
  EXPECT_FALSE(buffers->Take(&filled));
  EXPECT_EQ(buffers->Request(1), first) << "what is in memory already comes first";
  for (size_t i = 0; i < Buffers::kBufferBytes; ++i) ASSERT_EQ(first[i], 0) << i;
}

TEST(Buffers, OldestTicks_CountsUntilTheBufferIsReturned) {
  auto buffers = Started();
  EXPECT_EQ(buffers->OldestTicks(), 0u);
  uint8_t* first = buffers->Request(50);
  uint8_t* second = buffers->Request(60);
  const auto take = [&] {
    Buffers::Filled filled;
    ASSERT_TRUE(buffers->Take(&filled));
    buffers->Return(filled);
  };
  buffers->Complete(second, 16);
  take();
  EXPECT_EQ(buffers->OldestTicks(), 50u) << "the older one is out";
  EXPECT_EQ(buffers->Request(70), second);
  buffers->Complete(first, 16);
  EXPECT_EQ(buffers->OldestTicks(), 50u) << "completed, not taken";
  take();
  EXPECT_EQ(buffers->OldestTicks(), 70u);
  buffers->Complete(second, 0);
  take();
  EXPECT_EQ(buffers->OldestTicks(), 0u);
}

TEST(Buffers, Request_MoreThanAllBuffers_RefusalsAreCounted) {
  auto buffers = Started();
  std::set<uint8_t*> all;
  for (uint32_t i = 0; i < Buffers::kCount; ++i) all.insert(buffers->Request(1));
  EXPECT_EQ(all.size(), Buffers::kCount);
  EXPECT_FALSE(all.contains(nullptr));
  EXPECT_EQ(buffers->Request(1), nullptr);
  EXPECT_EQ(buffers->refused(), 1u);
  EXPECT_LE(static_cast<size_t>(Buffers::kCount) * Buffers::kBufferBytes, 56u << 20);
  buffers->Complete(*all.begin(), 0);
  Buffers::Filled filled;
  ASSERT_TRUE(buffers->Take(&filled));
  buffers->Return(filled);
  EXPECT_EQ(buffers->Request(1), *all.begin());
}

TEST(Buffers, Request_RefusalWouldCrashCupti_IsNotRefused) {
  auto buffers = Started(false);
  for (uint32_t i = 0; i < Buffers::kCount + 10; ++i) ASSERT_NE(buffers->Request(1), nullptr) << i;
}

TEST(Buffers, Complete_ForeignBufferOrSize_IsIgnored) {
  auto buffers = Started();
  uint8_t elsewhere[8];
  EXPECT_FALSE(buffers->Complete(elsewhere, 8));
  EXPECT_FALSE(buffers->Complete(reinterpret_cast<uint8_t*>(8), 8));
  Buffers::Filled filled;
  EXPECT_FALSE(buffers->Take(&filled));
  uint8_t* buffer = buffers->Request(1);
  buffers->Complete(buffer, SIZE_MAX);
  ASSERT_TRUE(buffers->Take(&filled));
  EXPECT_EQ(filled.valid, size_t{Buffers::kBufferBytes});
}

TEST(Buffers, Complete_ManyNearlyEmptyBuffers_DoNotCallTheirReader) {
  auto buffers = Started();
  std::vector<uint8_t*> lent;
  for (int i = 0; i < 32; ++i) lent.push_back(buffers->Request(1));
  for (uint8_t* buffer : lent) EXPECT_FALSE(buffers->Complete(buffer, 400));
  int calls = 0;
  for (uint32_t i = 32; i < Buffers::kCount; ++i) calls += buffers->Complete(buffers->Request(1), 400);
  EXPECT_EQ(calls, 4) << "a quarter of all buffers each time: there must be some left";
}

TEST(Buffers, Complete_ManyBytes_CallsTheirReader) {
  auto buffers = Started();
  int calls = 0;
  for (int i = 0; i < 16; ++i) calls += buffers->Complete(buffers->Request(1), Buffers::kBufferBytes);
  EXPECT_EQ(calls, 2);
}

TEST(Buffers, ManyThreads_NoBufferIsLost) {
  auto buffers = Started();
  constexpr int kThreads = 8, kRounds = 20000;
  std::vector<std::thread> threads;
  uint64_t filled_count = 0;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&buffers] {
      for (int i = 0; i < kRounds; ++i) {
        uint8_t* buffer = buffers->Request(1);
        while (buffer == nullptr) {
          std::this_thread::yield();
          buffer = buffers->Request(1);
        }
        if (buffer[0] != 0) abort();
        buffer[0] = 1;
        buffers->Complete(buffer, 1);
      }
    });
  }
  Buffers::Filled filled;
  while (filled_count < uint64_t{kThreads} * kRounds) {
    if (!buffers->Take(&filled)) {
      std::this_thread::yield();
      continue;
    }
    ++filled_count;
    ASSERT_EQ(filled.data[0], 1);
    buffers->Return(filled);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(buffers->Take(&filled));
  EXPECT_EQ(buffers->lent(), 0u);
}

TEST(Pace, Records_SlowBuffers_AreFewer) {
  auto pace = std::make_unique<Pace>();
  // Thread 1 launches all the time.
  uint32_t records = 0;
  for (int i = 0; i < 8; ++i) records = pace->Records(1);
  EXPECT_EQ(records, Pace::kMost);
  // Thread 2 takes ten periods to fill a buffer: it gets the minimum.
  EXPECT_EQ(pace->Records(2), Pace::kLeast);
  for (int i = 0; i < 10; ++i) pace->NextPeriod();
  EXPECT_EQ(pace->Records(2), Pace::kLeast);
  for (int i = 0; i < 10; ++i) pace->NextPeriod();
  EXPECT_EQ(pace->Records(2), Pace::kLeast);
  // After one period it gets as many records as before; within the same period, four times as many.
  pace->NextPeriod();
  EXPECT_EQ(pace->Records(2), Pace::kLeast);
  EXPECT_EQ(pace->Records(2), 4 * Pace::kLeast);
  // Thread 1 was idle for long, and is soon at the maximum again.
  EXPECT_EQ(pace->Records(1), Pace::kMost / 21);
  for (int i = 0; i < 3; ++i) records = pace->Records(1);
  EXPECT_EQ(records, Pace::kMost);
}

}  // namespace
}  // namespace tbprof::cupti
