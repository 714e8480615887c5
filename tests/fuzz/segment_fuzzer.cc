// SPDX-License-Identifier: Apache-2.0
//
// The launcher's reading of a segment, by the drain itself, and what the writer makes of the spool that it leaves. The
// input is a list of things that a target writes into its segment and of moments at which the launcher looks:
//
//   operation:8 index:16 offset:16 length:16 bytes...
//
// Whatever a target writes, the launcher's own spool has to be whole.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "launcher/session/drain.h"
#include "tests/fuzz/check_timeline.h"
#include "wire/chunk.h"
#include "wire/rendezvous.h"
#include "wire/segment.h"
#include "writer/convert/timeline_builder.h"
#include "writer/spool/spool.h"

namespace {

using namespace tbprof;

constexpr uint64_t kSegmentBytes = LayoutFor(kMinChunks).bytes;
constexpr uint32_t kNumber = 1;
constexpr int kMaxLooks = 4;

class Target {
 public:
  Target(const uint8_t* data, size_t size) : data_(data), size_(size) {
    base_ = static_cast<uint8_t*>(
        mmap(nullptr, kSegmentBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    Require(base_ != MAP_FAILED);
    segment_ = SegmentAt(base_, kMinChunks);
    InitialiseSegment(segment_, kSegmentBytes);
    segment_.header->clock_kind = static_cast<uint32_t>(ClockKind::kMonotonic);
  }

  uint8_t* base() const { return base_; }
  const Segment& segment() const { return segment_; }

  // Does the next thing of the input. False: there is nothing more.
  bool Step(Drain* drain) {
    if (size_ < 7) return false;
    const uint8_t operation = data_[0] % 8;
    uint16_t words[3];
    memcpy(words, data_ + 1, sizeof(words));
    data_ += 7;
    size_ -= 7;
    const size_t length = std::min<size_t>(words[2], size_);
    switch (operation) {
      case 0:
        Write(base_, sizeof(SegmentHeader), words[1], length);
        break;
      case 1:
        Write(reinterpret_cast<uint8_t*>(&segment_.chunk_states[words[0] % kMinChunks]), 8, words[1] % 8, length);
        break;
      case 2:
        Write(reinterpret_cast<uint8_t*>(segment_.Chunk(words[0] % kMinChunks)), kChunkBytes, words[1], length);
        break;
      case 3:
        Write(reinterpret_cast<uint8_t*>(&segment_.thread_slots[words[0] % kThreadSlots]), sizeof(ThreadSlot), words[1],
              length);
        break;
      case 4:
        Write(reinterpret_cast<uint8_t*>(&segment_.process_slots[words[0] % kProcessSlots]), sizeof(ProcessSlot),
              words[1], length);
        break;
      case 5:
        Write(reinterpret_cast<uint8_t*>(&segment_.operations[words[0] % kMaxOperations]), sizeof(Operation), words[1],
              length);
        break;
      case 6:
        if (drain != nullptr) drain->ProcessSeen(kNumber, words[0], words[1]);
        break;
      default:
        if (drain == nullptr || ++looks_ > kMaxLooks) break;
        if (words[0] % 2 == 1) drain->ProcessEnded(kNumber, words[1], 1);
        Require(drain->Flush(60'000));
        break;
    }
    data_ += length;
    size_ -= length;
    return true;
  }

 private:
  void Write(uint8_t* to, size_t room, size_t offset, size_t length) {
    offset = std::min(offset, room);
    memcpy(to + offset, data_, std::min(length, room - offset));
  }

  const uint8_t* data_;
  size_t size_;
  uint8_t* base_;
  Segment segment_{};
  int looks_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  {
    const std::string text(reinterpret_cast<const char*>(data), size);
    SessionVariable session;
    if (ParseSessionVariable(text.c_str(), &session)) Require(strlen(session.socket_path) <= kMaxSocketPath);
  }
  if (size < 1) return 0;
  // How much of the input is there before the segment is handed over.
  const int before = data[0];
  Target target(data + 1, size - 1);
  for (int i = 0; i < before && target.Step(nullptr); ++i) {
  }

  static const int fd = memfd_create("spool", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(fd);
  const SpoolHeader spool_header = MakeSpoolHeader();
  Require(ftruncate(fd, 0) == 0 && pwrite(fd, &spool_header, sizeof(spool_header), 0) == sizeof(spool_header));

  auto mapped = std::make_unique<MappedSegment>();
  mapped->mapping = ScopedMapping(target.base(), kSegmentBytes);
  // As Session::ReceiveHello does.
  SegmentHeader header;
  memcpy(&header, target.base(), sizeof(header));
  if (CheckSegmentHeader(header, kSegmentBytes) != SegmentFault::kNone) return 0;
  Require(header.chunk_count == kMinChunks);
  mapped->number = kNumber;
  mapped->pid = 1;
  mapped->segment = target.segment();
  mapped->operation_count = header.operation_count;

  {
    Drain drain(ScopedFd(dup(fd)), ClockKind::kMonotonic, 0);
    const std::string session = R"({"host":"h","run":"r","families":63,"clock":2,"ticks_per_ns":1,"command":["a"]})";
    drain.Append(FrameType::kSession, 0, session.data(), session.size());
    const ClockFact clock{1, 1, 1};
    drain.Append(FrameType::kClock, 0, &clock, sizeof(clock));
    drain.Start();
    SegmentFact fact{};
    fact.pid = 1;
    drain.Add(std::move(mapped), fact);
    drain.ProcessSeen(kNumber, 1, 1);
    while (target.Step(&drain)) {
    }
    Require(drain.Flush(60'000));
    drain.ProcessEnded(kNumber, 1, 1);
    drain.Stop();
    Require(drain.spool().write_error() == 0 && drain.spool().records_not_kept() == 0);
  }

  auto reader = SpoolReader::Open(path);
  Require(reader.ok());
  Frame frame;
  while ((*reader)->Next(&frame)) {
  }
  Require((*reader)->damaged_bytes() == 0 && !(*reader)->truncated());

  TimelineRequest request;
  request.spool = path;
  CheckTimeline(BuildTimeline(request, [](uint64_t, uint64_t) {}));
  return 0;
}
