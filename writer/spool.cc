// SPDX-License-Identifier: Apache-2.0
#include "writer/spool.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "writer/crc32c.h"

namespace tbprof {
namespace {

constexpr size_t kGrid = 8;
constexpr size_t kReadBytes = 1u << 20;

size_t Padded(size_t size) { return (size + kGrid - 1) / kGrid * kGrid; }

uint32_t HeaderCrc(const FrameHeader& header) { return Crc32c(0, &header, offsetof(FrameHeader, header_crc)); }

}  // namespace

SpoolHeader MakeSpoolHeader() {
  SpoolHeader header{};
  memcpy(header.magic, kSpoolMagic, sizeof(header.magic));
  header.abi = kAbiVersion;
  header.header_bytes = sizeof(SpoolHeader);
  return header;
}

uint8_t* FrameBuffer::Begin(FrameType type, uint32_t segment, uint32_t size) {
  open_ = bytes_.size();
  bytes_.resize(open_ + sizeof(FrameHeader) + Padded(size));
  FrameHeader header{kFrameMagic, type, 0, segment, size, 0, 0};
  memcpy(&bytes_[open_], &header, sizeof(header));
  return &bytes_[open_ + sizeof(FrameHeader)];
}

void FrameBuffer::Seal() {
  FrameHeader header;
  memcpy(&header, &bytes_[open_], sizeof(header));
  header.payload_crc = Crc32c(0, &bytes_[open_] + sizeof(header), header.payload_bytes);
  header.header_crc = HeaderCrc(header);
  memcpy(&bytes_[open_], &header, sizeof(header));
}

void FrameBuffer::Append(FrameType type, uint32_t segment, const void* payload, size_t size) {
  memcpy(Begin(type, segment, static_cast<uint32_t>(size)), payload, size);
  Seal();
}

absl::StatusOr<std::unique_ptr<SpoolReader>> SpoolReader::Open(const std::string& path, uint64_t limit) {
  // A FIFO must not hold us up before we can see that it is one.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read the spool ", path));
  std::unique_ptr<SpoolReader> reader(new SpoolReader());
  reader->fd_ = fd;
  struct stat facts;
  if (fstat(fd, &facts) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read the spool ", path));
  if (!S_ISREG(facts.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, " is not a file"));
  reader->size_ = static_cast<uint64_t>(facts.st_size);
  if (limit != 0) reader->size_ = std::min(reader->size_, limit);
  SpoolHeader header;
  if (pread(fd, &header, sizeof(header), 0) != static_cast<ssize_t>(sizeof(header)) ||
      memcmp(header.magic, kSpoolMagic, sizeof(header.magic)) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a spool of tbprof"));
  }
  if (header.abi != kAbiVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " was written by a tbprof with ABI ", header.abi, "; this one reads ABI ", kAbiVersion));
  }
  absl::Status status = reader->Rewind();
  if (!status.ok()) return status;
  return reader;
}

SpoolReader::~SpoolReader() {
  if (fd_ >= 0) close(fd_);
}

absl::Status SpoolReader::Rewind() {
  position_ = sizeof(SpoolHeader);
  damaged_ = 0;
  truncated_ = false;
  start_ = end_ = 0;
  return absl::OkStatus();
}

bool SpoolReader::Fill(size_t need) {
  if (end_ - start_ >= need) return true;
  if (position_ + need > size_) return false;
  if (end_ > start_) memmove(buffer_.data(), buffer_.data() + start_, end_ - start_);
  end_ -= start_;
  start_ = 0;
  const size_t want = std::max<size_t>(need, std::min<uint64_t>(kReadBytes, size_ - position_));
  if (buffer_.size() < want) buffer_.resize(want);
  while (end_ < need) {
    const uint64_t at = position_ + end_;
    const size_t room = std::min<uint64_t>(buffer_.size() - end_, size_ - std::min(size_, at));
    if (room == 0) return false;
    const ssize_t got = pread(fd_, buffer_.data() + end_, room, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    end_ += static_cast<size_t>(got);
  }
  return true;
}

bool SpoolReader::Next(Frame* frame) {
  while (Fill(sizeof(FrameHeader))) {
    FrameHeader header;
    memcpy(&header, buffer_.data() + start_, sizeof(header));
    bool good = header.magic == kFrameMagic && header.payload_bytes <= kMaxFramePayload &&
                header.header_crc == HeaderCrc(header);
    if (good) {
      const size_t whole = sizeof(header) + Padded(header.payload_bytes);
      if (!Fill(whole)) {
        truncated_ = true;
        damaged_ += size_ - position_;
        position_ = size_;
        start_ = end_ = 0;
        return false;
      }
      const char* payload = buffer_.data() + start_ + sizeof(header);
      if (Crc32c(0, payload, header.payload_bytes) == header.payload_crc) {
        frame->type = header.type;
        frame->segment = header.segment;
        frame->payload = std::string_view(payload, header.payload_bytes);
        start_ += whole;
        position_ += whole;
        return true;
      }
    }
    start_ += kGrid;
    position_ += kGrid;
    damaged_ += kGrid;
  }
  if (position_ < size_) {
    truncated_ = true;
    damaged_ += size_ - position_;
    position_ = size_;
    start_ = end_ = 0;
  }
  return false;
}

}  // namespace tbprof
