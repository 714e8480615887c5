// SPDX-License-Identifier: Apache-2.0
//
// The launcher's reading of a segment: header, chunk states and slots out of the input, the reader's own state too.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "wire/chunk.h"
#include "wire/rendezvous.h"
#include "wire/segment.h"

namespace {

constexpr uint32_t kChunks = 2;

void Require(bool condition) {
  if (!condition) abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tbprof;
  {
    const std::vector<char> text = [&] {
      std::vector<char> copy(data, data + size);
      copy.push_back('\0');
      return copy;
    }();
    SessionVariable session;
    if (ParseSessionVariable(text.data(), &session)) Require(strlen(session.socket_path) <= kMaxSocketPath);
  }
  if (size >= sizeof(SegmentHeader)) {
    SegmentHeader header;
    memcpy(&header, data, sizeof(header));
    header.magic = kSegmentMagic;
    header.abi = kAbiVersion;
    const uint64_t bytes = LayoutFor(kMinChunks).bytes;
    if (CheckSegmentHeader(header, bytes) == SegmentFault::kNone) Require(header.chunk_count == kMinChunks);
  }
  // Exactly as large as the chunks are, so that one byte beyond is seen.
  static SegmentHeader header;
  memset(&header, 0, sizeof(header));
  std::vector<uint64_t> states(kChunks);
  std::vector<uint64_t> slots(kChunks * kChunkBytes / 8);
  Segment segment{};
  segment.header = &header;
  segment.chunk_states = states.data();
  segment.chunks = reinterpret_cast<uint8_t*>(slots.data());
  segment.chunk_count = kChunks;
  const auto take = [&](void* to, size_t bytes) {
    const size_t got = bytes < size ? bytes : size;
    memcpy(to, data, got);
    data += got;
    size -= got;
  };
  ChunkReader readers[kChunks] = {};
  uint8_t gone = 0;
  take(states.data(), states.size() * 8);
  take(&gone, 1);
  for (ChunkReader& reader : readers) {
    take(&reader.generation, sizeof(reader.generation));
    uint16_t next = 0;
    take(&next, sizeof(next));
    reader.next = next % (kSlotsPerChunk + 1);
  }
  // The tags of the slots, not their insides.
  for (uint32_t slot = 0; slot < kChunks * kSlotsPerChunk && size > 0; ++slot) take(&slots[slot * 4], 6);
  std::vector<uint64_t> copy;
  for (uint32_t i = 0; i < kChunks; ++i) {
    ChunkReadResult read;
    uint32_t rounds = 0;
    while (ReadChunk(segment, i, (gone & 1) != 0, &readers[i], &read)) {
      Require(read.first <= kSlotsPerChunk && read.count <= kSlotsPerChunk - read.first && read.records <= read.count);
      copy.assign(segment.Chunk(i) + read.first * 4, segment.Chunk(i) + (read.first + read.count) * 4);
      if (FinishChunk(segment, i, read) || read.count == 0) break;
      Require(++rounds <= kSlotsPerChunk);
    }
  }
  return 0;
}
