// SPDX-License-Identifier: Apache-2.0
#include "cupti/decode.h"

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/wire/segment_maker.h"

namespace tbprof::cupti {
namespace {

using ::testing::ElementsAre;

Result CallbackName(uint32_t domain, uint32_t callback, const char** name) {
  if (domain == kDomainRuntime && callback == 211) {
    *name = "cudaLaunchKernel_v7000";
  } else if (domain == kDomainDriver && callback == 307) {
    *name = "cuLaunchKernel";
  } else {
    return 1;
  }
  return kSuccess;
}

class Decoded {
 public:
  explicit Decoded(uint32_t version = 130001, uint32_t chunks = 64) : guarded_(chunks), numbered_(guarded_.get(), 0) {
    decoder_ = std::make_unique<Decoder>();
    decoder_->Start(guarded_.get(), &numbered_.writer, version, CallbackName);
    decoder_->BeginBuffer();
  }
  Decoder& operator*() { return *decoder_; }
  Decoder* operator->() { return decoder_.get(); }
  template <typename T>
  bool Take(const T& activity) {
    return decoder_->Take(reinterpret_cast<const Activity*>(&activity));
  }
  const NumberedWriter& writer() const { return numbered_; }

  struct Found {
    RecordKind kind;
    uint16_t aux;
    uint8_t flags;
    std::vector<uint64_t> words;
    template <typename T>
    const T& As() const {
      return *reinterpret_cast<const T*>(words.data());
    }
    std::string Text(size_t fixed, uint64_t length) const {
      return std::string(reinterpret_cast<const char*>(words.data()) + fixed, length);
    }
  };
  std::vector<Found> Records() const {
    std::vector<Found> all;
    const Segment& segment = guarded_.get();
    for (uint32_t chunk = 0; chunk < segment.header->chunk_high; ++chunk) {
      const uint64_t* slots = segment.Chunk(chunk);
      const uint16_t generation = GenerationOfChunk(segment.chunk_states[chunk]);
      for (uint32_t at = 0; at < kSlotsPerChunk;) {
        Tag tag;
        memcpy(&tag, slots + at * 4, sizeof(tag));
        if (tag.generation != generation || tag.slots == 0) break;
        if (tag.kind != RecordKind::kChunkBegin && tag.kind != RecordKind::kPad) {
          all.push_back({tag.kind, tag.aux, tag.flags, {slots + at * 4, slots + (at + tag.slots) * 4}});
        }
        at += tag.slots;
      }
    }
    return all;
  }

 private:
  GuardedSegment guarded_;
  NumberedWriter numbered_;
  std::unique_ptr<Decoder> decoder_;
};

Kernel MakeKernel(const char* name) {
  Kernel kernel{};
  kernel.kind = kActivityConcurrentKernel;
  kernel.start = 1000;
  kernel.end = 1500;
  kernel.device = 3;
  kernel.context = 1;
  kernel.stream = 7;
  kernel.grid_x = 1 << 30;
  kernel.grid_y = 65535;
  kernel.grid_z = 2;
  kernel.block_x = 1024;
  kernel.block_y = kernel.block_z = 1;
  kernel.registers_per_thread = 255;
  kernel.static_shared_memory = 48 * 1024;
  kernel.dynamic_shared_memory = 100 * 1024;
  kernel.correlation = 0xfffffffe;
  kernel.name = name;
  kernel.graph_node = 0x1122334455667788;
  kernel.graph = 9;
  kernel.cluster_x = 2;
  return kernel;
}

TEST(Decoder, Take_KernelsOfOneName_NameIsRecordedOnce) {
  Decoded decoded;
  EXPECT_TRUE(decoded.Take(MakeKernel("_Z3addPf")));
  EXPECT_TRUE(decoded.Take(MakeKernel("_Z3addPf")));
  const auto records = decoded.Records();
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0].kind, RecordKind::kGpuName);
  EXPECT_EQ(records[0].aux, static_cast<uint16_t>(GpuNameKind::kKernel));
  const auto& name = records[0].As<GpuNameRecord>();
  EXPECT_EQ(records[0].Text(sizeof(name), name.text_length), "_Z3addPf");
  for (int i = 1; i < 3; ++i) {
    ASSERT_EQ(records[i].kind, RecordKind::kGpuKernel);
    EXPECT_EQ(records[i].aux, 3);
    const auto& kernel = records[i].As<GpuKernelRecord>();
    EXPECT_EQ(kernel.name, name.id);
    EXPECT_EQ(kernel.start, 1000u);
    EXPECT_EQ(kernel.end, 1500u);
    EXPECT_EQ(kernel.stream, 7u);
    EXPECT_EQ(kernel.correlation, 0xfffffffe);
    EXPECT_EQ(kernel.grid_x, 1u << 30);
    EXPECT_EQ(kernel.grid_y, 65535);
    EXPECT_EQ(kernel.block_x, 1024);
    EXPECT_EQ(kernel.registers, 255);
    EXPECT_EQ(kernel.dynamic_shared_bytes, 100u * 1024);
    EXPECT_EQ(kernel.graph_node, 0x1122334455667788u);
    EXPECT_EQ(kernel.graph, 9u);
    EXPECT_EQ(kernel.cluster_x, 2);
  }
}

// Only consecutive kernels are counted; a kernel that has not ended has a start and no end.
TEST(Decoder, Take_KernelsWithImpossibleTimes_AreUntimedAndCounted) {
  constexpr uint64_t kNow = 1'700'000'000'000'000'000, kFar = uint64_t{1} << 63;
  Decoded decoded;
  decoded->time_range()->Add(1000, kNow);
  const auto take = [&](uint64_t start, uint64_t end) {
    Kernel kernel = MakeKernel("add");
    kernel.start = start;
    kernel.end = end;
    decoded.Take(kernel);
    return decoded->kernels_without_times();
  };
  EXPECT_EQ(take(kNow, kNow + 500), 0u);
  EXPECT_EQ(take(kFar, kFar), 1u);
  EXPECT_EQ(take(1000, 1500), 2u);
  EXPECT_EQ(take(0, 0), 3u);
  EXPECT_EQ(take(kNow + 500, kNow), 4u);
  EXPECT_EQ(take(kNow, 0), 0u);
  int untimed = 0;
  for (const auto& record : decoded.Records()) {
    if (record.kind != RecordKind::kGpuKernel) continue;
    const auto& kernel = record.As<GpuKernelRecord>();
    EXPECT_LT(kernel.end, kFar);
    untimed += kernel.start == 0 && kernel.end == 0;
  }
  EXPECT_EQ(untimed, 3);
}

TEST(Decoder, Take_OlderGeneration_MissingFieldsAreZero) {
  Decoded decoded(13);  // CUDA 11.0: the fields behind the prefix are the next record's
  decoded.Take(MakeKernel("k"));
  const auto kernel = decoded.Records().at(1).As<GpuKernelRecord>();
  EXPECT_EQ(kernel.graph, 0u);
  EXPECT_EQ(kernel.graph_node, 0u);
  EXPECT_EQ(kernel.cluster_x, 0);
}

TEST(Decoder, Take_AddressWithAnotherNameInTheNextBuffer_IsNamedAgain) {
  Decoded decoded;
  char name[32] = "first";
  decoded.Take(MakeKernel(name));
  strcpy(name, "second");
  decoded->BeginBuffer();
  decoded.Take(MakeKernel(name));
  std::vector<std::string> names;
  std::vector<uint32_t> used;
  for (const auto& record : decoded.Records()) {
    if (record.kind == RecordKind::kGpuName) {
      names.push_back(record.Text(sizeof(GpuNameRecord), record.As<GpuNameRecord>().text_length));
    } else {
      used.push_back(record.As<GpuKernelRecord>().name);
    }
  }
  EXPECT_THAT(names, ElementsAre("first", "second"));
  ASSERT_EQ(used.size(), 2u);
  EXPECT_NE(used[0], used[1]);
}

TEST(Decoder, Take_NameFoundNoRoom_IsRecordedLater) {
  Decoded decoded(130001, kMinChunks);
  // Fills all chunks: nothing drains them.
  NumberedWriter other(decoded.writer().segment, 5);
  for (uint64_t i = 0; other.Write(i);) ++i;
  decoded.Take(MakeKernel("late"));
  EXPECT_TRUE(decoded.Records().empty() || decoded.Records().back().kind == RecordKind::kSpan);
  const Segment& segment = decoded.writer().segment;
  for (uint32_t i = 0; i < segment.chunk_count; ++i) {
    segment.chunk_states[i] = ChunkWord(ChunkState::kFree, GenerationOfChunk(segment.chunk_states[i]), 0);
  }
  bool told = false;
  for (int i = 0; i < 2 * kStarvedSkip && !told; ++i) {
    decoded.Take(MakeKernel("late"));
    for (const auto& record : decoded.Records()) told |= record.kind == RecordKind::kGpuName;
  }
  EXPECT_TRUE(told);
}

TEST(Decoder, Take_MoreNamesThanTheTable_AreRecordedAgain) {
  Decoded decoded(130001, 1024);
  for (uint32_t i = 0; i < NameTable::kMost + 100; ++i) {
    const std::string name = "kernel_" + std::to_string(i);
    decoded->BeginBuffer();
    decoded.Take(MakeKernel(name.c_str()));
  }
  const auto records = decoded.Records();
  const uint32_t last = records.back().As<GpuKernelRecord>().name;
  std::string text;
  for (const auto& record : records) {
    if (record.kind == RecordKind::kGpuName && record.As<GpuNameRecord>().id == last) {
      text = record.Text(sizeof(GpuNameRecord), record.As<GpuNameRecord>().text_length);
    }
  }
  EXPECT_EQ(text, "(too many names)");
}

TEST(Decoder, Take_Calls_HaveTheirNames) {
  Decoded decoded;
  decoded->KeepDriverCall(307);
  Api call{kActivityRuntime, 211, 100, 350, 1, 4321, 77, 0};
  decoded.Take(call);
  call.result = 700;
  decoded.Take(call);
  call.kind = kActivityDriver;
  call.callback = 307;
  decoded.Take(call);
  call.callback = 308;  // not kept
  decoded.Take(call);
  const auto records = decoded.Records();
  ASSERT_EQ(records.size(), 5u);
  EXPECT_EQ(records[0].Text(sizeof(GpuNameRecord), 22), "cudaLaunchKernel_v7000");
  EXPECT_EQ(records[1].aux, 211);
  EXPECT_EQ(records[1].flags, 0);
  EXPECT_EQ(records[1].As<GpuApiRecord>().duration_and_result, 250u << 16);
  EXPECT_EQ(records[1].As<GpuApiRecord>().tid, 4321);
  EXPECT_EQ(records[2].flags, kRecordFailed);
  EXPECT_EQ(records[2].As<GpuApiRecord>().duration_and_result & 0xffff, 700u);
  EXPECT_EQ(records[3].kind, RecordKind::kGpuName);
  EXPECT_EQ(records[4].flags, kRecordDriver | kRecordFailed);
}

TEST(Decoder, Take_CopiesAndSets_AreRecorded) {
  Decoded decoded;
  Memcpy copy{};
  copy.kind = kActivityMemcpy;
  copy.copy_kind = 1;
  copy.source_kind = 2;
  copy.destination_kind = 3;
  copy.flags = 1;
  copy.bytes = uint64_t{5} << 32;
  copy.device = 1;
  copy.correlation = 12;
  decoded.Take(copy);
  MemcpyPeer peer{};
  peer.kind = kActivityMemcpy2;
  peer.bytes = 8;
  peer.source_device = 2;
  peer.destination_device = 5;
  decoded.Take(peer);
  Memset set{};
  set.kind = kActivityMemset;
  set.value = 0xab;
  set.bytes = 64;
  decoded.Take(set);
  const auto records = decoded.Records();
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0].As<GpuCopyRecord>().copy_kind, GpuCopyKind::kHostToDevice);
  EXPECT_EQ(records[0].As<GpuCopyRecord>().bytes, uint64_t{5} << 32);
  EXPECT_EQ(records[0].As<GpuCopyRecord>().asynchronous, 1);
  EXPECT_EQ(records[1].As<GpuCopyRecord>().copy_kind, GpuCopyKind::kPeerToPeer);
  EXPECT_EQ(records[1].As<GpuCopyRecord>().value, 2u | 5u << 16);
  EXPECT_EQ(records[2].As<GpuCopyRecord>().copy_kind, GpuCopyKind::kSet);
  EXPECT_EQ(records[2].As<GpuCopyRecord>().value, 0xabu);
}

TEST(Decoder, Take_UnifiedMemory_HasTheDeviceItIsAbout) {
  struct Case {
    GpuUnifiedKind kind;
    uint32_t source, destination, flags;
    uint16_t device;
    bool has_end;
  };
  const uint32_t host = UINT32_MAX;
  const Case cases[] = {{GpuUnifiedKind::kToDevice, host, 2, 2, 2, true},
                        {GpuUnifiedKind::kToHost, 3, host, 4, 3, true},
                        {GpuUnifiedKind::kHostFault, 0, 0, 1, kNoDevice, false},
                        {GpuUnifiedKind::kDeviceFault, 1, 0, 2, 1, true},
                        {GpuUnifiedKind::kThrashing, 0b1010, 0, 0, 1, false},
                        {GpuUnifiedKind::kThrashing, 0b1010, 0, kUnifiedOnHost, kNoDevice, false},
                        {GpuUnifiedKind::kThrashing, 0, 0, 0, kNoDevice, false},
                        {GpuUnifiedKind::kThrottling, 2, 0, 0, 2, true},
                        {GpuUnifiedKind::kThrottling, 2, 0, kUnifiedOnHost, kNoDevice, true},
                        {GpuUnifiedKind::kRemoteMap, 0, 1, 2, 1, false},
                        {GpuUnifiedKind::kBetweenDevices, 0, 1, 5, 1, true}};
  Decoded decoded;
  for (const Case& one : cases) {
    UnifiedMemory unified{};
    unified.kind = kActivityUnifiedMemory;
    unified.counter = static_cast<uint32_t>(one.kind);
    unified.value = 65536;
    unified.start = 1000;
    unified.end = 1500;
    unified.address = 0x7f0000000000;
    unified.source = one.source;
    unified.destination = one.destination;
    unified.flags = one.flags;
    EXPECT_TRUE(decoded.Take(unified));
  }
  UnifiedMemory later{};
  later.kind = kActivityUnifiedMemory;
  later.counter = 9;
  decoded.Take(later);
  EXPECT_EQ(decoded->unknown(), 1u);
  const auto records = decoded.Records();
  ASSERT_EQ(records.size(), std::size(cases));
  for (size_t i = 0; i < records.size(); ++i) {
    ASSERT_EQ(records[i].kind, RecordKind::kGpuUnifiedMemory) << i;
    EXPECT_EQ(records[i].aux, cases[i].device) << i;
    const auto& unified = records[i].As<GpuUnifiedMemoryRecord>();
    EXPECT_EQ(unified.unified_kind, cases[i].kind) << i;
    EXPECT_EQ(unified.start, 1000u) << i;
    EXPECT_EQ(unified.end, cases[i].has_end ? 1500u : 0u) << i;
    EXPECT_EQ(unified.value, 65536u) << i;
    EXPECT_EQ(unified.cause, cases[i].flags) << i;
    EXPECT_EQ(unified.address, 0x7f0000000000u) << i;
  }
}

TEST(Decoder, Take_UnknownKinds_AreCounted) {
  Decoded decoded;
  EXPECT_FALSE(decoded.Take(Activity{54}));
  EXPECT_FALSE(decoded.Take(Activity{UINT32_MAX}));
  EXPECT_EQ(decoded->unknown(), 2u);
  EXPECT_TRUE(decoded.Records().empty());
}

TEST(Decoder, Take_LongOrMissingNames_AreRecorded) {
  Decoded decoded;
  const std::string longest(100000, 'x');
  decoded.Take(MakeKernel(longest.c_str()));
  decoded.Take(MakeKernel(nullptr));
  decoded.Take(MakeKernel(""));
  const auto records = decoded.Records();
  ASSERT_EQ(records.size(), 6u);
  EXPECT_EQ(records[0].As<GpuNameRecord>().text_length, 100000u);
  EXPECT_EQ(records[0].words.size() * 8, sizeof(GpuNameRecord) + 4096);
  EXPECT_EQ(records[2].Text(sizeof(GpuNameRecord), 9), "(no name)");
  EXPECT_EQ(records[4].As<GpuNameRecord>().text_length, 0u);
}

// Iterates over kernels; CUPTI gives an incomplete record the kind 0.
Result NextKernel(uint8_t* buffer, size_t valid, Activity** record) {
  uint8_t* const next = *record == nullptr ? buffer : reinterpret_cast<uint8_t*>(*record) + sizeof(Kernel);
  if (next >= buffer + valid) return kErrorMaxLimitReached;
  if (reinterpret_cast<const Activity*>(next)->kind != kActivityConcurrentKernel) return 21;
  *record = reinterpret_cast<Activity*>(next);
  return kSuccess;
}

TEST(Decoder, TakeBuffer_WholeBuffer_NothingUnread) {
  Decoded decoded;
  std::vector<Kernel> kernels(3, MakeKernel("gemm"));
  const Decoder::Unread unread =
      decoded->TakeBuffer(NextKernel, reinterpret_cast<uint8_t*>(kernels.data()), 3 * sizeof(Kernel));
  EXPECT_EQ(unread.bytes, 0u);
  EXPECT_EQ(decoded->TakeBuffer(NextKernel, nullptr, 0).bytes, 0u);
}

TEST(Decoder, TakeBuffer_RecordThatCuptiCannotPass_CountsTheRest) {
  Decoded decoded;
  std::vector<Kernel> kernels(4, MakeKernel("gemm"));
  kernels[2].kind = 0;
  auto* const buffer = reinterpret_cast<uint8_t*>(kernels.data());
  const Decoder::Unread unread = decoded->TakeBuffer(NextKernel, buffer, 4 * sizeof(Kernel));
  EXPECT_EQ(unread.result, 21);
  EXPECT_EQ(unread.bytes, 3 * sizeof(Kernel)) << "from the last that was read: how long it is, only CUPTI knows";
  kernels[0].kind = 0;
  EXPECT_EQ(decoded->TakeBuffer(NextKernel, buffer, 4 * sizeof(Kernel)).bytes, 4 * sizeof(Kernel));
}

}  // namespace
}  // namespace tbprof::cupti
