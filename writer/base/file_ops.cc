// SPDX-License-Identifier: Apache-2.0
#include "writer/base/file_ops.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_format.h"

#include "writer/base/text.h"

namespace tbprof {

absl::Status ErrnoStatus(int error, std::string_view what, const std::string& path) {
  absl::StatusCode code = absl::ErrnoToStatusCode(error);
  // Replaces codes of absl::ErrnoToStatusCode for errors that need these codes here.
  if (error == EROFS || error == EPERM) code = absl::StatusCode::kPermissionDenied;
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) code = absl::StatusCode::kResourceExhausted;
  return absl::Status(code, StrCat(what, " ", path, ": ", strerrordesc_np(error)));
}

std::string OwnerText(int directory_fd) {
  struct stat info;
  if (fstat(directory_fd, &info) != 0) return "";
  return absl::StrFormat("; this is uid %d gid %d, the directory belongs to uid %d gid %d, mode %04o", geteuid(),
                         getegid(), info.st_uid, info.st_gid, info.st_mode & 07777);
}

absl::StatusOr<ScopedFd> OpenOrMakeDirectory(int parent, const std::string& name, const std::string& path,
                                             mode_t mode) {
  // Ranks that share the directory remove it when they leave it empty: then the next attempt creates it again.
  constexpr int kAttempts = 100;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const int fd = openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0) return ScopedFd(fd);
    int error = errno;
    if (error == ENOENT) {
      if (mkdirat(parent, name.c_str(), mode) == 0 || errno == EEXIST) continue;
      error = errno;
      absl::Status status = ErrnoStatus(error, "cannot make the directory", path);
      if (error == EACCES || error == EPERM) {
        status = Annotated(status, OwnerText(parent));
      }
      return status;
    }
    struct stat link;
    if ((error == ENOTDIR || error == ELOOP) && fstatat(parent, name.c_str(), &link, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISLNK(link.st_mode)) {
      return absl::FailedPreconditionError(
          StrCat(path, " is a symbolic link of uid ", link.st_uid, ": below the log directory none is followed"));
    }
    absl::Status status = ErrnoStatus(error, "cannot open the directory", path);
    if (error == EACCES) status = Annotated(status, OwnerText(parent));
    return status;
  }
  return absl::AbortedError(StrCat("cannot open the directory ", path, ": it keeps disappearing"));
}

absl::StatusOr<ScopedFd> CreateFile(int directory, const std::string& name, const std::string& path) {
  const int fd = openat(directory, name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (fd >= 0) return ScopedFd(fd);
  const int error = errno;
  absl::Status status = ErrnoStatus(error, "cannot create", path);
  if (error == EACCES || error == EPERM) {
    status = Annotated(status, OwnerText(directory));
  }
  return status;
}

absl::Status ReadAll(int fd, std::string* bytes, const std::string& path) {
  size_t done = 0;
  while (done < bytes->size()) {
    const ssize_t got = pread(fd, bytes->data() + done, bytes->size() - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "cannot read", path);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  bytes->resize(done);
  return absl::OkStatus();
}

absl::Status WriteAll(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    // Linux writes at most 2 GiB per call. Smaller pieces detect a full disk earlier.
    const ssize_t written = write(fd, bytes.data(), std::min<size_t>(bytes.size(), 8 << 20));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const int error = written < 0 ? errno : EIO;
      absl::Status status = ErrnoStatus(error, "cannot write", path);
      struct statvfs space;
      if (error == ENOSPC && fstatvfs(fd, &space) == 0) {
        const uint64_t free = static_cast<uint64_t>(space.f_bavail) * space.f_frsize;
        status = Annotated(status, StrCat(" (", free, " bytes free, ", bytes.size(), " more to write)"));
      }
      return status;
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status Sync(int fd, const std::string& path) {
  while (fsync(fd) != 0) {
    if (errno == EINTR) continue;
    if (errno == EINVAL || errno == ENOTSUP || errno == EROFS) return absl::OkStatus();
    return ErrnoStatus(errno, "cannot flush to disk", path);
  }
  return absl::OkStatus();
}

absl::Status MoveNoReplace(int from_directory, const std::string& from, int to_directory, const std::string& to,
                           const std::string& path) {
  if (renameat2(from_directory, from.c_str(), to_directory, to.c_str(), RENAME_NOREPLACE) == 0) return absl::OkStatus();
  // If a directory with files has the name, the error may be ENOTEMPTY.
  if (errno == EEXIST || errno == ENOTEMPTY) return absl::AlreadyExistsError(StrCat(path, " exists already"));
  if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) return ErrnoStatus(errno, "cannot publish", path);
  if (linkat(from_directory, from.c_str(), to_directory, to.c_str(), 0) == 0) {
    unlinkat(from_directory, from.c_str(), 0);
    return absl::OkStatus();
  }
  if (errno == EEXIST) return absl::AlreadyExistsError(StrCat(path, " exists already"));
  if (errno != EPERM && errno != ENOTSUP && errno != EOPNOTSUPP && errno != EXDEV && errno != EINVAL) {
    return ErrnoStatus(errno, "cannot publish", path);
  }
  // Neither call works (FAT; directories without RENAME_NOREPLACE): check, then rename. This is not atomic, but rename
  // itself does not replace a directory that is not empty.
  if (faccessat(to_directory, to.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
    return absl::AlreadyExistsError(StrCat(path, " exists already"));
  }
  if (renameat(from_directory, from.c_str(), to_directory, to.c_str()) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, "cannot publish", path);
}

void ForEachEntry(int directory, const std::function<void(const char* name)>& visit) {
  ScopedFd fd(openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const ScopedDirectory listing(fd.valid() ? fdopendir(fd.get()) : nullptr);
  if (listing == nullptr) return;
  (void)fd.Release();  // the listing closes it
  while (const dirent* entry = readdir(listing.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") visit(entry->d_name);
  }
}

void RemoveFlatDirectory(int parent, const std::string& name) {
  const ScopedFd directory(openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (directory.get() < 0) return;
  ForEachEntry(directory.get(), [&](const char* file) { unlinkat(directory.get(), file, 0); });
  unlinkat(parent, name.c_str(), AT_REMOVEDIR);
}

void RemoveTree(int parent, const std::string& name) {
  const ScopedFd directory(openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (directory.get() < 0) return;
  ForEachEntry(directory.get(), [&](const char* entry) {
    if (unlinkat(directory.get(), entry, 0) != 0) RemoveTree(directory.get(), entry);
  });
  unlinkat(parent, name.c_str(), AT_REMOVEDIR);
}

std::string RandomHex(int digits) {
  uint64_t value = 0;
  if (getrandom(&value, sizeof(value), 0) != sizeof(value)) {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    value = static_cast<uint64_t>(now.tv_nsec) * 0x9E3779B97F4A7C15 ^ static_cast<uint64_t>(getpid()) << 32;
  }
  return absl::StrFormat("%016x", value).substr(0, static_cast<size_t>(digits));
}

absl::Status FileSink::Append(std::string_view bytes) {
  // A profile of a thousand short processes arrives in as many pieces of 30 bytes.
  constexpr size_t kSmall = 64 << 10;
  if (bytes_ <= most_bytes_ && pending_.size() + bytes.size() <= kSmall) {
    pending_ += bytes;
    bytes_ += bytes.size();
    return absl::OkStatus();
  }
  if (absl::Status status = Flush(); !status.ok()) return status;
  while (!bytes.empty() && bytes_ <= most_bytes_) {
    constexpr size_t kPiece = 4 << 20;
    const std::string_view piece = bytes.substr(0, kPiece);
    if (absl::Status status = Write(piece); !status.ok()) return status;
    bytes_ += piece.size();
    bytes.remove_prefix(piece.size());
  }
  bytes_ += bytes.size();
  return absl::OkStatus();
}

absl::Status FileSink::Flush() {
  const absl::Status status = Write(pending_);
  pending_.clear();
  return status;
}

absl::Status FileSink::Write(std::string_view bytes) {
  if (bytes.empty()) return absl::OkStatus();
  if (absl::Status status = WriteAll(fd_, bytes, path_); !status.ok()) return status;
  // Starts the transfer to the disk while the rest is made and checked. Sync returns its errors.
  sync_file_range(fd_, static_cast<off64_t>(written_), static_cast<off64_t>(bytes.size()), SYNC_FILE_RANGE_WRITE);
  written_ += bytes.size();
  return absl::OkStatus();
}

}  // namespace tbprof
