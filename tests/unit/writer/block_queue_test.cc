// SPDX-License-Identifier: Apache-2.0
//
// The blocks between two threads: all of them, in order, never more than there may be; and both ends of it.
#include "writer/block_queue.h"

#include <new>
#include <thread>

#include <gtest/gtest.h>

namespace tbprof {
namespace {

constexpr size_t kBytes = 16;

FrameBlock Block(uint32_t number, size_t frames) {
  FrameBlock block;
  block.bytes.resize(kBytes);
  for (size_t i = 0; i < frames; ++i) block.frames.push_back({.type = 0, .segment = number, .part = 0, .offset = i});
  return block;
}

TEST(BlockQueue, GivesAllInOrder) {
  constexpr uint32_t kBlocks = 10'000;
  BlockQueue queue(kBytes);
  std::atomic<int> out{0};
  std::thread reader([&] {
    for (uint32_t i = 0; i < kBlocks; ++i) {
      FrameBlock block;
      ASSERT_TRUE(queue.Obtain(kBytes, &block));
      EXPECT_TRUE(block.frames.empty());
      EXPECT_GE(block.bytes.size(), kBytes);
      block.frames.push_back({.type = 0, .segment = i, .part = 0});
      EXPECT_LE(out.fetch_add(1) + 1, 4);
      queue.HandOver(std::move(block));
    }
    queue.Finish({}, {.position = 7}, nullptr);
  });
  FrameBlock block;
  for (uint32_t i = 0; i < kBlocks; ++i) {
    ASSERT_TRUE(queue.Take(&block));
    ASSERT_EQ(block.frames.size(), 1u);
    EXPECT_EQ(block.frames[0].segment, i);
    out.fetch_sub(1);
  }
  ASSERT_TRUE(queue.Take(&block));
  EXPECT_TRUE(block.frames.empty());
  EXPECT_FALSE(queue.Take(&block));
  EXPECT_FALSE(queue.Take(&block));
  EXPECT_EQ(queue.last_state().position, 7u);
  reader.join();
}

// Nobody takes: three are handed over, and there is room for no other until it ends.
TEST(BlockQueue, StopsWhoeverWaitsForRoom) {
  BlockQueue queue(kBytes);
  std::atomic<int> handed_over{0};
  std::atomic<bool> refused{false};
  std::thread reader([&] {
    FrameBlock block;
    while (queue.Obtain(kBytes, &block)) {
      queue.HandOver(std::move(block));
      block = {};
      ++handed_over;
    }
    refused = true;
  });
  while (handed_over < 3) std::this_thread::yield();
  EXPECT_FALSE(queue.stopped());
  queue.Stop();
  reader.join();
  EXPECT_TRUE(refused);
  EXPECT_EQ(handed_over, 3);
}

// One that is longer than all of them may be goes alone.
TEST(BlockQueue, AnyLengthHasRoomWhenNothingElseIsAway) {
  BlockQueue queue(kBytes);
  FrameBlock longest, block;
  ASSERT_TRUE(queue.Obtain(100 * kBytes, &longest));
  queue.HandOver(std::move(longest));
  std::thread reader([&] {
    FrameBlock next;
    EXPECT_TRUE(queue.Obtain(kBytes, &next));
    EXPECT_LT(next.bytes.size(), 100 * kBytes) << "what it took is given back";
    queue.Finish(std::move(next), {}, nullptr);
  });
  ASSERT_TRUE(queue.Take(&block));
  EXPECT_EQ(block.bytes.size(), 100 * kBytes);
  ASSERT_TRUE(queue.Take(&block));
  EXPECT_FALSE(queue.Take(&block));
  reader.join();
}

TEST(BlockQueue, TellsWhatEndedTheReadingBehindWhatWasRead) {
  BlockQueue queue(kBytes);
  queue.HandOver(Block(1, 2));
  queue.Finish(Block(2, 1), {}, std::make_exception_ptr(std::bad_alloc()));
  FrameBlock block;
  ASSERT_TRUE(queue.Take(&block));
  EXPECT_EQ(block.frames.size(), 2u);
  ASSERT_TRUE(queue.Take(&block));
  EXPECT_EQ(block.frames.size(), 1u);
  EXPECT_THROW(queue.Take(&block), std::bad_alloc);
  EXPECT_THROW(queue.Take(&block), std::bad_alloc) << "and goes on telling";
}

}  // namespace
}  // namespace tbprof
