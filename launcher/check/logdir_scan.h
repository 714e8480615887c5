// SPDX-License-Identifier: Apache-2.0
//
// Scans the content of a log directory as far as TensorBoard reads it: a bounded walk, and the facts of each profile
// and events file. Reports no findings (launcher/check/logdir_check.h does) and changes nothing.
//
// Process: launcher, for `tbprof check`. Names and contents are untrusted.
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
  uint64_t unpacked_bytes = uint64_t{256} << 20;  // for all gzip files together, to detect truncated ones
  size_t linked_directories = 10'000;             // targets of symbolic links, and directories below them
  uint64_t event_bytes = uint64_t{512} << 20;     // for all events files together; beyond it only both ends of each are
                                                  // read
  EventFileLimits events;
  // Limits for files with unknown names, which are recognised by their first bytes: in total, and per directory.
  size_t unnamed = 20'000, unnamed_of_directory = 500;
};

struct ScannedFile {
  std::string name;
  uint64_t size = 0;
  int64_t mtime_ns = 0;
  bool regular = false;
  bool is_link = false;
  FileContent content = FileContent::kUnread;  // set for `others` and for files that cannot be parsed
  FileDamage damage = FileDamage::kNone;       // set for files that cannot be parsed, or hold nothing
  uint64_t device = 0, inode = 0;              // equal for all names of one file
  std::string host;                            // for a profile among `others`: the host name in the profile
  int error = 0;                               // errno if stat or open failed
  bool locked = false;                         // for a spool: in use
  uint32_t unpacked_size = 0;                  // for a complete gzip file, modulo 2^32
  std::string text;                            // content of summary.json and .cached_tools.json
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
  std::string path;  // below the logdir; "" for the logdir itself
  int parent = -1;
  size_t depth = 0;
  bool is_link = false;       // the entry itself is a symbolic link
  bool through_link = false;  // a directory above it is a symbolic link
  int error = 0;              // errno if it could not be listed
  bool writable = false;
  bool read_only = false;  // not writable because its file system is read-only
  bool owned = false;      // the caller owns it and may change its rights
  int64_t mtime_ns = 0;
  uint64_t device = 0, inode = 0;  // equal for all paths of one directory
  size_t entries = 0;

  // In directory order: xprof derives its tools from the first file.
  std::vector<ScannedProfile> profiles;
  std::vector<ScannedEvents> events;
  // Other files of a run: caches, leftovers, other formats, summary.json, and profiles and events files with other
  // names.
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
  std::vector<std::string> siblings;          // for a missing logdir: the directories beside it
  std::vector<ScannedDirectory> directories;  // parents before children; [0] is the logdir

  size_t entries = 0;
  bool entries_cut = false;  // more than ScanLimits::entries
  bool depth_cut = false;
  bool links_cut = false;             // more than ScanLimits::linked_directories
  bool unnamed_cut = false;           // more than ScanLimits::unnamed
  std::vector<std::string> loops;     // the first links that lead to a directory above them or above the logdir
  std::vector<std::string> dangling;  // the first links whose target is missing
  uint64_t event_bytes_read = 0;
};

// `logdir`: absolute and normalised; may contain links.
LogdirScan ScanLogdir(const std::string& logdir, const ScanLimits& limits);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_CHECK_LOGDIR_SCAN_H_
