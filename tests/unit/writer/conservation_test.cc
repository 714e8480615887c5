// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/conservation.h"

#include <cstring>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/writer/spool_maker.h"

namespace tbprof {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr uint32_t kIoCall = 3;  // bit number of kFamilyIo

// `abi`: of a library that counts its calls, or of an older one that does not.
void AddSegment(SpoolMaker* spool, uint32_t abi) {
  std::string payload(sizeof(SegmentFact) + sizeof(SegmentHeader) + sizeof(Operation), '\0');
  SegmentHeader header{};
  header.abi = abi;
  Operation read{"read", kFamilyIo, ObjectRole::kNone, ResultRole::kBytes, 0};
  memcpy(&payload[sizeof(SegmentFact)], &header, sizeof(header));
  memcpy(&payload[sizeof(SegmentFact) + sizeof(SegmentHeader)], &read, sizeof(read));
  spool->Raw(FrameType::kSegment, 1, payload);
}

struct Made {
  uint64_t calls = 0, no_room = 0, short_calls = 0, left = 0, records = 0;
  bool ends = true;  // the thread ends by itself, not with its process
  uint32_t abi = kAbiVersion;
};

// A process of one thread with two calls in the window and one call before it. `made` has the thread's counts.
Timeline BuildOf(const Made& made) {
  SpoolMaker spool;
  spool.Session(1000);
  AddSegment(&spool, made.abi);
  spool.Process(1, 1, 100, 100, 9000).Chunk(1, 1, 1).Span(0, 2000, 50).Span(0, 3000, 50).Span(0, 200, 50).EndChunk();
  ThreadFact thread = SpoolMaker::MakeThread(1, 1, 100, 100, made.ends ? 8000 : 0);
  thread.taken_ticks = 8500;
  thread.records = made.records;
  thread.dropped[kDropNoChunk] = made.no_room;
  spool.Thread(1, thread, {{0, 0, made.short_calls, 10}});
  CallCountsFact counts{};
  counts.serial = counts.process_serial = 1;
  counts.start_ticks = 100;
  counts.taken_ticks = 8500;
  counts.made[kIoCall] = made.calls;
  counts.no_room[kIoCall] = made.no_room;
  counts.left[kIoCall] = made.left;
  spool.Raw(FrameType::kCallCounts, 1, std::string(reinterpret_cast<const char*>(&counts), sizeof(counts)));
  spool.End(9500);
  auto timeline = spool.Build();
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  return timeline.ok() ? *std::move(timeline) : Timeline();
}

ConservedRow RowOf(const Timeline& timeline, ConservedKind kind) {
  for (const ConservedRow& row : timeline.conservation) {
    if (row.kind == kind) return row;
  }
  ADD_FAILURE() << "no " << NameOf(kind);
  return {};
}
uint64_t RestOf(const ConservedRow& row, ConservedCause cause) { return row.rest[static_cast<size_t>(cause)]; }

TEST(Conservation, AllCalls_AreEventsOrCounted) {
  const Timeline timeline = BuildOf({.calls = 14, .no_room = 4, .short_calls = 7, .records = 3});
  const ConservedRow io = RowOf(timeline, ConservedKind::kIo);
  EXPECT_EQ(io.made, 14u);
  EXPECT_EQ(io.published, 2u);
  EXPECT_EQ(RestOf(io, ConservedCause::kShort), 7u);
  EXPECT_EQ(RestOf(io, ConservedCause::kNoRoom), 4u);
  EXPECT_EQ(RestOf(io, ConservedCause::kOutsideWindow), 1u);
  EXPECT_EQ(io.holds, true);
  const ConservedRow records = RowOf(timeline, ConservedKind::kRecord);
  EXPECT_EQ(records.made, 7u);
  EXPECT_EQ(records.published, 3u);
  EXPECT_EQ(records.holds, true);
  EXPECT_THAT(timeline.warnings, Not(Contains(HasSubstr("do not add up"))));
}

TEST(Conservation, CallThatIsNowhere_IsMissingWithAWarning) {
  const Timeline timeline = BuildOf({.calls = 5, .short_calls = 1, .records = 3});
  const ConservedRow io = RowOf(timeline, ConservedKind::kIo);
  EXPECT_EQ(io.missing, 1);
  EXPECT_EQ(io.holds, false);
  EXPECT_THAT(timeline.warnings, Contains(HasSubstr("counts do not add up: 1 of 5 io_calls")));
}

TEST(Conservation, MoreThanWereMade_DoesNotHold) {
  const Timeline timeline = BuildOf({.calls = 2, .records = 2});
  EXPECT_EQ(RowOf(timeline, ConservedKind::kIo).missing, -1);
  EXPECT_EQ(RowOf(timeline, ConservedKind::kIo).holds, false);
  EXPECT_EQ(RowOf(timeline, ConservedKind::kRecord).missing, -1);
  EXPECT_EQ(RowOf(timeline, ConservedKind::kRecord).holds, false);
}

TEST(Conservation, KilledThread_MayHaveOneCallMore) {
  const Timeline one = BuildOf({.calls = 4, .records = 3, .ends = false});
  EXPECT_EQ(RestOf(RowOf(one, ConservedKind::kIo), ConservedCause::kLeft), 1u);
  EXPECT_EQ(RowOf(one, ConservedKind::kIo).left_at_most, 1u);
  EXPECT_EQ(RowOf(one, ConservedKind::kIo).holds, true);
  const Timeline two = BuildOf({.calls = 5, .records = 3, .ends = false});
  EXPECT_EQ(RowOf(two, ConservedKind::kIo).missing, 1);
  EXPECT_EQ(RowOf(two, ConservedKind::kIo).holds, false);
}

TEST(Conservation, CallsThatWereLeft_MayBeMissing) {
  const Timeline timeline = BuildOf({.calls = 5, .left = 2, .records = 3});
  EXPECT_EQ(RestOf(RowOf(timeline, ConservedKind::kIo), ConservedCause::kLeft), 2u);
  EXPECT_EQ(RowOf(timeline, ConservedKind::kIo).holds, true);
}

TEST(Conservation, LibraryThatDoesNotCount_HasNoMade) {
  const Timeline timeline = BuildOf({.records = 3, .abi = 12});
  EXPECT_EQ(RowOf(timeline, ConservedKind::kIo).made, std::nullopt);
  EXPECT_EQ(RowOf(timeline, ConservedKind::kIo).published, 2u);
  EXPECT_EQ(RowOf(timeline, ConservedKind::kIo).holds, std::nullopt);
}

}  // namespace
}  // namespace tbprof
