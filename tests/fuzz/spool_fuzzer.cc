// SPDX-License-Identifier: Apache-2.0
//
// A spool to a timeline to every output. The input is a list of frames without checksums, which are made here, so that
// the fuzzer gets past them, as are summaries of chunks; an input that begins with the spool's magic is taken as the
// file itself.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "tests/fuzz/check_timeline.h"
#include "writer/convert/timeline_builder.h"
#include "writer/spool/chunk_summary.h"
#include "writer/spool/spool.h"
#include "writer/spool/spool_facts.h"

static constexpr uint32_t kFrameTypes = static_cast<uint32_t>(tbprof::FrameType::kNativeStatus) + 1;

namespace {

// Behind some chunks, by their numbers, what the launcher would store; behind others what the input has.
// Returns the frame's flags.
uint16_t AddSummary(std::string* payload) {
  using namespace tbprof;
  Frame frame{};
  frame.payload = *payload;
  ChunkFact chunk{};
  if (!frame.Read(&chunk) || chunk.chunk % 3 == 0) return 0;
  ChunkSummarizer summarizer(chunk, chunk.taken_ticks);
  uint64_t corrupt = 0;
  ForEachRecord(frame, &chunk, &corrupt, [&](const RecordView& record) { summarizer.Take(record); });
  ChunkSummary summary = summarizer.summary();
  if (chunk.chunk % 3 == 1) {
    if (corrupt != 0 || !summarizer.whole()) return 0;
  } else {
    memcpy(&summary, payload->data() + payload->size() - std::min(payload->size(), sizeof(summary)),
           std::min(payload->size(), sizeof(summary)));
  }
  summary.crc = SummaryCrc(summary);
  payload->append(reinterpret_cast<const char*>(&summary), sizeof(summary));
  return kFrameSummary;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tbprof;
  static const int fd = memfd_create("spool", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(fd);
  std::string file;
  TimelineRequest request;
  if (size > 8 && memcmp(data, kSpoolMagic, 8) == 0) {
    file.assign(reinterpret_cast<const char*>(data), size);
  } else {
    const SpoolHeader header = MakeSpoolHeader();
    file.assign(reinterpret_cast<const char*>(&header), sizeof(header));
    FrameBuffer frames(0);
    // The input's own is read later, and counts.
    const std::string session = R"({"host":"h","run":"r","families":127,"command":["a"]})";
    frames.Append(FrameType::kSession, 0, session.data(), session.size());
    frames.AppendFact(FrameType::kClock, 0, ClockFact{1, 1, 1});
    if (size > 0) {
      request.window = data[0] % 3;
      request.max_profile_size = data[0] >= 128 ? 1 : 64u << 20;
      request.rank = data[0] % 8 == 7 ? 1 : kAnyRank;
      request.recovered = data[0] % 4 == 1;
      ++data;
      --size;
    }
    // type:8 segment:8 length:16 payload; chunk frames get the right number of slots.
    while (size >= 4) {
      const auto type = static_cast<FrameType>(data[0] % kFrameTypes);
      const uint32_t segment = data[1] % 4;
      size_t length = data[2] | data[3] << 8;
      data += 4;
      size -= 4;
      length = std::min(length, size);
      std::string payload(reinterpret_cast<const char*>(data), length);
      data += length;
      size -= length;
      const bool has_slots = type == FrameType::kChunk || type == FrameType::kKept;
      if (has_slots && payload.size() >= sizeof(ChunkFact)) {
        ChunkFact fact;
        memcpy(&fact, payload.data(), sizeof(fact));
        fact.slots = static_cast<uint32_t>((payload.size() - sizeof(fact)) / kSlotBytes);
        memcpy(payload.data(), &fact, sizeof(fact));
      }
      // Paths of modules would have us read this machine's files.
      std::replace(payload.begin(), payload.end(), '/', '|');
      const uint16_t flags = type == FrameType::kChunk ? AddSummary(&payload) : uint16_t{0};
      const auto payload_bytes = static_cast<uint32_t>(payload.size());
      memcpy(frames.Begin(type, segment, payload_bytes, flags), payload.data(), payload_bytes);
      frames.Seal();
    }
    file.append(reinterpret_cast<const char*>(frames.bytes().data()), frames.size());
  }
  if (ftruncate(fd, 0) != 0 || pwrite(fd, file.data(), file.size(), 0) != static_cast<ssize_t>(file.size())) return 0;
  request.spool = path;
  ReadSpoolSummary(path).status().IgnoreError();
  CheckTimeline(BuildTimeline(request, [](uint64_t, uint64_t) {}));
  return 0;
}
