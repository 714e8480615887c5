// SPDX-License-Identifier: Apache-2.0
#include "launcher/check/file_content.h"

#include <zlib.h>

#include <algorithm>
#include <vector>

#include "launcher/base/text.h"
#include "writer/base/file_window.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

using namespace std::string_view_literals;

constexpr Compression kCompressions[] = {
    {FileContent::kGzip, "gzip", ".gz", "gzip -dk --"},
    {FileContent::kBzip2, "bzip2", ".bz2", "bzip2 -dk --"},
    {FileContent::kXz, "xz", ".xz", "xz -dk --"},
    {FileContent::kZstd, "zstd", ".zst", "zstd -dk --"},
};

constexpr std::string_view kArchives[] = {".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst", ".tgz", ".tar", ".zip", ".7z"};

constexpr size_t kTarMagicAt = 257;
constexpr size_t kHeadBytes = 64 << 10;
constexpr size_t kBlock = 4096;
constexpr uint64_t kWholeBytes = uint64_t{16} << 20;  // files up to this size are searched for NULs completely
constexpr uint64_t kSampleStep = uint64_t{256} << 10;
constexpr size_t kLeastNulTail = 64;
constexpr size_t kLeastLines = 2;
constexpr size_t kLeastReplaced = 3;
constexpr uint64_t kBzip2End = 0x177245385090;  // precedes the last checksum, at any bit offset
constexpr uint32_t kZstdMagic = 0xFD2FB528;
constexpr uint32_t kZstdSkipped = 0x184D2A50;  // the last four bits may have any value

bool IsNuls(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) { return c == '\0'; });
}

bool IsJsonTrace(std::string_view head) {
  if (!head.starts_with('{') && !head.starts_with('[')) return false;
  for (std::string_view key : {"\"traceEvents\"", "\"schemaVersion\"", "\"ph\""}) {
    if (head.find(key) != std::string_view::npos) return true;
  }
  return false;
}

bool IsWebPage(std::string_view head) {
  const size_t begin = head.find_first_not_of(" \t\r\n");
  const std::string start = LowerCase(head.substr(std::min(begin, head.size()), 16));
  return start.starts_with("<!doctype") || start.starts_with("<html") || start.starts_with("<?xml");
}

// In a binary file CR LF is rare; if a CR precedes each of several LFs, a conversion inserted them.
bool IsCrLf(std::string_view head) {
  size_t lines = 0;
  bool is_binary = false;
  for (size_t i = 0; i < head.size(); ++i) {
    is_binary = is_binary || (static_cast<unsigned char>(head[i]) < '\t');
    if (head[i] != '\n') continue;
    if (i == 0 || head[i - 1] != '\r') return false;
    ++lines;
  }
  return is_binary && lines >= kLeastLines;
}

bool IsReplaced(std::string_view head) {
  size_t replaced = 0;
  for (size_t at = head.find("\xEF\xBF\xBD"); at != std::string_view::npos; at = head.find("\xEF\xBF\xBD", at + 3)) {
    ++replaced;
  }
  return replaced >= kLeastReplaced && ValidUtf8Prefix(head) + 3 >= head.size();
}

uint64_t LittleEndian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

// True also for corrupt data: in both cases `gzip -d` leaves no output.
bool GzipIsCut(FileWindow* file, uint64_t size, uint64_t* budget) {
  z_stream stream = {};
  if (inflateInit2(&stream, 15 + 16) != Z_OK) return false;
  std::vector<unsigned char> out(kHeadBytes);
  bool ended = false;
  int status = Z_OK;
  for (uint64_t at = 0; at<size&& * budget> 0 && status == Z_OK;) {
    std::string bytes(file->Read(at, kHeadBytes));
    if (bytes.empty()) break;
    stream.next_in = reinterpret_cast<unsigned char*>(bytes.data());
    stream.avail_in = static_cast<unsigned>(bytes.size());
    while ((stream.avail_in > 0 || stream.avail_out == 0) && status == Z_OK) {
      stream.next_out = out.data();
      stream.avail_out = static_cast<unsigned>(out.size());
      status = inflate(&stream, Z_NO_FLUSH);
      *budget -= std::min<uint64_t>(*budget, out.size() - stream.avail_out);
      if (*budget == 0) break;
      if (status == Z_BUF_ERROR) status = Z_OK;  // zlib needs more input
      if (status == Z_OK && stream.avail_in == 0 && stream.avail_out > 0) break;
    }
    at += bytes.size() - stream.avail_in;
    ended = status == Z_STREAM_END;
    // gzip unpacks all members, and ignores trailing data that is not a member.
    if (ended && file->Read(at, 2) == "\x1f\x8b") status = inflateReset(&stream);
  }
  inflateEnd(&stream);
  return *budget > 0 && !ended;
}

bool Bzip2IsCut(FileWindow* file, uint64_t size) {
  const std::string_view end = file->Read(size - std::min<uint64_t>(size, 11), 11);
  if (end.size() < 11) return true;
  for (size_t begin = 1; begin <= 8; ++begin) {  // bit at which the last 80 bits (end marker and checksum) begin
    uint64_t bits = 0;
    for (size_t i = begin; i < begin + 48; ++i)
      bits = bits << 1 | (static_cast<uint8_t>(end[i / 8]) >> (7 - i % 8) & 1);
    if (bits == kBzip2End) return false;
  }
  return true;
}

bool XzIsCut(FileWindow* file, uint64_t size) {
  while (size >= 4 && IsNuls(file->Read(size - 4, 4))) size -= 4;  // padding
  return size % 4 != 0 || size < 32 || file->Read(size - 2, 2) != "YZ";
}

bool ZstdIsCut(FileWindow* file, uint64_t size) {
  for (uint64_t at = 0; at < size;) {
    const uint64_t magic = LittleEndian(file->Read(at, 4));
    if ((magic & ~uint64_t{15}) == kZstdSkipped) {
      at += 8 + LittleEndian(file->Read(at + 4, 4));
    } else if (magic != kZstdMagic) {
      return at == 0;
    } else {
      const std::string_view head = file->Read(at + 4, 1);
      if (head.empty()) return true;
      const auto flags = static_cast<uint8_t>(head[0]);
      const bool single = (flags & 0x20) != 0;
      constexpr uint64_t kDictionary[] = {0, 1, 2, 4}, kContent[] = {0, 2, 4, 8};
      at += 5 + (single ? 0 : 1) + kDictionary[flags & 3] + (flags >> 6 == 0 && single ? 1 : kContent[flags >> 6]);
      for (bool last = false; !last;) {
        const std::string_view block = file->Read(at, 3);
        if (block.size() < 3) return true;
        const uint64_t bits = LittleEndian(block);
        last = (bits & 1) != 0;
        at += 3 + ((bits >> 1 & 3) == 1 ? 1 : bits >> 3);  // RLE block: one byte, repeated
      }
      at += (flags & 4) != 0 ? 4 : 0;
    }
    if (at > size) return true;
  }
  return false;
}

}  // namespace

FileContent ContentByMagic(std::string_view head) {
  if (head.starts_with("\x1f\x8b")) return FileContent::kGzip;
  if (head.starts_with("BZh")) return FileContent::kBzip2;
  if (head.starts_with("\xFD"
                       "7zXZ\0"sv))
    return FileContent::kXz;
  if (head.starts_with("\x28\xB5\x2F\xFD")) return FileContent::kZstd;
  if (head.starts_with("PK\x03\x04")) return FileContent::kZip;
  if (head.size() > kTarMagicAt && head.substr(kTarMagicAt).starts_with("ustar")) return FileContent::kTar;
  if (head.starts_with("\x00\x05\x16\x07"sv)) return FileContent::kAppleDouble;
  if (head.starts_with("version https://git-lfs.")) return FileContent::kLfsPointer;
  if (IsWebPage(head)) return FileContent::kWebPage;
  return IsJsonTrace(head) ? FileContent::kChromeTrace : FileContent::kOther;
}

const Compression* CompressionOf(FileContent content) {
  const auto* found = std::find_if(std::begin(kCompressions), std::end(kCompressions),
                                   [&](const Compression& known) { return known.content == content; });
  return found == std::end(kCompressions) ? nullptr : found;
}

bool IsArchiveName(std::string_view name) { return ArchiveStem(name) != name; }

std::string ArchiveStem(std::string_view name) {
  for (std::string_view end : kArchives) {
    if (name.size() > end.size() && LowerCase(name).ends_with(end)) {
      return std::string(name.substr(0, name.size() - end.size()));
    }
  }
  return std::string(name);
}

bool HoldsNulBlock(int fd, uint64_t size) {
  FileWindow file(fd, size);
  for (uint64_t at = 0; at + kBlock <= size;) {
    const std::string_view block = file.Read(at, kBlock);
    if (block.size() < kBlock) return false;
    if (IsNuls(block)) return true;
    const bool dense = size <= kWholeBytes || at < kWholeBytes / 4 || at + kWholeBytes / 4 > size;
    at += dense ? kBlock : kSampleStep;
  }
  return false;
}

FileDamage FindDamage(int fd, uint64_t size) {
  FileWindow file(fd, size);
  const std::string_view head = file.Read(0, kHeadBytes);
  if (head.empty()) return FileDamage::kNone;
  const bool nul_head = IsNuls(head);
  if (!nul_head && IsCrLf(head)) return FileDamage::kCrLf;
  if (!nul_head && IsReplaced(head)) return FileDamage::kReplacedBytes;
  const uint64_t tail_size = std::min<uint64_t>(size, kHeadBytes);
  if (nul_head && IsNuls(file.Read(size - tail_size, static_cast<size_t>(tail_size)))) return FileDamage::kNuls;
  const size_t least = static_cast<size_t>(std::min<uint64_t>(size, kLeastNulTail));
  const bool nul_tail = IsNuls(file.Read(size - least, least));
  return nul_head || nul_tail || HoldsNulBlock(fd, size) ? FileDamage::kNulPart : FileDamage::kNone;
}

FileDamage FindCut(FileContent content, int fd, uint64_t size, uint64_t* budget) {
  FileWindow file(fd, size);
  const bool cut = content == FileContent::kGzip    ? GzipIsCut(&file, size, budget)
                   : content == FileContent::kBzip2 ? Bzip2IsCut(&file, size)
                   : content == FileContent::kXz    ? XzIsCut(&file, size)
                   : content == FileContent::kZstd  ? ZstdIsCut(&file, size)
                                                    : false;
  return cut ? FileDamage::kCutOff : FileDamage::kNone;
}

uint32_t GzipHolds(int fd, uint64_t size) {
  FileWindow file(fd, size);
  return static_cast<uint32_t>(LittleEndian(file.Read(size - std::min<uint64_t>(size, 4), 4)));
}

FileText TextOf(FileContent content) {
  switch (content) {
    case FileContent::kGzip:
      return {"is compressed (gzip): not unpacked", "name it `….gz`, then gzip -dk"};
    case FileContent::kBzip2:
      return {"is compressed (bzip2): not unpacked", "name it `….bz2`, then bzip2 -dk"};
    case FileContent::kXz:
      return {"is compressed (xz): not unpacked", "name it `….xz`, then xz -dk"};
    case FileContent::kZstd:
      return {"is compressed (zstd): not unpacked", "name it `….zst`, then zstd -dk"};
    case FileContent::kZip:
      return {"is a zip archive: not unpacked", "unpack it, not as root, into a new directory"};
    case FileContent::kTar:
      return {"is a tar archive: not unpacked", "unpack it, not as root, into a new directory"};
    case FileContent::kWebPage:
      return {"is a web page in its place", "download it again, logged in"};
    case FileContent::kLfsPointer:
      return {"is a pointer of Git LFS in its place", "git lfs pull"};
    case FileContent::kChromeTrace:
      return {"is a Chrome trace, which TensorBoard does not read", "open at ui.perfetto.dev"};
    case FileContent::kAppleDouble:
      return {"is a file of macOS, without the content", "copy the file itself"};
    case FileContent::kUnread:
    case FileContent::kOther:
    case FileContent::kProfile:
    case FileContent::kEvents:
      break;
  }
  return {};
}

FileText TextOf(FileDamage damage) {
  switch (damage) {
    case FileDamage::kNuls:
      return {"holds nothing but NULs: a crash, or a cut copy", "copy or record again"};
    case FileDamage::kNulPart:
      return {"NULs are in place of a part: not shown", "copy or record again"};
    case FileDamage::kCrLf:
      return {"each LF became CR LF: not shown", "copy again in binary mode"};
    case FileDamage::kReplacedBytes:
      return {"its bytes were replaced as text: not shown", "copy again in binary mode"};
    case FileDamage::kCutOff:
      return {"is cut off: nothing unpacks it", "copy it again"};
    case FileDamage::kNone:
      break;
  }
  return {};
}

}  // namespace tbprof
