// SPDX-License-Identifier: Apache-2.0
//
// The launcher's side with a peer that dies, and with a hostile peer that writes any value anywhere.
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/wire/segment_maker.h"

namespace tbprof {
namespace {

void SleepUs(long us) {
  const timespec time{us / 1000000, us % 1000000 * 1000};
  nanosleep(&time, nullptr);
}

struct SharedWords {
  SharedWords()
      : words(static_cast<uint64_t*>(mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
  }
  ~SharedWords() { munmap(words, kPage); }
  uint64_t* words;
};

TEST(DyingPeer, EachFinishedRecord_IsRead) {
  constexpr int kRounds = 200;
  SharedWords shared;
  std::mt19937 random(11);
  uint64_t total = 0;
  for (int round = 0; round < kRounds; ++round) {
    GuardedSegment owner(8);
    NumberedReader reader(owner.get());
    __atomic_store_n(&shared.words[0], 0, __ATOMIC_RELAXED);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      NumberedWriter writer(owner.get(), 0);
      for (uint64_t i = 0;; ++i) {
        while (!writer.Write(i, i % 7 == 0 ? 9 : 0)) {
        }
        __atomic_store_n(&shared.words[0], i + 1, __ATOMIC_RELEASE);
      }
    }
    const uint64_t end = ReadMonotonic() + random() % 4'000'000;
    const bool read_meanwhile = round % 4 != 0;
    while (ReadMonotonic() < end) {
      if (read_meanwhile) {
        reader.Pass();
      } else {
        SleepUs(100);
      }
    }
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    while (reader.Pass(true)) {
    }
    const uint64_t committed = __atomic_load_n(&shared.words[0], __ATOMIC_ACQUIRE);
    total += committed;
    const auto [missing, extra] = reader.MissingAndExtra(0, committed);
    EXPECT_EQ(missing, 0u) << round;
    EXPECT_LE(extra, 1u) << round << ": the one that was finished but not counted";
    EXPECT_LE(reader.lost, 1u) << round;
    EXPECT_EQ(reader.wrong, 0u) << round;
    for (uint32_t i = 0; i < 8; ++i) {
      EXPECT_EQ(StateOfChunk(owner.get().chunk_states[i]), ChunkState::kFree) << round << " chunk " << i;
    }
  }
  EXPECT_GT(total, 1000u);
}

// Several processes in one segment, killed one after the other; the others go on undisturbed.
TEST(DyingPeer, OneOfSeveralProcesses_OthersContinue) {
  constexpr uint32_t kChildren = 6;
  GuardedSegment owner(16);
  NumberedReader reader(owner.get());
  SharedWords shared;
  pid_t children[kChildren];
  for (uint32_t c = 0; c < kChildren; ++c) {
    children[c] = fork();
    ASSERT_GE(children[c], 0);
    if (children[c] == 0) {
      NumberedWriter writer(owner.get(), c, c + 1);
      for (uint64_t i = 0;; ++i) {
        while (!writer.Write(i)) SleepUs(50);
        __atomic_store_n(&shared.words[c], i + 1, __ATOMIC_RELEASE);
      }
    }
  }
  const auto read_for = [&](uint64_t ns) {
    for (const uint64_t end = ReadMonotonic() + ns; ReadMonotonic() < end;) reader.Pass();
  };
  for (uint32_t c = 0; c < kChildren; ++c) {
    read_for(8'000'000);
    kill(children[c], SIGKILL);
    int status = 0;
    waitpid(children[c], &status, 0);
  }
  while (reader.Pass(true)) {
  }
  for (uint32_t c = 0; c < kChildren; ++c) {
    const auto [missing, extra] = reader.MissingAndExtra(c, __atomic_load_n(&shared.words[c], __ATOMIC_ACQUIRE));
    EXPECT_EQ(missing, 0u) << c;
    EXPECT_LE(extra, 1u) << c;
  }
  EXPECT_LE(reader.lost, kChildren);
  EXPECT_EQ(reader.wrong, 0u);
}

// ------------------------------------------------------------------------------------------------------- hostile

// Reads every chunk like the drain, without any trust in its content. Returns how often ReadChunk reported more data.
uint64_t ReadHostile(const Segment& segment, std::vector<ChunkReader>* readers, bool owner_gone) {
  uint64_t rounds = 0;
  std::vector<uint64_t> copy;
  for (uint32_t i = 0; i < segment.chunk_count; ++i) {
    ChunkReadResult read;
    // Reads a chunk to its end once: a peer may make new generations meanwhile without end.
    for (uint32_t bound = 0; bound < kSlotsPerChunk; ++bound) {
      if (!ReadChunk(segment, i, owner_gone, kSlotsPerChunk, &(*readers)[i], &read)) break;
      ++rounds;
      EXPECT_LE(read.first, kSlotsPerChunk);
      EXPECT_LE(read.count, kSlotsPerChunk - read.first);
      EXPECT_LE(read.records, read.count);
      EXPECT_LE(read.lost, 1u);
      copy.assign(segment.Chunk(i) + static_cast<uint64_t>(read.first) * 4,
                  segment.Chunk(i) + static_cast<uint64_t>(read.first + read.count) * 4);
      if (FinishChunk(segment, i, read) || read.count == 0) break;
    }
  }
  return rounds;
}

TEST(HostilePeer, RandomStatesAndSlots_DoNotCrash) {
  GuardedSegment owner(6);
  const Segment& segment = owner.get();
  std::mt19937_64 random(5);
  for (int round = 0; round < 3000; ++round) {
    std::vector<ChunkReader> readers(segment.chunk_count);
    for (ChunkReader& reader : readers) {
      reader = {static_cast<uint16_t>(random() % 4), static_cast<uint32_t>(random() % (kSlotsPerChunk + 1))};
    }
    for (uint32_t i = 0; i < segment.chunk_count; ++i) {
      segment.chunk_states[i] = random() % 3 == 0 ? random() : random() % 4 | (random() % 4) << 16 | random() << 32;
      uint64_t* chunk = segment.Chunk(i);
      const uint16_t generation = GenerationOfChunk(segment.chunk_states[i]);
      const uint64_t longest = 1 + random() % 40;
      for (uint32_t slot = 0; slot < kSlotsPerChunk; ++slot) {
        chunk[slot * 4] = random() % 8 == 0 ? random()
                                            : TagWord(generation, static_cast<RecordKind>(random() % 12), 0,
                                                      static_cast<uint16_t>(random() % longest), 0);
      }
    }
    for (int pass = 0; pass < 3; ++pass) ReadHostile(segment, &readers, pass == 2);
  }
}

TEST(HostilePeer, LengthBeyondTheChunk_IsNoRecord) {
  for (uint32_t slot = 0; slot < kSlotsPerChunk; ++slot) {
    for (const uint32_t slots : {0u, kSlotsPerChunk - slot, kSlotsPerChunk - slot + 1, 65535u}) {
      const uint64_t word = TagWord(1, RecordKind::kSpan, 0, static_cast<uint16_t>(slots), 0);
      EXPECT_EQ(IsTag(word, 1, slot), slots != 0 && slot + slots <= kSlotsPerChunk) << slot << " " << slots;
    }
  }
  EXPECT_FALSE(IsTag(TagWord(1, static_cast<RecordKind>(0), 0, 1, 0), 1, 0));
  EXPECT_FALSE(IsTag(TagWord(2, RecordKind::kSpan, 0, 1, 0), 1, 0));
  EXPECT_FALSE(IsTag(0, 0, 0));
}

TEST(HostilePeer, FreeChunk_IsNotRead) {
  GuardedSegment owner(1);
  ChunkReader reader{};
  ChunkReadResult read;
  for (uint64_t state : {uint64_t{0}, uint64_t{3}, uint64_t{0xff}, ~uint64_t{0}}) {
    owner.get().chunk_states[0] = state;
    EXPECT_FALSE(ReadChunk(owner.get(), 0, true, kSlotsPerChunk, &reader, &read)) << state;
  }
}

// All memory that the peer may write changes all the time while the launcher reads.
TEST(HostilePeer, ChangesDuringTheRead_DoNotCrash) {
  GuardedSegment owner(4);
  const Segment& segment = owner.get();
  SharedWords shared;
  shared.words[0] = 0;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::mt19937_64 random(17);
    while (__atomic_load_n(&shared.words[0], __ATOMIC_RELAXED) == 0) {
      const uint32_t chunk = static_cast<uint32_t>(random() % segment.chunk_count);
      const uint16_t generation = static_cast<uint16_t>(1 + random() % 3);
      switch (random() % 4) {
        case 0:
          __atomic_store_n(&segment.chunk_states[chunk],
                           ChunkWord(static_cast<ChunkState>(random() % 3), generation, 0), __ATOMIC_RELEASE);
          break;
        case 1:
          for (uint32_t slot = 0; slot < kSlotsPerChunk; ++slot) {
            segment.Chunk(chunk)[slot * 4] =
                TagWord(generation, RecordKind::kSpan, 0, static_cast<uint16_t>(random() % 8), 0);
          }
          break;
        case 2:
          for (uint64_t* at = reinterpret_cast<uint64_t*>(segment.header);
               at < reinterpret_cast<uint64_t*>(segment.header) + sizeof(SegmentHeader) / 8; ++at) {
            *at = random();
          }
          break;
        default:
          for (int i = 0; i < 100; ++i) segment.Chunk(chunk)[random() % (kSlotsPerChunk * 4)] = random();
      }
    }
    _exit(0);
  }
  std::vector<ChunkReader> readers(segment.chunk_count);
  uint64_t rounds = 0, passes = 0;
  for (const uint64_t end = ReadMonotonic() + 1'000'000'000; ReadMonotonic() < end; ++passes) {
    rounds += ReadHostile(segment, &readers, passes % 5 == 0);
    // Only the copy of the header is checked: it may have any content.
    SegmentHeader header;
    memcpy(&header, segment.header, sizeof(header));
    EXPECT_NE(CheckSegmentHeader(header, owner.size() + kPage), SegmentFault::kNone);
  }
  __atomic_store_n(&shared.words[0], 1, __ATOMIC_RELAXED);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_GT(passes, 10u);
  EXPECT_GT(rounds, 10u);
}

// A writer of tbprof must stay inside a corrupt segment, even if it loses records.
TEST(HostilePeer, CorruptSegment_WriterStaysInside) {
  GuardedSegment owner(4);
  const Segment& segment = owner.get();
  std::mt19937_64 random(23);
  NumberedWriter writer(segment, 0);
  for (uint64_t i = 0; i < 200000; ++i) {
    writer.Write(i, static_cast<uint32_t>(random() % 40));
    if (i % 16 == 0) segment.chunk_states[random() % 4] = random() % 2 == 0 ? random() : 0;
    if (i % 64 == 0) {
      segment.header->chunk_hint = static_cast<uint32_t>(random());
      segment.header->chunk_high = static_cast<uint32_t>(random());
    }
  }
}

}  // namespace
}  // namespace tbprof
