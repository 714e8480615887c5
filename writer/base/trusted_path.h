// SPDX-License-Identifier: Apache-2.0
//
// Paths on a machine with other users. A path is walked level by level on open descriptors, so that what was checked is
// what is opened. A symbolic link is followed if the caller or root owns it, a file is written if no other user can
// have put it there.
//
//   absl::StatusOr<FileDescriptor> directory = OpenDirectoryTrusted("/home/me/logs");
//   absl::StatusOr<FileDescriptor> file = OpenForWriting("/tmp/me.log", O_APPEND);
//
// Needs no openat2, which old kernels lack and seccomp filters refuse. Decision 027.
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
// `writers`: S_IWOTH alone where a group of the owner's does no harm.
bool OthersCanWrite(const struct stat& directory, bool sticky_is_safe, mode_t writers = S_IWGRP | S_IWOTH);

struct DirectoryWalk {
  bool make = false;     // missing levels are made, 0777 & ~umask
  bool* made = nullptr;  // whether the last one was
  // Not empty: at and below this directory, a prefix of the path, no link is followed, of any owner.
  std::string no_links_below;
  // Called with each directory on the way and the last, from `/` on.
  std::function<absl::Status(int fd, const std::string& path)> visit;
};

// An O_PATH descriptor. `path` is absolute.
absl::StatusOr<FileDescriptor> OpenDirectoryTrusted(const std::string& path, const DirectoryWalk& walk = {});

// Whether an error means that another user can have prepared a link or file; not of plain permissions.
bool IsUntrusted(const absl::Status& status);

// Whether other users can change what lies at an absolute path: a directory on the way, or the last one that exists.
bool OthersCanChange(const std::string& path);
// Whether what is wrong at a path can be another user's doing: what is missing there, of another type or a link, and
// the permissions of a directory of theirs. Not a full disk, nor the caller's own mistakes and permissions in
// directories of the caller's own or root's.
bool OthersMayHaveCaused(const absl::Status& status, const std::string& path);

// A file to write: O_APPEND, or O_TRUNC for one that is emptied when it has passed the checks. It is made (0666 &
// ~umask) if missing. IsUntrusted where another user can have put it, or a link on the way, there. Devices, FIFOs
// (ENXIO without a reader) and /proc/self/fd/N, thus /dev/stdout, work.
absl::StatusOr<FileDescriptor> OpenForWriting(const std::string& path, int flag);

// A file to read, not waited for if it is a FIFO; links of the caller and root are followed. IsUntrusted where another
// user's link leads to it.
absl::StatusOr<FileDescriptor> OpenForReading(const std::string& path);

// A directory below `parent` that only the caller can write to: `name` if it is one, or can be made one (0700), else
// `name`-XXXXXX. *used becomes its name.
absl::StatusOr<FileDescriptor> OpenPrivateDirectory(int parent, const std::string& name, std::string* used);

// A file or directory below an open one: `path` is relative, has no `..`, and no link in it is followed.
absl::StatusOr<FileDescriptor> OpenBeneath(int directory, const std::string& path, int flags);

// Where an open directory is by now; empty where it was removed or /proc does not have it.
std::string PathOfDirectory(int directory);
bool IsRemoved(int directory);

}  // namespace tbprof

#endif  // TBPROF_WRITER_BASE_TRUSTED_PATH_H_
