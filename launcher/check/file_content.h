// SPDX-License-Identifier: Apache-2.0
//
// Detects the type of a log directory's file from its content, and the damage of a broken file.
//
//   FileContent content = ContentByMagic(FileWindow(fd, size).Read(0, kContentBytes));
//   if (const Compression* compression = CompressionOf(content)) ...   // compression->command
//   FileDamage damage = FindDamage(fd, size);   // for a file that cannot be parsed
//
// Process: launcher, for `tbprof check`. Content is untrusted. Any thread.
#ifndef TBPROF_LAUNCHER_CHECK_FILE_CONTENT_H_
#define TBPROF_LAUNCHER_CHECK_FILE_CONTENT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tbprof {

enum class FileContent {
  kUnread,
  kOther,
  kProfile,
  kEvents,
  kGzip,
  kBzip2,
  kXz,
  kZstd,
  kZip,
  kTar,
  kAppleDouble,  // `._NAME`, which macOS writes beside NAME on foreign file systems and in archives
  kChromeTrace,  // JSON of kineto and of Chrome's tracing
  kWebPage,
  kLfsPointer,  // of Git LFS, instead of the file
};

constexpr size_t kContentBytes = 512;

// `head`: the first kContentBytes of a file. kOther for profiles and events files, which have no magic number.
FileContent ContentByMagic(std::string_view head);

// A format of a single compressed file.
struct Compression {
  FileContent content;
  std::string_view name;     // name of the format
  std::string_view suffix;   // `.gz`
  std::string_view command;  // unpacks the file beside the original, and keeps the original
};

const Compression* CompressionOf(FileContent content);  // nullptr: not compressed

// `name`: file name. True for archives of files: `.tar`, `.tar.gz`, `.zip`, ...
bool IsArchiveName(std::string_view name);
// `name` without the suffix of an archive.
std::string ArchiveStem(std::string_view name);

enum class FileDamage {
  kNone,
  kNuls,           // only NULs
  kNulPart,        // NULs at the beginning, in the middle or at the end
  kCrLf,           // each LF became CR LF: transfer in text mode, or through a terminal
  kReplacedBytes,  // read as UTF-8: invalid bytes became U+FFFD
  kCutOff,         // a compressed file that is truncated or too corrupt to be unpacked
};

struct FileText {
  std::string_view what, fix;
};

// Texts for a file that cannot be parsed: its type or damage, and the remedy. Empty if unknown.
FileText TextOf(FileContent content);
FileText TextOf(FileDamage damage);

// Bounded: of a large file reads the beginning, the end, and samples between them.
FileDamage FindDamage(int fd, uint64_t size);
// Detects a truncated compressed file. Checks only the structure of the format, except for gzip: gzip is unpacked, up
// to `*budget` bytes, which are subtracted from it. With the budget used up, returns kNone.
FileDamage FindCut(FileContent content, int fd, uint64_t size, uint64_t* budget);
// The uncompressed size of a complete gzip file, modulo 2^32: its last four bytes.
uint32_t GzipHolds(int fd, uint64_t size);
// True: there is a block of 4 KiB of NULs. Either the block was not written before the machine stopped, or the data
// contains it.
bool HoldsNulBlock(int fd, uint64_t size);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_CHECK_FILE_CONTENT_H_
