// SPDX-License-Identifier: Apache-2.0
#include "writer/spool/spool.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>

#include "absl/strings/str_cat.h"
#include "writer/base/crc32c.h"
#include "writer/base/scoped.h"

namespace tbprof {
namespace {

constexpr size_t kGrid = 8;
constexpr size_t kReadBytes = 1u << 20;
// Size of a read after a skip: a summary and the next header.
constexpr size_t kReadAfterSkip = 512;

size_t Padded(size_t size) { return (size + kGrid - 1) / kGrid * kGrid; }

bool IsReadable(uint32_t version) { return version >= kOldestSpoolVersion && version <= kSpoolVersion; }

uint32_t HeaderCrc(const FrameHeader& header) { return Crc32c(0, &header, offsetof(FrameHeader, header_crc)); }

}  // namespace

uint32_t SummaryCrc(const ChunkSummary& summary) { return Crc32c(0, &summary, offsetof(ChunkSummary, crc)); }

SpoolHeader MakeSpoolHeader(uint64_t session, uint32_t part) {
  SpoolHeader header{};
  memcpy(header.magic, kSpoolMagic, sizeof(header.magic));
  header.version = kSpoolVersion;
  header.header_bytes = sizeof(SpoolHeader);
  header.part = part;
  header.session = session;
  return header;
}

std::string WindowName(uint32_t number) {
  switch (number) {
    case 0:
      return "";
    case kStartWindow:
      return "start";
    case kSteadyWindow:
      return "steady";
    case kEndWindow:
      return "end";
    default:
      return absl::StrCat("capture ", number);
  }
}

uint8_t* FrameBuffer::Begin(FrameType type, uint32_t segment, uint32_t size, uint16_t flags) {
  open_ = bytes_.size();
  uint8_t* const frame = bytes_.Reserve(sizeof(FrameHeader) + Padded(size));
  FrameHeader header{kFrameMagic, type, flags, segment, size, 0, 0};
  memcpy(frame, &header, sizeof(header));
  uint8_t* const payload = frame + sizeof(FrameHeader);
  memset(payload + size, 0, Padded(size) - size);
  bytes_.Commit(payload + Padded(size));
  return payload;
}

void FrameBuffer::Seal(uint16_t more_flags) {
  FrameHeader header;
  memcpy(&header, bytes_.at(open_), sizeof(header));
  header.flags |= more_flags;
  header.payload_crc = Crc32c(0, bytes_.at(open_) + sizeof(header), header.payload_bytes);
  header.header_crc = HeaderCrc(header);
  memcpy(bytes_.at(open_), &header, sizeof(header));
}

void FrameBuffer::Shorten(uint32_t bytes) {
  FrameHeader header;
  memcpy(&header, bytes_.at(open_), sizeof(header));
  header.payload_bytes -= bytes;
  memcpy(bytes_.at(open_), &header, sizeof(header));
  bytes_.Commit(bytes_.at(bytes_.size() - bytes));
}

void FrameBuffer::Append(FrameType type, uint32_t segment, const void* payload, size_t size) {
  memcpy(Begin(type, segment, static_cast<uint32_t>(size)), payload, size);
  Seal();
}

void FrameBuffer::AppendRaw(const uint8_t* frame, size_t size) {
  uint8_t* const to = bytes_.Reserve(size);
  memcpy(to, frame, size);
  bytes_.Commit(to + size);
}

void FrameBuffer::RemoveChunks() {
  uint8_t* to = bytes_.at(0);
  ForEachFrame(bytes(), [&](const FrameHeader& header, const uint8_t* frame, size_t size) {
    if (header.type == FrameType::kChunk) return;
    memmove(to, frame, size);
    to += size;
  });
  bytes_.Commit(to);
}

std::string PartPath(const std::string& spool, uint32_t part) {
  char number[16];
  snprintf(number, sizeof(number), ".%06u", part);
  return spool + number;
}

std::vector<uint32_t> FindParts(const std::string& spool) {
  std::vector<uint32_t> parts;
  const size_t slash = spool.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : slash == 0 ? "/" : spool.substr(0, slash);
  const std::string stem = absl::StrCat(slash == std::string::npos ? spool : spool.substr(slash + 1), ".");
  const ScopedDirectory listing(opendir(directory.c_str()));
  if (listing == nullptr) return parts;
  while (const dirent* entry = readdir(listing.get())) {
    const std::string name = entry->d_name;
    if (name.size() < stem.size() + 6 || name.size() > stem.size() + 9 || name.compare(0, stem.size(), stem) != 0) {
      continue;
    }
    const std::string digits = name.substr(stem.size());
    if (digits.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto part = static_cast<uint32_t>(strtoul(digits.c_str(), nullptr, 10));
    if (part != 0) parts.push_back(part);
  }
  std::sort(parts.begin(), parts.end());
  return parts;
}

namespace {

// Parts are beside the main file itself, not beside a link to it.
std::string Resolved(const std::string& path) {
  // A path below an open directory: must not be resolved to a name again.
  if (path.starts_with("/proc/self/fd/")) return path;
  char* resolved = realpath(path.c_str(), nullptr);
  if (resolved == nullptr) return path;
  std::string text = resolved;
  free(resolved);
  return text;
}

}  // namespace

void RemoveSpoolFiles(const std::string& spool) {
  const std::string main = Resolved(spool);
  for (const uint32_t part : FindParts(main)) unlink(PartPath(main, part).c_str());
  // Removes captures that a killed launcher had not sent to clients yet.
  const size_t slash = main.rfind('/');
  const std::string capture = absl::StrCat(main.substr(slash == std::string::npos ? 0 : slash + 1), ".capture-");
  std::error_code none;
  for (const auto& entry :
       std::filesystem::directory_iterator(main.substr(0, slash == std::string::npos ? 0 : slash), none)) {
    if (entry.path().filename().string().starts_with(capture)) std::filesystem::remove_all(entry.path(), none);
  }
  unlink(main.c_str());
  if (main != spool) unlink(spool.c_str());
}

absl::StatusOr<std::unique_ptr<SpoolReader>> SpoolReader::Open(const std::string& path, const SpoolExtent& extent) {
  // O_NONBLOCK: open must not block if the path is a FIFO, which the check below rejects.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read the spool ", path));
  std::unique_ptr<SpoolReader> reader(new SpoolReader());
  reader->main_fd_ = reader->fd_ = fd;
  struct stat facts;
  if (fstat(fd, &facts) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read the spool ", path));
  if (!S_ISREG(facts.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, " is not a file"));
  uint64_t size = static_cast<uint64_t>(facts.st_size);
  if (extent.main_bytes != 0) size = std::min(size, extent.main_bytes);
  SpoolHeader header;
  if (pread(fd, &header, sizeof(header), 0) != static_cast<ssize_t>(sizeof(header)) ||
      memcmp(header.magic, kSpoolMagic, sizeof(header.magic)) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a spool of tbprof"));
  }
  if (!IsReadable(header.version)) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is a spool of version ", header.version,
                                                      "; this tbprof reads ", kOldestSpoolVersion, " to ",
                                                      kSpoolVersion));
  }
  if (header.part != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is part ", header.part, " of a spool; name the main file, without the number"));
  }
  reader->path_ = Resolved(path);
  reader->session_ = header.session;
  reader->files_.push_back({0, size});
  reader->total_ = size;
  reader->ListParts(extent);
  absl::Status status = reader->Rewind();
  if (!status.ok()) return status;
  return reader;
}

absl::StatusOr<std::unique_ptr<SpoolReader>> SpoolReader::OpenPart(int directory, const std::string& spool,
                                                                   uint32_t part) {
  std::unique_ptr<SpoolReader> reader(new SpoolReader());
  reader->directory_ = directory;
  reader->path_ = spool;
  struct stat facts;
  const std::string path = PartPath(spool, part);
  if (fstatat(directory, path.c_str(), &facts, 0) != 0)
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  reader->files_.push_back({part, static_cast<uint64_t>(facts.st_size)});
  reader->total_ = reader->files_[0].size;
  absl::Status status = reader->Rewind();
  if (!status.ok()) return status;
  return reader;
}

void SpoolReader::ListParts(const SpoolExtent& extent) {
  const std::vector<uint32_t> found = FindParts(path_);
  // Collects the parts that were dropped (their removal may be under way), and those that must exist.
  std::set<uint32_t> begun, dropped;
  if (!Rewind().ok()) return;
  Frame frame;
  PartFact fact;
  while (NextOfFile(&frame)) {
    if (frame.type == FrameType::kPart && frame.Read(&fact)) begun.insert(fact.part);
    if (frame.type == FrameType::kDropped && frame.Read(&fact)) dropped.insert(fact.part);
  }
  for (const uint32_t part : found) {
    if (dropped.count(part) != 0 || part < extent.first_part || part > extent.last_part) continue;
    struct stat facts;
    if (lstat(PartPath(path_, part).c_str(), &facts) != 0) continue;
    files_.push_back({part, static_cast<uint64_t>(facts.st_size)});
    total_ += files_.back().size;
    begun.erase(part);
  }
  for (const uint32_t part : begun) {
    if (dropped.count(part) == 0 && part >= extent.first_part && part <= extent.last_part) ++unlisted_;
  }
}

SpoolReader::~SpoolReader() {
  if (fd_ >= 0 && fd_ != main_fd_) close(fd_);
  if (main_fd_ >= 0) close(main_fd_);
}

absl::Status SpoolReader::Rewind() {
  passed_ = 0;
  damaged_ = 0;
  missing_ = unlisted_;
  truncated_ = false;
  if (!OpenFile(0)) {
    return absl::InvalidArgumentError(absl::StrCat(PartPath(path_, files_[0].part), " is no part of a spool"));
  }
  return absl::OkStatus();
}

// Opens a file at its first frame. False: the file is missing, or is not one of this spool.
bool SpoolReader::OpenFile(size_t index) {
  file_ = index;
  const File& file = files_[index];
  if (fd_ >= 0 && fd_ != main_fd_) close(fd_);
  fd_ = main_fd_;
  position_ = sizeof(SpoolHeader);
  start_ = end_ = 0;
  read_bytes_ = kReadBytes;
  size_ = file.size;
  if (file.part == 0) return true;
  fd_ =
      openat(directory_, PartPath(path_, file.part).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
  struct stat facts;
  SpoolHeader header;
  if (fd_ < 0 || fstat(fd_, &facts) != 0 || !S_ISREG(facts.st_mode)) return false;
  return pread(fd_, &header, sizeof(header), 0) == static_cast<ssize_t>(sizeof(header)) &&
         memcmp(header.magic, kSpoolMagic, sizeof(header.magic)) == 0 && IsReadable(header.version) &&
         header.part == file.part && (main_fd_ < 0 || header.session == session_);
}

bool SpoolReader::Fill(size_t need) {
  if (end_ - start_ >= need) return true;
  if (position_ + need > size_) return false;
  if (end_ > start_) memmove(buffer_.data(), buffer_.data() + start_, end_ - start_);
  end_ -= start_;
  start_ = 0;
  const size_t want = std::max<size_t>(need, std::min<uint64_t>(read_bytes_, size_ - position_));
  read_bytes_ = std::min(2 * read_bytes_, kReadBytes);
  if (buffer_.size() < want) buffer_.resize(want);
  while (end_ < need) {
    const uint64_t at = position_ + end_;
    const size_t room = std::min<uint64_t>(want - end_, size_ - std::min(size_, at));
    if (room == 0) return false;
    const ssize_t got = pread(fd_, buffer_.data() + end_, room, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    end_ += static_cast<size_t>(got);
  }
  return true;
}

bool SpoolReader::Next(Frame* frame) {
  for (;;) {
    if (NextOfFile(frame)) return true;
    if (file_ + 1 >= files_.size()) return false;
    passed_ += size_;
    if (!OpenFile(file_ + 1)) {
      ++missing_;
      size_ = position_ = 0;
    }
  }
}

void SpoolReader::Skip(size_t bytes) {
  position_ += bytes;
  if (bytes <= end_ - start_) {
    start_ += bytes;
    return;
  }
  start_ = end_ = 0;
  read_bytes_ = kReadAfterSkip;
}

// To be called at the header of a frame. False: the whole frame has to be read; the position is unchanged.
bool SpoolReader::TakeSummary(const FrameHeader& header, Frame* frame) {
  const size_t whole = sizeof(header) + Padded(header.payload_bytes);
  const uint64_t begin = position_;
  if (header.payload_bytes < sizeof(ChunkFact) + sizeof(ChunkSummary) || begin + whole > size_) return false;
  Skip(sizeof(header) + header.payload_bytes - sizeof(ChunkSummary));
  if (Fill(sizeof(ChunkSummary))) {
    memcpy(&summary_, buffer_.data() + start_, sizeof(summary_));
    if (summary_.crc == SummaryCrc(summary_) && enough_(header.segment, summary_)) {
      Skip(begin + whole - position_);
      *frame = {header.type, header.segment, files_[file_].part, {}, &summary_};
      return true;
    }
  }
  position_ = begin;
  start_ = end_ = 0;
  return false;
}

bool SpoolReader::NextOfFile(Frame* frame) {
  while (Fill(sizeof(FrameHeader))) {
    FrameHeader header;
    memcpy(&header, buffer_.data() + start_, sizeof(header));
    bool good = header.magic == kFrameMagic && header.payload_bytes <= kMaxFramePayload &&
                header.header_crc == HeaderCrc(header);
    if (good && enough_ && (header.flags & kFrameSummary) != 0 && TakeSummary(header, frame)) return true;
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
        frame->part = files_[file_].part;
        frame->payload = std::string_view(payload, header.payload_bytes);
        frame->summary = nullptr;
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
