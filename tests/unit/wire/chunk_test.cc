// SPDX-License-Identifier: Apache-2.0
//
// Chunks between threads of one process: each record is either read once or counted as dropped.
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/wire/segment_maker.h"

namespace tbprof {
namespace {

TEST(Chunk, OneRecord_IsReadBack) {
  GuardedSegment owner(4);
  NumberedWriter writer(owner.get(), 0);
  NumberedReader reader(owner.get());
  EXPECT_FALSE(reader.Pass());
  ASSERT_TRUE(writer.Write(0));
  EXPECT_TRUE(reader.Pass()) << "an owned chunk is read while its owner goes on";
  EXPECT_EQ(reader.spans[0], std::vector<uint64_t>{0});
  EXPECT_FALSE(reader.Pass()) << "nothing twice";
  ASSERT_TRUE(writer.Write(1));
  EXPECT_TRUE(reader.Pass());
  EXPECT_EQ(reader.spans[0], (std::vector<uint64_t>{0, 1}));
  EXPECT_EQ(reader.wrong, 0u);
  EXPECT_EQ(writer.writer.thread->records, 2u);
  EXPECT_EQ(writer.dropped(), 0u);
}

TEST(Chunk, FirstRecord_NamesItsThread) {
  GuardedSegment owner(4);
  owner.get().process_slots[0].pid = 4711;
  NumberedWriter writer(owner.get(), 5, 9);
  ASSERT_TRUE(writer.Write(0));
  const auto* begin = reinterpret_cast<const ChunkBeginRecord*>(owner.get().Chunk(0));
  EXPECT_EQ(begin->tag.kind, RecordKind::kChunkBegin);
  EXPECT_EQ(begin->process_serial, 9u);
  EXPECT_EQ(begin->thread_serial, 6u);
  EXPECT_EQ(begin->pid, 4711);
  EXPECT_EQ(begin->tid, 1005);
  EXPECT_EQ(ThreadSlotOfChunk(owner.get().chunk_states[0]), 5u);
}

TEST(Chunk, UnfinishedRecord_HidesThoseBehindIt) {
  GuardedSegment owner(4);
  NumberedWriter writer(owner.get(), 0);
  NumberedReader reader(owner.get());
  Reservation reservation;
  ASSERT_TRUE(BeginRecord(writer.segment, &writer.writer, 2, &reservation));
  ASSERT_TRUE(writer.Write(1));
  reader.Pass();
  EXPECT_EQ(reader.Count(), 0u);
  writer.Fill(reservation, 0, 0);
  CommitRecord(writer.segment, &writer.writer, reservation, RecordKind::kSpan, 0, 0);
  reader.Pass();
  EXPECT_EQ(reader.spans[0], (std::vector<uint64_t>{0, 1}));
  EXPECT_EQ(writer.writer.depth, 0u);
}

TEST(Chunk, ExactlyFullChunk_IsFreedAndRead) {
  GuardedSegment owner(4);
  NumberedWriter writer(owner.get(), 0);
  NumberedReader reader(owner.get());
  // 2047 slots behind the first slot: 1022 spans, and a last span with one more slot.
  for (uint64_t i = 0; i < 1022; ++i) ASSERT_TRUE(writer.Write(i));
  ASSERT_TRUE(writer.Write(1022, 1));
  EXPECT_EQ(StateOfChunk(owner.get().chunk_states[0]), ChunkState::kOwned);
  reader.Pass();
  EXPECT_EQ(reader.Count(), 1023u);
  ASSERT_TRUE(writer.Write(1023));
  EXPECT_EQ(StateOfChunk(owner.get().chunk_states[0]), ChunkState::kFull);
  reader.Pass();
  EXPECT_EQ(StateOfChunk(owner.get().chunk_states[0]), ChunkState::kFree);
  EXPECT_EQ(reader.Count(), 1024u);
  EXPECT_EQ(reader.pads, 0u);
  EXPECT_EQ(reader.lost, 0u);
  EXPECT_EQ(reader.wrong, 0u);
}

TEST(Chunk, RecordThatDoesNotFit_GoesToTheNextChunk) {
  GuardedSegment owner(4);
  NumberedWriter writer(owner.get(), 0);
  NumberedReader reader(owner.get());
  for (uint64_t i = 0; i < 1022; ++i) ASSERT_TRUE(writer.Write(i));
  ASSERT_TRUE(writer.Write(1022, 500));
  reader.Pass();
  EXPECT_EQ(reader.Count(), 1023u);
  EXPECT_EQ(reader.pads, 1u);
  EXPECT_EQ(reader.lost, 0u);
  EXPECT_EQ(reader.wrong, 0u);
  EXPECT_EQ(StateOfChunk(owner.get().chunk_states[0]), ChunkState::kFree);
  EXPECT_EQ(StateOfChunk(owner.get().chunk_states[1]), ChunkState::kOwned);
}

TEST(Chunk, EachLength_IsReadBack) {
  GuardedSegment owner(4);
  NumberedWriter writer(owner.get(), 0);
  NumberedReader reader(owner.get());
  uint64_t sequence = 0;
  for (uint32_t slots = 2; slots < kSlotsPerChunk; ++slots) {
    ASSERT_TRUE(writer.Write(sequence++, slots - 2)) << slots;
    reader.Pass();
  }
  for (const uint32_t slots : {kSlotsPerChunk, kSlotsPerChunk + 1, 65535u, 65536u, 0x7fffffffu, 0xffffffffu}) {
    Reservation reservation;
    EXPECT_FALSE(BeginRecord(writer.segment, &writer.writer, slots, &reservation)) << slots;
  }
  EXPECT_EQ(writer.writer.thread->dropped[kDropTooLong], 6u);
  ASSERT_TRUE(writer.Write(sequence++)) << "too long a record leaves the writer as it was";
  reader.Pass();
  EXPECT_EQ(reader.MissingAndExtra(0, sequence), std::make_pair(uint64_t{0}, uint64_t{0}));
  EXPECT_EQ(reader.wrong, 0u);
  EXPECT_EQ(reader.lost, 0u);
  EXPECT_EQ(writer.writer.depth, 0u);
}

TEST(Chunk, RecordsTooLong_ChunkNumberIsUnchanged) {
  GuardedSegment owner(4);
  NumberedWriter writer(owner.get(), 0);
  NumberedReader reader(owner.get());
  Reservation reservation;
  for (int i = 0; i < 200; ++i) EXPECT_FALSE(BeginRecord(writer.segment, &writer.writer, 0x3fffffff, &reservation));
  ASSERT_TRUE(writer.Write(0));
  for (int i = 0; i < 200; ++i) EXPECT_FALSE(BeginRecord(writer.segment, &writer.writer, 0x3fffffff, &reservation));
  ASSERT_TRUE(writer.Write(1));
  reader.Pass();
  EXPECT_EQ(reader.spans[0], (std::vector<uint64_t>{0, 1}));
}

TEST(Chunk, ManyChunksOfOneThread_AreReadInOrder) {
  GuardedSegment owner(4);
  NumberedWriter writer(owner.get(), 0);
  NumberedReader reader(owner.get());
  std::mt19937 random(1);
  constexpr uint64_t kCount = 300000;
  for (uint64_t i = 0; i < kCount; ++i) {
    ASSERT_TRUE(writer.Write(i, random() % 16 == 0 ? random() % 300 : random() % 3));
    if (i % 200 == 0) reader.Pass();
  }
  ReleaseChunk(writer.segment, &writer.writer);
  reader.Pass();
  EXPECT_EQ(reader.MissingAndExtra(0, kCount), std::make_pair(uint64_t{0}, uint64_t{0}));
  EXPECT_EQ(reader.wrong, 0u);
  EXPECT_EQ(reader.lost, 0u);
  EXPECT_EQ(reader.out_of_order, 0u);
  EXPECT_EQ(writer.writer.thread->records, kCount);
  for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(StateOfChunk(owner.get().chunk_states[i]), ChunkState::kFree);
}

TEST(Chunk, NoFreeChunk_DropsAreCountedUntilOneIsFree) {
  GuardedSegment owner(2);
  NumberedWriter first(owner.get(), 0), second(owner.get(), 1), third(owner.get(), 2);
  NumberedReader reader(owner.get());
  uint64_t attempts = 0, written = 0;
  ASSERT_TRUE(second.Write(0));
  // The first writer fills the other chunk, and then has none.
  while (attempts < 50000) written += first.Write(attempts++) ? 1 : 0;
  EXPECT_EQ(written, (kSlotsPerChunk - 1) / 2);
  EXPECT_EQ(first.writer.thread->dropped[kDropNoChunk], attempts - written);
  EXPECT_FALSE(third.Write(0)) << "one that never had a chunk";
  EXPECT_EQ(third.dropped(), 1u);
  EXPECT_EQ(first.writer.depth, 0u);
  reader.Pass();
  EXPECT_EQ(reader.spans[0].size(), written);
  // The writer records again after at most kStarvedSkip attempts.
  uint64_t until = 0;
  while (!first.Write(attempts++)) ++until;
  EXPECT_LE(until, kStarvedSkip);
  reader.Pass();
  EXPECT_EQ(reader.spans[0].size(), written + 1);
  EXPECT_EQ(first.dropped() + reader.spans[0].size(), attempts);
  EXPECT_EQ(reader.wrong, 0u);
}

TEST(Chunk, GenerationWraps_OldRecordsAreNotRead) {
  GuardedSegment owner(1);
  NumberedWriter writer(owner.get(), 0);
  NumberedReader reader(owner.get());
  uint64_t sequence = 0;
  for (uint32_t claim = 0; claim < 65535 + 70; ++claim) {
    // Later claims write fewer records than earlier ones: behind their end lie old records of the same generation
    // number.
    const uint32_t records = claim < 100 ? 8 : 1;
    for (uint32_t i = 0; i < records; ++i) ASSERT_TRUE(writer.Write(sequence++)) << claim;
    const uint16_t generation = GenerationOfChunk(owner.get().chunk_states[0]);
    ASSERT_NE(generation, 0);
    ASSERT_EQ(generation, claim < 65535 ? claim + 1 : claim - 65535 + 1);
    ReleaseChunk(writer.segment, &writer.writer);
    reader.Pass();
    ASSERT_EQ(reader.Count(), sequence) << claim;
  }
  EXPECT_EQ(reader.wrong, 0u);
  EXPECT_EQ(reader.lost, 0u);
  EXPECT_EQ(reader.MissingAndExtra(0, sequence), std::make_pair(uint64_t{0}, uint64_t{0}));
}

TEST(Chunk, ReleaseWithoutAChunk_DoesNothing) {
  GuardedSegment owner(2);
  NumberedWriter writer(owner.get(), 0);
  ReleaseChunk(writer.segment, &writer.writer);
  EXPECT_EQ(owner.get().chunk_states[0], 0u);
  ASSERT_TRUE(writer.Write(0));
  ReleaseChunk(writer.segment, &writer.writer);
  ReleaseChunk(writer.segment, &writer.writer);
  ASSERT_TRUE(writer.Write(1)) << "a thread that goes on gets another one";
  NumberedReader reader(owner.get());
  reader.Pass();
  EXPECT_EQ(reader.spans[0], (std::vector<uint64_t>{0, 1}));
}

// A record that was begun in the parent of a fork and finished in the child belongs to neither process.
TEST(Chunk, RecordBegunInAnotherProcess_IsNotFinished) {
  GuardedSegment owner(4);
  NumberedWriter writer(owner.get(), 0);
  Reservation reservation;
  ASSERT_TRUE(BeginRecord(writer.segment, &writer.writer, 2, &reservation));
  writer.writer.process_serial = 2;
  CommitRecord(writer.segment, &writer.writer, reservation, RecordKind::kSpan, 0, 0);
  NumberedReader reader(owner.get());
  reader.Pass(true);
  EXPECT_EQ(reader.Count(), 0u);
  EXPECT_EQ(writer.writer.thread->records, 0u);
}

struct Load {
  uint32_t threads, chunks;
  uint64_t per_thread;
  int reader_sleep_us;
  bool retry;  // writers try again until a chunk is free
};

// Several writers, one reader. The records that were read and dropped add up exactly to the attempts.
void RunLoad(const Load& load) {
  GuardedSegment owner(load.chunks);
  NumberedReader reader(owner.get());
  std::atomic<uint32_t> running{load.threads};
  std::vector<std::vector<uint64_t>> written(load.threads);
  std::vector<uint64_t> attempts(load.threads);
  std::vector<uint64_t> dropped(load.threads);
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < load.threads; ++t) {
    threads.emplace_back([&, t] {
      NumberedWriter writer(owner.get(), t);
      std::mt19937 random(t);
      for (uint64_t i = 0; i < load.per_thread; ++i) {
        const uint32_t extra = random() % 64 == 0 ? random() % 200 : 0;
        for (;;) {
          ++attempts[t];
          if (writer.Write(i, extra)) {
            written[t].push_back(i);
            break;
          }
          if (!load.retry) break;
          std::this_thread::yield();
        }
      }
      ReleaseChunk(writer.segment, &writer.writer);
      dropped[t] = writer.dropped();
      EXPECT_EQ(writer.writer.depth, 0u);
      EXPECT_EQ(writer.writer.thread->records, written[t].size());
      running.fetch_sub(1);
    });
  }
  while (running.load() > 0) {
    reader.Pass();
    if (load.reader_sleep_us > 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(load.reader_sleep_us));
    } else {
      std::this_thread::yield();
    }
  }
  for (std::thread& thread : threads) thread.join();
  while (reader.Pass()) {
  }
  EXPECT_EQ(reader.wrong, 0u);
  EXPECT_EQ(reader.lost, 0u);
  EXPECT_EQ(reader.out_of_order, 0u);
  for (uint32_t t = 0; t < load.threads; ++t) {
    std::vector<uint64_t> read = reader.spans[t];
    std::sort(read.begin(), read.end());
    EXPECT_EQ(read, written[t]) << "thread " << t;
    EXPECT_EQ(read.size() + dropped[t], attempts[t]) << "thread " << t;
  }
  for (uint32_t i = 0; i < load.chunks; ++i) EXPECT_EQ(StateOfChunk(owner.get().chunk_states[i]), ChunkState::kFree);
}

constexpr uint64_t kScale = TBPROF_TEST_TSAN ? 1 : 10;

TEST(ChunkThreads, ManyWriters_EachRecordIsRead) { RunLoad({4, 64, 20000 * kScale, 0, true}); }
TEST(ChunkThreads, FewerChunksThanWriters_EachRecordIsRead) { RunLoad({8, 3, 3000 * kScale, 0, true}); }
TEST(ChunkThreads, OneChunkForAll_EachRecordIsRead) { RunLoad({3, 1, 2000 * kScale, 0, true}); }
TEST(ChunkThreads, SlowReader_DropsAreCounted) { RunLoad({4, 8, 30000 * kScale, 2000, false}); }
TEST(ChunkThreads, StoppedReader_DropsAreCounted) { RunLoad({4, 16, 20000 * kScale, 50000, false}); }

TEST(ChunkThreads, ManyShortThreads_NoRecordIsLost) {
  GuardedSegment owner(64);
  NumberedReader reader(owner.get());
  std::atomic<bool> done{false};
  std::thread drain([&] {
    while (!done.load()) {
      reader.Pass();
      std::this_thread::yield();
    }
    while (reader.Pass()) {
    }
  });
  constexpr uint32_t kThreads = 300;
  for (uint32_t t = 0; t < kThreads; t += 2) {
    const auto body = [&](uint32_t index) {
      NumberedWriter writer(owner.get(), index);
      for (uint64_t i = 0; i < 50; ++i) {
        while (!writer.Write(i)) std::this_thread::yield();
      }
      ReleaseChunk(writer.segment, &writer.writer);
    };
    std::thread one(body, t), two(body, t + 1);
    one.join();
    two.join();
  }
  done = true;
  drain.join();
  for (uint32_t t = 0; t < kThreads; ++t) {
    EXPECT_EQ(reader.MissingAndExtra(t, 50), std::make_pair(uint64_t{0}, uint64_t{0})) << t;
  }
  EXPECT_EQ(reader.wrong, 0u);
}

}  // namespace
}  // namespace tbprof
