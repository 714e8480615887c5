// SPDX-License-Identifier: Apache-2.0
#include "launcher/file_content.h"

#include <algorithm>

#include "launcher/text.h"
#include "writer/file_window.h"
#include "writer/utf8.h"

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
constexpr uint64_t kWholeBytes = uint64_t{16} << 20;  // files up to this size are searched for NULs from end to end
constexpr uint64_t kSampleStep = uint64_t{256} << 10;
constexpr size_t kLeastNulTail = 64;
constexpr size_t kLeastLines = 2;
constexpr size_t kLeastReplaced = 3;

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

// In a binary file an LF behind a CR is rare, each of them behind one is not by chance.
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
    case FileDamage::kNone:
      break;
  }
  return {};
}

}  // namespace tbprof
