// SPDX-License-Identifier: Apache-2.0
//
// File system calls for publishing profiles: relative to a directory that was opened once, without following entries
// that another user could have placed, without replacing anything, and with the absolute path in errors.
//
// Process: launcher and converter.
#ifndef TBPROF_WRITER_BASE_FILE_OPS_H_
#define TBPROF_WRITER_BASE_FILE_OPS_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "writer/base/scoped.h"
#include "writer/base/sink.h"

namespace tbprof {

// `what`: e.g. `cannot write`. The status code follows errno (EACCES -> PermissionDenied, ENOSPC -> ResourceExhausted,
// ...).
absl::Status ErrnoStatus(int error, std::string_view what, const std::string& path);

// Text for permission errors: `; this is uid 1000 gid 1000, the directory belongs to uid 0 gid 0, mode 0755`.
std::string OwnerText(int directory_fd);

// Opens `name` in `parent`; creates it (`mode` & ~umask) if it is missing. A symbolic link is not followed.
absl::StatusOr<ScopedFd> OpenOrMakeDirectory(int parent, const std::string& name, const std::string& path,
                                             mode_t mode = 0777);

// Creates a file, mode 0666 & ~umask. Fails if the file exists.
absl::StatusOr<ScopedFd> CreateFile(int directory, const std::string& name, const std::string& path);

// Reads the beginning of a file: as many bytes as *bytes has room for. *bytes is shortened if the file is shorter.
absl::Status ReadAll(int fd, std::string* bytes, const std::string& path);

absl::Status WriteAll(int fd, std::string_view bytes, const std::string& path);

// Fsyncs. File systems without fsync (EINVAL, ENOTSUP) and read-only ones (EROFS) are no error.
absl::Status Sync(int fd, const std::string& path);

// Moves without replacing: RENAME_NOREPLACE, else (old NFS, FAT, some FUSE) link and unlink. AlreadyExists if the name
// is taken.
absl::Status MoveNoReplace(int from_directory, const std::string& from, int to_directory, const std::string& to,
                           const std::string& path);

// Calls `visit` with each name in an open directory except `.` and `..`, or not at all if the directory cannot be
// listed. The position of the descriptor does not change.
void ForEachEntry(int directory, const std::function<void(const char* name)>& visit);

// Removes a directory that contains only plain files, such as a staging directory. Errors are ignored.
void RemoveFlatDirectory(int parent, const std::string& name);

// Removes a directory with its contents, by descriptors: no link is followed. Errors are ignored.
void RemoveTree(int parent, const std::string& name);

// Lower-case hex digits from the kernel's random source.
std::string RandomHex(int digits);

// Appends to a file. Beyond `most_bytes`, bytes are counted but not written. Appended bytes are in the file only after
// Flush.
class FileSink : public Sink {
 public:
  FileSink(int fd, std::string path, uint64_t most_bytes) : fd_(fd), path_(std::move(path)), most_bytes_(most_bytes) {}
  absl::Status Append(std::string_view bytes) override;
  absl::Status Flush();
  uint64_t bytes() const { return bytes_; }

 private:
  absl::Status Write(std::string_view bytes);

  int fd_;
  std::string path_;
  uint64_t most_bytes_;
  uint64_t bytes_ = 0;    // appended
  uint64_t written_ = 0;  // bytes that are in the file; the following bytes are in pending_
  std::string pending_;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_BASE_FILE_OPS_H_
