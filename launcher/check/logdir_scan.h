// SPDX-License-Identifier: Apache-2.0
//
// What lies in a log directory, as far as TensorBoard would look at it: a bounded walk, and the facts of each profile
// and events file. Nothing is judged here (launcher/check/logdir_check.h does) and nothing is changed.
//
// Process: launcher, for `tbprof check`. Names and contents are taken as hostile.
#ifndef TBPROF_LAUNCHER_CHECK_LOGDIR_SCAN_H_
#define TBPROF_LAUNCHER_CHECK_LOGDIR_SCAN_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/check/file_content.h"
#include "writer/logdir/event_file.h"
#include "writer/outputs/xspace_skim.h"

namespace tbprof {

struct ScanLimits {
  size_t entries = 500'000;
  size_t depth = 64;
  uint64_t unpacked_bytes = uint64_t{256} << 20;  // of all gzip files, to see whether they are whole
  size_t linked_directories = 10'000;             // that symbolic links lead to, and below those
  uint64_t event_bytes = uint64_t{512} << 20;     // of all events files; then only the borders of each are read
  EventFileLimits events;
  // Files whose name means nothing are recognised by their first bytes; so many, in all and of a directory.
  size_t unnamed = 20'000, unnamed_of_directory = 500;
};

struct ScannedFile {
  std::string name;
  uint64_t size = 0;
  int64_t mtime_ns = 0;
  bool regular = false;
  bool is_link = false;
  FileContent content = FileContent::kUnread;  // of `others`, and of what cannot be parsed
  FileDamage damage = FileDamage::kNone;       // of what cannot be parsed, or holds nothing
  uint64_t device = 0, inode = 0;              // two names of one file have the same
  std::string host;                            // of a profile among `others`: as it names itself
  int error = 0;                               // errno where it could not be looked at or opened
  bool locked = false;                         // a spool: in use
  uint32_t unpacked_size = 0;                  // of a gzip file that is whole, modulo 2^32
  std::string text;                            // of summary.json and .cached_tools.json
};

// `*.xplane.pb` or `*.xplane.riegeli`.
struct ScannedProfile : ScannedFile {
  bool skimmed = false;
  XspaceFacts facts;
};

struct ScannedEvents : ScannedFile {
  EventFileFacts facts;
};

struct ScannedDirectory {
  std::string path;  // below the logdir, "" for itself
  int parent = -1;
  size_t depth = 0;
  bool is_link = false;       // the entry itself is a symbolic link
  bool through_link = false;  // a directory above it is
  int error = 0;              // errno where it could not be listed
  bool writable = false;
  bool read_only = false;  // not writable because its file system is not
  bool owned = false;      // by the caller, who may change its rights
  int64_t mtime_ns = 0;
  uint64_t device = 0, inode = 0;  // two paths of one directory have the same
  size_t entries = 0;

  // In the order of the directory, which decides the file that xprof derives its tools from.
  std::vector<ScannedProfile> profiles;
  std::vector<ScannedEvents> events;
  // Files with facts of a run: caches, leftovers, other formats, summary.json, profiles and events files of another
  // name.
  std::vector<ScannedFile> others;
  std::vector<int> children;  // indices of directories
  bool locked = false;        // in .tbprof/staging: in use

  std::string_view name() const {
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? std::string_view(path) : std::string_view(path).substr(slash + 1);
  }
};

struct LogdirScan {
  std::string logdir;                         // absolute
  int error = 0;                              // errno of opening it; ENOTDIR for a file
  std::vector<std::string> siblings;          // of a logdir that is missing: the directories beside it
  std::vector<ScannedDirectory> directories;  // parents before children; [0] is the logdir

  size_t entries = 0;
  bool entries_cut = false;  // more than ScanLimits::entries
  bool depth_cut = false;
  bool links_cut = false;             // more than ScanLimits::linked_directories
  bool unnamed_cut = false;           // more than ScanLimits::unnamed
  std::vector<std::string> loops;     // links that lead to a directory above, of the logdir as well, the first ones
  std::vector<std::string> dangling;  // links that lead nowhere, the first ones
  uint64_t event_bytes_read = 0;
};

// `logdir`: absolute and normalised but for links.
LogdirScan ScanLogdir(const std::string& logdir, const ScanLimits& limits);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_CHECK_LOGDIR_SCAN_H_
