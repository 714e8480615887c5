// SPDX-License-Identifier: Apache-2.0
//
// Opens paths on a machine with other users. A path is walked level by level on open descriptors, so that the object
// that was checked is the object that is opened. A symbolic link is followed if the caller or root owns it. A file is
// written only if no other user can have placed it.
//
//   absl::StatusOr<ScopedFd> directory = OpenDirectoryTrusted("/home/me/logs");
//   absl::StatusOr<ScopedFd> file = OpenForWriting("/tmp/me.log", O_APPEND);
//
// openat2 is not needed: old kernels lack it, and seccomp filters refuse it. Decision 027.
//
// Process: launcher and converter.
#ifndef TBPROF_WRITER_BASE_TRUSTED_PATH_H_
#define TBPROF_WRITER_BASE_TRUSTED_PATH_H_

#include <sys/stat.h>

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "writer/base/file_ops.h"

namespace tbprof {

// The caller (effective uid) or root.
bool IsTrustedOwner(uid_t uid);

// Whether users other than the caller and root can change the entries of a directory. `sticky_is_safe`: a directory of
// the caller or root that has the sticky bit counts as safe, since only the owner of an entry can replace it.
// `writers`: S_IWOTH alone if write access of the owner's group is acceptable.
bool OthersCanWrite(const struct stat& directory, bool sticky_is_safe, mode_t writers = S_IWGRP | S_IWOTH);

struct DirectoryWalk {
  bool make = false;     // creates missing levels, mode 0777 & ~umask
  bool* made = nullptr;  // set to whether the last level was created
  // If not empty: at and below this directory (a prefix of the path), no link is followed, whoever owns it.
  std::string no_links_below;
  // Called with each directory of the path, from `/` to the last.
  std::function<absl::Status(int fd, const std::string& path)> visit;
};

// Returns an O_PATH descriptor. `path` is absolute.
absl::StatusOr<ScopedFd> OpenDirectoryTrusted(const std::string& path, const DirectoryWalk& walk = {});

// Whether the error means that another user can have prepared a link or file. False for plain permission errors.
bool IsUntrusted(const absl::Status& status);

// Whether other users can change the entry at an absolute path: through a directory on the way, or the last one that
// exists.
bool OthersCanChange(const std::string& path);
// Whether another user can have caused the error at a path: an entry that is missing, of another type, or a link; or
// the permissions of a directory that belongs to another user. False for a full disk, and for the caller's own mistakes
// and permissions in directories of the caller or root.
bool OthersMayHaveCaused(const absl::Status& status, const std::string& path);

// Opens a file for writing: O_APPEND, or O_TRUNC for a file that is emptied after it has passed the checks. A missing
// file is created (0666 & ~umask). The error is IsUntrusted if another user can have placed the file, or a link on the
// way. Devices, FIFOs (ENXIO without a reader) and /proc/self/fd/N, and so /dev/stdout, work; to what those lead to, it
// is appended.
absl::StatusOr<ScopedFd> OpenForWriting(const std::string& path, int flag);

// Opens a file for reading, without waiting if it is a FIFO. Links of the caller and root are followed. The error is
// IsUntrusted if a link of another user leads to the file.
absl::StatusOr<ScopedFd> OpenForReading(const std::string& path);

// Opens a directory below `parent` that only the caller can write to: `name` if it is such a directory or can be
// created as one (0700), else `name`-XXXXXX. *used is set to its name.
absl::StatusOr<ScopedFd> OpenPrivateDirectory(int parent, const std::string& name, std::string* used);

// Opens a file or directory below an open directory: `path` is relative, has no `..`, and no link in it is followed.
absl::StatusOr<ScopedFd> OpenBeneath(int directory, const std::string& path, int flags);

// The current path of an open directory; empty if it was removed or /proc does not show it.
std::string PathOfDirectory(int directory);
bool IsRemoved(int directory);

}  // namespace tbprof

#endif  // TBPROF_WRITER_BASE_TRUSTED_PATH_H_
