// SPDX-License-Identifier: Apache-2.0
//
// The spool: files of frames (frames.h) with everything that a session drained, sufficient to make every output again.
//
// The main file has all facts, and the first records. Further records are in parts beside it (`X.spool.000001`), which
// the launcher may drop, oldest first; the main file lists the dropped parts (decision 013).
//
// A reader takes the longest valid prefix; behind damage it searches for the next frame's magic on the 8-byte grid, and
// counts the bytes that it skips.
//
// Process: FrameBuffer in the launcher (one thread at a time), SpoolReader in the converter. Hostile input throughout.
#ifndef TBPROF_WRITER_SPOOL_SPOOL_H_
#define TBPROF_WRITER_SPOOL_SPOOL_H_

#include <fcntl.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "wire/layout.h"
#include "wire/records.h"
#include "writer/base/proto_encoder.h"
#include "writer/spool/frames.h"
#include "writer/spool/usage_rows.h"

namespace tbprof {
// Consecutive frames in memory, ready to be written.
class FrameBuffer {
 public:
  explicit FrameBuffer(size_t reserve) { bytes_.Reserve(reserve); }

  // Reserves an uninitialized payload of `size` bytes. Fill in all bytes, then call Seal. One frame at a time.
  uint8_t* Begin(FrameType type, uint32_t segment, uint32_t size, uint16_t flags = 0);
  void Seal(uint16_t more_flags = 0);
  // Removes the last `bytes` (a multiple of 8) from the payload that was begun.
  void Shorten(uint32_t bytes);
  // Begin, copy, Seal.
  void Append(FrameType type, uint32_t segment, const void* payload, size_t size);
  template <typename Fact>
  void AppendFact(FrameType type, uint32_t segment, const Fact& fact, uint16_t flags = 0) {
    __builtin_memcpy(Begin(type, segment, sizeof(fact), flags), &fact, sizeof(fact));
    Seal();
  }
  void AppendRaw(const uint8_t* frame, size_t size);
  // Removes chunk frames.
  void RemoveChunks();

  std::span<const uint8_t> bytes() const {
    return {reinterpret_cast<const uint8_t*>(bytes_.view().data()), bytes_.size()};
  }
  size_t size() const { return bytes_.size(); }
  void Clear() { bytes_.Commit(bytes_.at(0)); }

 private:
  ByteBuffer bytes_;
  size_t open_ = 0;  // offset of the frame begun
};

uint32_t SummaryCrc(const ChunkSummary& summary);

SpoolHeader MakeSpoolHeader(uint64_t session = 0, uint32_t part = 0);

// Calls consume(header, frame, size) for each frame of a buffer that this process made: its header, its first byte and
// its size with header and padding.
template <typename Consume>
void ForEachFrame(std::span<const uint8_t> bytes, Consume consume) {
  for (size_t at = 0; at + sizeof(FrameHeader) <= bytes.size();) {
    FrameHeader header;
    __builtin_memcpy(&header, &bytes[at], sizeof(header));
    const size_t size = sizeof(header) + (header.payload_bytes + 7u) / 8 * 8;
    consume(header, &bytes[at], size);
    at += size;
  }
}

// `number`: of a window. E.g. `capture 1`, `start`; empty for the run's own window.
std::string WindowName(uint32_t number);

// ---- the files of a spool

// `<spool>.000001`
std::string PartPath(const std::string& spool, uint32_t part);
// Numbers of the parts beside the main file, ascending.
std::vector<uint32_t> FindParts(const std::string& spool);
// Removes the parts, then the main file; if `spool` is a link, also the file that it refers to.
void RemoveSpoolFiles(const std::string& spool);

// The range of a spool to read.
struct SpoolExtent {
  uint64_t main_bytes = 0;  // bytes of the main file to read; 0: all
  uint32_t first_part = 0, last_part = UINT32_MAX;
};

// A frame's payload, valid until the next call of Next.
struct Frame {
  FrameType type;
  uint32_t segment;
  uint32_t part = 0;  // the file it is in; 0: the main file
  std::string_view payload;
  const ChunkSummary* summary = nullptr;  // of a chunk frame that was skipped, whose payload is empty

  // The payload's beginning as a struct; false if it is shorter.
  template <typename Fact>
  bool Read(Fact* fact) const {
    if (payload.size() < sizeof(Fact)) return false;
    __builtin_memcpy(fact, payload.data(), sizeof(Fact));
    return true;
  }
};

// Reads the main file, then the parts in order, except those that the main file lists as dropped.
class SpoolReader {
 public:
  static absl::StatusOr<std::unique_ptr<SpoolReader>> Open(const std::string& path, const SpoolExtent& extent = {});
  // Opens one part alone.
  static absl::StatusOr<std::unique_ptr<SpoolReader>> OpenPart(int directory, const std::string& spool, uint32_t part);
  ~SpoolReader();

  // False at the end. Unreadable parts are skipped and counted.
  bool Next(Frame* frame);

  // From now on, chunk frames whose summary is `enough` are skipped: their slots are not read, so damage in them is not
  // detected. Empty: everything is read.
  using SummaryIsEnough = std::function<bool(uint32_t segment, const ChunkSummary& summary)>;
  void PassOver(SummaryIsEnough enough) { enough_ = std::move(enough); }

  absl::Status Rewind();
  uint64_t position() const { return passed_ + position_; }  // over all files
  uint64_t size() const { return total_; }
  uint64_t damaged_bytes() const { return damaged_; }
  bool truncated() const { return truncated_; }  // the last frame of a file was truncated
  uint32_t missing_parts() const { return missing_; }

 private:
  struct File {
    uint32_t part;
    uint64_t size;
  };
  SpoolReader() = default;
  void ListParts(const SpoolExtent& extent);
  bool NextOfFile(Frame* frame);
  bool OpenFile(size_t index);
  bool Fill(size_t need);  // makes `need` bytes available at start_
  bool TakeSummary(const FrameHeader& header, Frame* frame);
  void Skip(size_t bytes);
  int directory_ = AT_FDCWD;
  std::string path_;
  std::vector<File> files_;
  size_t file_ = 0;
  int main_fd_ = -1;
  int fd_ = -1;  // of the file being read; main_fd_ or one of its own
  uint64_t session_ = 0;
  uint64_t total_ = 0, passed_ = 0;
  uint64_t size_ = 0;
  uint64_t position_ = 0;  // file offset of start_
  uint64_t damaged_ = 0;
  uint32_t missing_ = 0;   // in this pass
  uint32_t unlisted_ = 0;  // begun, not dropped, and missing
  bool truncated_ = false;
  std::vector<char> buffer_;
  size_t start_ = 0, end_ = 0;
  size_t read_bytes_;  // size of a read
  SummaryIsEnough enough_;
  ChunkSummary summary_;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_SPOOL_SPOOL_H_
