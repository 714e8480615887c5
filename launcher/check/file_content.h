// SPDX-License-Identifier: Apache-2.0
//
// What a file of a log directory is by its content, and what happened to one that is broken.
//
//   FileContent content = ContentByMagic(FileWindow(fd, size).Read(0, kContentBytes));
//   if (const Compression* compression = CompressionOf(content)) ...   // compression->command
//   FileDamage damage = FindDamage(fd, size);   // of a file that cannot be parsed
//
// Process: launcher, for `tbprof check`. Content is taken as hostile. Any thread.
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
  kLfsPointer,  // of Git LFS, in place of the file
};

constexpr size_t kContentBytes = 512;

// `head`: the first kContentBytes of a file. kOther for profiles and events files: those need more than a magic number.
FileContent ContentByMagic(std::string_view head);

// A format of one compressed file.
struct Compression {
  FileContent content;
  std::string_view name;     // of the format
  std::string_view suffix;   // `.gz`
  std::string_view command;  // unpacks beside the original, which it keeps
};

const Compression* CompressionOf(FileContent content);  // nullptr: not compressed

// `name` is that of an archive of files: `.tar`, `.tar.gz`, `.zip`, ...
bool IsArchiveName(std::string_view name);
// Without the suffix of an archive.
std::string ArchiveStem(std::string_view name);

enum class FileDamage {
  kNone,
  kNuls,           // nothing but NULs
  kNulPart,        // NULs in its middle or at its end
  kCrLf,           // each LF became CR LF: a transfer in text mode, a terminal
  kReplacedBytes,  // read as UTF-8: what is none became U+FFFD
  kCutOff,         // a compressed file without its end, or with a fault that keeps it from being unpacked
};

struct FileText {
  std::string_view what, fix;
};

// Of a file that cannot be parsed: what it is, or what happened to it, and what to do. Empty where that is not known.
FileText TextOf(FileContent content);
FileText TextOf(FileDamage damage);

// Bounded: of a large file the beginning, the end, and samples between.
FileDamage FindDamage(int fd, uint64_t size);
// Of a compressed file: it can be unpacked as far as its format shows without unpacking it. gzip is unpacked, up to
// `*budget` bytes, which it takes from; beyond, nothing is found.
FileDamage FindCut(FileContent content, int fd, uint64_t size, uint64_t* budget);
// The size of what a whole gzip file holds, modulo 2^32: its last four bytes.
uint32_t GzipHolds(int fd, uint64_t size);
// A block of 4 KiB of NULs: not written when the machine stopped, or a literal in the data.
bool HoldsNulBlock(int fd, uint64_t size);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_CHECK_FILE_CONTENT_H_
