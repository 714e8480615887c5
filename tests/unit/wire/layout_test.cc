// SPDX-License-Identifier: Apache-2.0
//
// The layout as numbers: a change of any number changes the ABI and must be intended. Also the launcher's checks before
// it maps a segment that it does not trust.
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/wire/segment_maker.h"
#include "wire/layout.h"
#include "wire/records.h"
#include "wire/segment.h"

namespace tbprof {
namespace {

TEST(Layout, SizesAndOffsets_EqualThoseOfAbi14) {
  static_assert(kAbiVersion == 14, "a new ABI: write down its numbers here");
  EXPECT_EQ(memcmp(&kSegmentMagic, "TBPRSEG1", 8), 0);
  EXPECT_EQ(sizeof(SegmentHeader), 448u);
  EXPECT_EQ(sizeof(Operation), 48u);
  EXPECT_EQ(sizeof(ProcessSlot), 256u);
  EXPECT_EQ(sizeof(ThreadSlot), 4096u);
  EXPECT_EQ(offsetof(SegmentHeader, magic), 0u);
  EXPECT_EQ(offsetof(SegmentHeader, abi), 8u);
  EXPECT_EQ(offsetof(SegmentHeader, chunk_count), 48u);
  EXPECT_EQ(offsetof(SegmentHeader, segment_bytes), 56u);
  EXPECT_EQ(offsetof(SegmentHeader, nonce), 104u);
  EXPECT_EQ(offsetof(SegmentHeader, control), 256u);
  EXPECT_EQ(offsetof(SegmentHeader, malloc_stamp_every), 260u);
  EXPECT_EQ(offsetof(SegmentHeader, malloc_interval), 272u);
  EXPECT_EQ(offsetof(SegmentHeader, sample_stack_bytes), 296u);
  EXPECT_EQ(offsetof(SegmentHeader, torch_all), 300u);
  EXPECT_EQ(offsetof(SegmentHeader, gpu_windows), 304u);
  EXPECT_EQ(offsetof(SegmentHeader, python_wait_ticks), 312u);
  EXPECT_EQ(offsetof(SegmentHeader, chunk_hint), 320u);
  EXPECT_EQ(offsetof(SegmentHeader, dropped), 352u);
  EXPECT_EQ(offsetof(ProcessSlot, ranges_open), 104u);
  EXPECT_EQ(offsetof(ProcessSlot, torch_recording), 108u);
  EXPECT_EQ(offsetof(ProcessSlot, gpu_held_since), 112u);
  EXPECT_EQ(kTriggersOffset, 1024u);
  EXPECT_EQ(sizeof(Triggers), 2112u);
  EXPECT_EQ(offsetof(Triggers, reported), 16u);
  EXPECT_EQ(offsetof(Triggers, borders), 64u);
  EXPECT_EQ(sizeof(RangeBorder), 16u);
  EXPECT_EQ(offsetof(ThreadSlot, wait_since), 64u);
  EXPECT_EQ(offsetof(ThreadSlot, records), 128u);
  EXPECT_EQ(offsetof(ThreadSlot, made), 256u);
  EXPECT_EQ(offsetof(ThreadSlot, left), 640u);
  EXPECT_EQ(offsetof(ThreadSlot, not_large), 704u);
  EXPECT_EQ(offsetof(ThreadSlot, short_calls), 1536u);
  EXPECT_EQ(sizeof(Tag), 8u);
  EXPECT_EQ(sizeof(SpanRecord), 64u);
  EXPECT_EQ(offsetof(SpanRecord, start), 8u);
  EXPECT_EQ(offsetof(SpanRecord, error), 48u);
  EXPECT_EQ(offsetof(SpanRecord, python_stack), 52u);
  EXPECT_EQ(sizeof(PythonCodeRecord), 64u);
  EXPECT_EQ(sizeof(PythonStackRecord), 32u);
  EXPECT_EQ(sizeof(CompactSpanRecord), 32u);
  EXPECT_EQ(offsetof(CompactSpanRecord, call_site), 24u);
  EXPECT_EQ(sizeof(AllocationRecord), 32u);
  EXPECT_EQ(sizeof(AllocationSampleRecord), 160u);
  EXPECT_EQ(offsetof(AllocationSampleRecord, live_bytes), 136u);
  EXPECT_EQ(sizeof(SampledFreeRecord), 32u);
  EXPECT_EQ(offsetof(SampledFreeRecord, live_bytes), 24u);
  EXPECT_EQ(sizeof(AnnotationRecord), 32u);
  EXPECT_EQ(offsetof(AnnotationRecord, level), 28u);
  EXPECT_EQ(sizeof(GpuGraphNodeRecord), 32u);
  EXPECT_EQ(offsetof(GpuGraphNodeRecord, original), 24u);
  EXPECT_EQ(sizeof(TensorMemoryRecord), 64u);
  EXPECT_EQ(offsetof(TensorMemoryRecord, device_type), 48u);
  EXPECT_EQ(sizeof(AnnotationPayload), 32u);
  EXPECT_EQ(sizeof(TorchSamplingFact), 16u);
  EXPECT_EQ(kSlotsPerChunk, 2048u);
}

TEST(Layout, Structs_ArePlain) {
  EXPECT_TRUE(std::is_trivially_copyable_v<SegmentHeader> && std::is_standard_layout_v<SegmentHeader>);
  EXPECT_TRUE(std::is_trivially_copyable_v<ThreadSlot> && std::is_standard_layout_v<ThreadSlot>);
  EXPECT_TRUE(std::is_trivially_copyable_v<ProcessSlot> && std::is_standard_layout_v<ProcessSlot>);
#define TBPROF_RECORD(number, Name, fixed_slots, variable, Class)                                             \
  EXPECT_TRUE(std::is_trivially_copyable_v<Name##Record>&& std::is_standard_layout_v<Name##Record>) << #Name; \
  EXPECT_EQ(sizeof(Name##Record) % kSlotBytes, 0u) << #Name;                                                  \
  EXPECT_EQ(offsetof(Name##Record, tag), 0u) << #Name;
#include "wire/records.def"
#undef TBPROF_RECORD
}

TEST(Layout, RecordNumbers_AreUniqueAndFitTheTag) {
  std::map<int, std::string> names;
#define TBPROF_RECORD(number, Name, fixed_slots, variable, Class) \
  EXPECT_TRUE(names.emplace(number, #Name).second) << #Name;      \
  EXPECT_GT(number, 0);                                           \
  EXPECT_LT(number, 256);
#include "wire/records.def"
#undef TBPROF_RECORD
  EXPECT_EQ(names[1], "Pad");
  EXPECT_EQ(names[2], "ChunkBegin");
  EXPECT_EQ(names[3], "Span");
}

TEST(Layout, TagWord_EqualsTheTag) {
  const uint64_t word = TagWord(0x1234, RecordKind::kModule, 0x56, 0x0789, 0xabcd);
  Tag tag;
  memcpy(&tag, &word, sizeof(tag));
  EXPECT_EQ(tag.generation, 0x1234);
  EXPECT_EQ(tag.kind, RecordKind::kModule);
  EXPECT_EQ(tag.flags, 0x56);
  EXPECT_EQ(tag.slots, 0x0789);
  EXPECT_EQ(tag.aux, 0xabcd);
}

TEST(Layout, ChunkWord_KeepsItsParts) {
  for (const ChunkState state : {ChunkState::kFree, ChunkState::kOwned, ChunkState::kFull}) {
    for (const uint32_t generation : {0u, 1u, 0x8000u, 0xffffu}) {
      for (const uint32_t thread : {0u, 1u, 4095u, 0xffffffffu}) {
        const uint64_t word = ChunkWord(state, static_cast<uint16_t>(generation), thread);
        EXPECT_EQ(StateOfChunk(word), state);
        EXPECT_EQ(GenerationOfChunk(word), generation);
        EXPECT_EQ(ThreadSlotOfChunk(word), thread);
      }
    }
  }
}

TEST(Layout, Parts_FollowEachOtherWithoutOverlap) {
  for (const uint32_t chunks : {kMinChunks, 65u, 511u, 512u, 513u, 4096u, kMaxChunks}) {
    const SegmentLayout layout = LayoutFor(chunks);
    EXPECT_GE(layout.operations, sizeof(SegmentHeader));
    EXPECT_GE(layout.chunk_states, layout.operations + kMaxOperations * sizeof(Operation));
    EXPECT_GE(layout.process_slots, layout.chunk_states + chunks * sizeof(uint64_t));
    EXPECT_GE(layout.thread_slots, layout.process_slots + kProcessSlots * sizeof(ProcessSlot));
    EXPECT_GE(layout.chunks, layout.thread_slots + kThreadSlots * sizeof(ThreadSlot));
    EXPECT_EQ(layout.bytes, layout.chunks + static_cast<uint64_t>(chunks) * kChunkBytes);
    EXPECT_EQ(layout.thread_slots % kPage, 0u);
    EXPECT_EQ(layout.chunks % kPage, 0u);
    EXPECT_EQ(layout.bytes % kPage, 0u);
  }
  EXPECT_EQ(LayoutFor(kMinChunks).thread_slots, 1064960u);
}

TEST(Layout, SlotsFor_RoundsUp) {
  EXPECT_EQ(SlotsFor(0), 0u);
  EXPECT_EQ(SlotsFor(1), 1u);
  EXPECT_EQ(SlotsFor(32), 1u);
  EXPECT_EQ(SlotsFor(33), 2u);
}

class SegmentCheck : public testing::Test {
 protected:
  SegmentCheck() : owner_(kMinChunks) {
    header_ = *owner_.get().header;
    bytes_ = LayoutFor(kMinChunks).bytes;
  }
  GuardedSegment owner_;
  SegmentHeader header_;
  uint64_t bytes_;
};

TEST_F(SegmentCheck, OwnHeader_IsAccepted) { EXPECT_EQ(CheckSegmentHeader(header_, bytes_), SegmentFault::kNone); }

TEST_F(SegmentCheck, AnotherSize_IsRejected) {
  EXPECT_EQ(CheckSegmentHeader(header_, 0), SegmentFault::kSize);
  EXPECT_EQ(CheckSegmentHeader(header_, sizeof(SegmentHeader) - 1), SegmentFault::kSize);
  EXPECT_EQ(CheckSegmentHeader(header_, bytes_ - kPage), SegmentFault::kSize);
  EXPECT_EQ(CheckSegmentHeader(header_, bytes_ - 1), SegmentFault::kSize);
  EXPECT_EQ(CheckSegmentHeader(header_, bytes_ + 1), SegmentFault::kSize);
  EXPECT_EQ(CheckSegmentHeader(header_, UINT64_MAX), SegmentFault::kSize);
}

TEST_F(SegmentCheck, EachWrongField_IsRejected) {
  const std::vector<std::pair<std::string, std::function<void(SegmentHeader*)>>> faults = {
      {"magic", [](SegmentHeader* h) { h->magic ^= 1; }},
      {"no magic", [](SegmentHeader* h) { h->magic = 0; }},
      {"abi", [](SegmentHeader* h) { ++h->abi; }},
      {"abi 0", [](SegmentHeader* h) { h->abi = 0; }},
      {"header_bytes", [](SegmentHeader* h) { ++h->header_bytes; }},
      {"slot_bytes", [](SegmentHeader* h) { h->slot_bytes = 64; }},
      {"chunk_bytes", [](SegmentHeader* h) { h->chunk_bytes *= 2; }},
      {"operation_bytes", [](SegmentHeader* h) { --h->operation_bytes; }},
      {"process_slot_bytes", [](SegmentHeader* h) { h->process_slot_bytes = 0; }},
      {"thread_slot_bytes", [](SegmentHeader* h) { h->thread_slot_bytes = 0xffffffff; }},
      {"operation_count", [](SegmentHeader* h) { h->operation_count = kMaxOperations + 1; }},
      {"operation_count huge", [](SegmentHeader* h) { h->operation_count = 0xffffffff; }},
      {"process_slot_count", [](SegmentHeader* h) { ++h->process_slot_count; }},
      {"thread_slot_count", [](SegmentHeader* h) { --h->thread_slot_count; }},
      {"chunk_count 0", [](SegmentHeader* h) { h->chunk_count = 0; }},
      {"chunk_count less", [](SegmentHeader* h) { h->chunk_count = kMinChunks - 1; }},
      {"chunk_count more", [](SegmentHeader* h) { ++h->chunk_count; }},
      {"chunk_count huge", [](SegmentHeader* h) { h->chunk_count = 0xffffffff; }},
      {"chunk_count above", [](SegmentHeader* h) { h->chunk_count = kMaxChunks + 1; }},
      {"segment_bytes", [](SegmentHeader* h) { --h->segment_bytes; }},
      {"operations_offset", [](SegmentHeader* h) { h->operations_offset += 8; }},
      {"process_slots_offset", [](SegmentHeader* h) { h->process_slots_offset = ~0ull; }},
      {"thread_slots_offset", [](SegmentHeader* h) { h->thread_slots_offset = 0; }},
      {"chunk_states_offset", [](SegmentHeader* h) { h->chunk_states_offset -= 8; }},
      {"chunks_offset", [](SegmentHeader* h) { h->chunks_offset += kPage; }},
  };
  for (const auto& [name, spoil] : faults) {
    SegmentHeader header = header_;
    spoil(&header);
    EXPECT_NE(CheckSegmentHeader(header, bytes_), SegmentFault::kNone) << name;
  }
}

// In every header that passes the check, all parts are inside the mapping.
TEST_F(SegmentCheck, RandomHeadersAccepted_AreOwnOnes) {
  uint64_t state = 1;
  for (int round = 0; round < 200000; ++round) {
    SegmentHeader header = header_;
    auto* bytes = reinterpret_cast<uint8_t*>(&header);
    for (int i = 0; i < 3; ++i) {
      state = state * 6364136223846793005 + 1442695040888963407;
      bytes[(state >> 33) % 256] ^= static_cast<uint8_t>(1u << (state >> 60 & 7));
    }
    if (CheckSegmentHeader(header, bytes_) != SegmentFault::kNone) continue;
    EXPECT_EQ(header.chunk_count, kMinChunks);
    EXPECT_LE(header.operation_count, kMaxOperations);
    EXPECT_EQ(header.chunks_offset, header_.chunks_offset);
  }
}

TEST_F(SegmentCheck, PartsOfAMapping_AreAtTheHeadersOffsets) {
  const Segment& segment = owner_.get();
  const auto offset = [&](const void* part) {
    return static_cast<uint64_t>(static_cast<const uint8_t*>(part) - owner_.bytes());
  };
  EXPECT_EQ(offset(segment.operations), header_.operations_offset);
  EXPECT_EQ(offset(segment.process_slots), header_.process_slots_offset);
  EXPECT_EQ(offset(segment.thread_slots), header_.thread_slots_offset);
  EXPECT_EQ(offset(segment.chunk_states), header_.chunk_states_offset);
  EXPECT_EQ(offset(segment.chunks), header_.chunks_offset);
  EXPECT_EQ(offset(segment.Chunk(kMinChunks - 1)) + kChunkBytes, header_.segment_bytes);
}

}  // namespace
}  // namespace tbprof
