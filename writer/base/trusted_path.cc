// SPDX-License-Identifier: Apache-2.0
#include "writer/base/trusted_path.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "absl/strings/str_format.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

constexpr int kPathFlags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
constexpr int kMaxLinks = 40;  // the kernel's limit
constexpr int kAttempts = 100;
constexpr absl::StatusCode kUntrusted = absl::StatusCode::kUnauthenticated;  // no errno maps to it

// Pushes the components of a path, the last one first.
void PushComponents(std::string_view path, std::vector<std::string>* stack) {
  const size_t base = stack->size();
  while (!path.empty()) {
    const size_t end = std::min(path.find('/'), path.size());
    if (end > 0 && path.substr(0, end) != ".") stack->emplace_back(path.substr(0, end));
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  std::reverse(stack->begin() + static_cast<ptrdiff_t>(base), stack->end());
}

// The uid that stands for all users outside this user namespace, including the host's root (Apptainer, rootless
// containers). -1: all users are mapped in this namespace.
uid_t UnmappedOwner() {
  static const uid_t unmapped = [] {
    constexpr uid_t kNone = static_cast<uid_t>(-1);
    unsigned inside = 0, outside = 0, count = 0;
    uid_t overflow = kNone;
    if (FILE* file = fopen("/proc/self/uid_map", "re"); file != nullptr) {
      const bool read = fscanf(file, "%u %u %u", &inside, &outside, &count) == 3;
      fclose(file);
      if (!read || (inside == 0 && count == UINT_MAX)) return kNone;
    }
    if (FILE* file = fopen("/proc/sys/kernel/overflowuid", "re"); file != nullptr) {
      if (fscanf(file, "%u", &overflow) != 1) overflow = kNone;
      fclose(file);
    }
    return overflow;
  }();
  return unmapped;
}

bool IsUnmapped(uid_t uid) { return uid == UnmappedOwner() && uid != static_cast<uid_t>(-1); }

// A link whose owner is unmapped is trusted if the directory has the same owner, as with the kernel's
// fs.protected_symlinks.
bool IsTrustedLink(const struct stat& link, int directory) {
  if (IsTrustedOwner(link.st_uid)) return true;
  struct stat parent;
  return IsUnmapped(link.st_uid) && fstat(directory, &parent) == 0 && parent.st_uid == link.st_uid &&
         (parent.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

absl::Status Untrusted(const std::string& message) { return absl::Status(kUntrusted, message); }

absl::Status NotFollowed(const std::string& path, uid_t owner) {
  return Untrusted(StrCat(PrintableUtf8(path), " is a symbolic link of uid ", owner, ": it is not followed"));
}

// Links of /proc name objects, not paths: their text cannot be followed.
bool IsInProc(int link) {
  struct statfs system;
  return fstatfs(link, &system) == 0 && system.f_type == PROC_SUPER_MAGIC;
}

std::string LinkTarget(int link) {
  char target[PATH_MAX];
  const ssize_t size = readlinkat(link, "", target, sizeof(target));
  return size > 0 ? std::string(target, static_cast<size_t>(size)) : "";
}

ScopedFd OpenRoot() { return ScopedFd(open("/", kPathFlags | O_DIRECTORY)); }

class Walker {
 public:
  explicit Walker(const DirectoryWalk& walk) : walk_(walk) {}

  absl::StatusOr<ScopedFd> Walk(const std::string& path) {
    at_ = OpenRoot();
    if (at_.get() < 0) return ErrnoStatus(errno, "cannot open", "/");
    PushComponents(path, &rest_);
    if (const absl::Status status = Visit(); !status.ok()) return status;
    while (!rest_.empty()) {
      const std::string name = std::move(rest_.back());
      rest_.pop_back();
      if (const absl::Status status = Enter(name); !status.ok()) return status;
    }
    return std::move(at_);
  }

  // Follows the link `name` in the open directory: the walk continues at its target.
  absl::Status FollowLink(int link, const std::string& path) {
    struct stat facts;
    if (fstat(link, &facts) != 0) return ErrnoStatus(errno, "cannot open", path);
    if (!walk_.no_links_below.empty() && path.starts_with(walk_.no_links_below + "/")) {
      return Untrusted(StrCat(PrintableUtf8(path), " is a symbolic link: it is followed only where its path is given"));
    }
    if (!IsTrustedLink(facts, at_.get())) return NotFollowed(path, facts.st_uid);
    if (++links_ > kMaxLinks) return ErrnoStatus(ELOOP, "cannot open", path);
    const std::string target = LinkTarget(link);
    if (target.empty()) return ErrnoStatus(ENOENT, "cannot open", path);
    if (target[0] == '/') {
      at_ = OpenRoot();
      path_.clear();
    }
    PushComponents(target, &rest_);
    return absl::OkStatus();
  }

  const std::string& path() const { return path_; }
  int at() const { return at_.get(); }

 private:
  absl::Status Visit() { return walk_.visit ? walk_.visit(at_.get(), path_.empty() ? "/" : path_) : absl::OkStatus(); }

  absl::Status Enter(const std::string& name) {
    const std::string path = StrCat(path_, "/", name);
    if (walk_.made != nullptr) *walk_.made = false;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      // O_DIRECTORY triggers an automount.
      ScopedFd next(openat(at_.get(), name.c_str(), kPathFlags | O_DIRECTORY));
      if (next.get() >= 0) {
        at_ = std::move(next);
        path_ = path;
        return Visit();
      }
      const int error = errno;
      if (error == ENOENT && walk_.make) {
        if (mkdirat(at_.get(), name.c_str(), 0777) == 0) {
          if (walk_.made != nullptr) *walk_.made = true;
        } else if (const int cause = errno; cause != EEXIST) {
          return Explained(ErrnoStatus(cause, "cannot make the directory", path), cause);
        }
        continue;
      }
      const ScopedFd link(openat(at_.get(), name.c_str(), kPathFlags));
      struct stat facts;
      if (link.get() < 0 || fstat(link.get(), &facts) != 0 || !S_ISLNK(facts.st_mode)) {
        return Explained(ErrnoStatus(error, "cannot open the directory", path), error);
      }
      if (!IsInProc(link.get())) return FollowLink(link.get(), path);
      if (!IsTrustedLink(facts, at_.get())) return NotFollowed(path, facts.st_uid);
      next = ScopedFd(openat(at_.get(), name.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
      if (next.get() < 0) return ErrnoStatus(errno, "cannot open the directory", path);
      at_ = std::move(next);
      path_ = path;
      return Visit();
    }
    return absl::AbortedError(StrCat("cannot open the directory ", path, ": it keeps disappearing"));
  }

  absl::Status Explained(absl::Status status, int error) const {
    if (error == EACCES || error == EPERM) status = Annotated(status, OwnerText(at_.get()));
    return status;
  }

  const DirectoryWalk& walk_;
  ScopedFd at_;
  std::string path_;  // the path of at_, as it was walked; empty: the root
  std::vector<std::string> rest_;
  int links_ = 0;
};

bool IsOfOthers(const struct stat& facts) { return !IsTrustedOwner(facts.st_uid) && !IsUnmapped(facts.st_uid); }

// Whether the directory that denied access (the last one that can be reached) belongs to another user, or whether a
// directory of another user may have been there before.
bool OthersMayHaveDenied(const std::string& path) {
  bool others = false;
  struct stat last {};
  ScopedFd at;
  DirectoryWalk walk;
  walk.visit = [&](int fd, const std::string&) {
    // Users who can write to this level can have replaced everything below it. The owner's group is accepted.
    others = others || (last.st_nlink != 0 && OthersCanWrite(last, /*sticky_is_safe=*/true, S_IWOTH));
    at = ScopedFd(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    // A mount of another user refuses even fstat.
    if (fstat(fd, &last) != 0) others = true;
    return absl::OkStatus();
  };
  const absl::StatusOr<ScopedFd> end = OpenDirectoryTrusted(path, walk);
  if (others || IsOfOthers(last) || (!end.ok() && IsUntrusted(end.status()))) return true;
  const bool usable = at.get() >= 0 && faccessat(at.get(), ".", W_OK | X_OK, AT_EACCESS) == 0;
  return usable && OthersCanWrite(last, /*sticky_is_safe=*/false, S_IWOTH);
}

// ---- files

absl::StatusOr<std::string> AbsolutePath(const std::string& path, std::string_view what) {
  if (path.empty()) return ErrnoStatus(ENOENT, what, path);
  if (path[0] == '/') return path;
  char working_directory[PATH_MAX];
  if (getcwd(working_directory, sizeof(working_directory)) == nullptr) return ErrnoStatus(errno, what, path);
  return StrCat(working_directory, "/", path);
}

// Checks whether another user can have chosen the file that was found in `directory`.
absl::Status CheckFound(int file, int directory, const std::string& path) {
  struct stat facts, parent;
  if (fstat(file, &facts) != 0 || fstat(directory, &parent) != 0) return ErrnoStatus(errno, "cannot write", path);
  if (S_ISDIR(facts.st_mode)) return ErrnoStatus(EISDIR, "cannot write", path);
  if (!OthersCanWrite(parent, /*sticky_is_safe=*/false)) return absl::OkStatus();
  // In a directory of one other user, that user's own files are accepted: the request comes from the directory's owner.
  const bool of_directory = (parent.st_mode & (S_IWGRP | S_IWOTH)) == 0 && facts.st_uid == parent.st_uid;
  const std::string others = " in a directory that others can write to: it is not written";
  if (!IsTrustedOwner(facts.st_uid) && !of_directory) {
    return Untrusted(StrCat(PrintableUtf8(path), " belongs to uid ", facts.st_uid, others));
  }
  if (S_ISREG(facts.st_mode) && facts.st_nlink > 1) {
    return Untrusted(StrCat(PrintableUtf8(path), " is a hard link", others));
  }
  return absl::OkStatus();
}

}  // namespace

bool IsUntrusted(const absl::Status& status) { return status.code() == kUntrusted; }

bool IsTrustedOwner(uid_t uid) { return uid == 0 || uid == geteuid(); }

bool OthersCanWrite(const struct stat& directory, bool sticky_is_safe, mode_t writers) {
  if (!IsTrustedOwner(directory.st_uid) && !IsUnmapped(directory.st_uid)) return true;
  if ((directory.st_mode & writers) == 0) return false;
  return !sticky_is_safe || (directory.st_mode & S_ISVTX) == 0;
}

absl::StatusOr<ScopedFd> OpenDirectoryTrusted(const std::string& path, const DirectoryWalk& walk) {
  return Walker(walk).Walk(path);
}

bool OthersCanChange(const std::string& path) {
  bool change = false;
  struct stat last {};
  DirectoryWalk walk;
  walk.visit = [&](int fd, const std::string&) {
    // Other users can add entries to a sticky directory, but cannot replace the next level, which exists.
    change = change || (last.st_nlink != 0 && OthersCanWrite(last, /*sticky_is_safe=*/true));
    return fstat(fd, &last) == 0 ? absl::OkStatus() : ErrnoStatus(errno, "cannot open", path);
  };
  const absl::StatusOr<ScopedFd> end = OpenDirectoryTrusted(path, walk);
  return change || (!end.ok() && IsUntrusted(end.status())) ||
         (last.st_nlink != 0 && OthersCanWrite(last, /*sticky_is_safe=*/false));
}

bool OthersMayHaveCaused(const absl::Status& status, const std::string& path) {
  if (IsUntrusted(status)) return true;
  if (status.ok() || absl::IsResourceExhausted(status) || absl::IsInvalidArgument(status)) return false;
  return absl::IsPermissionDenied(status) ? OthersMayHaveDenied(path) : OthersCanChange(path);
}

absl::StatusOr<ScopedFd> OpenForReading(const std::string& path) {
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  absl::StatusOr<std::string> wanted = AbsolutePath(path, "cannot read");
  for (int links = 0; wanted.ok() && links <= kMaxLinks; ++links) {
    const size_t slash = wanted->rfind('/');
    const std::string name = wanted->substr(slash + 1);
    const absl::StatusOr<ScopedFd> directory = OpenDirectoryTrusted(wanted->substr(0, slash));
    if (!directory.ok()) return directory.status();
    ScopedFd file(openat(directory->get(), name.c_str(), kFlags | O_NOFOLLOW));
    if (file.get() >= 0) return file;
    const int error = errno;
    const ScopedFd link(openat(directory->get(), name.c_str(), kPathFlags));
    struct stat facts;
    if (link.get() < 0 || fstat(link.get(), &facts) != 0 || !S_ISLNK(facts.st_mode) || IsInProc(link.get())) {
      return ErrnoStatus(error, "cannot read", path);
    }
    if (!IsTrustedLink(facts, directory->get())) return NotFollowed(*wanted, facts.st_uid);
    const std::string target = LinkTarget(link.get());
    *wanted = target.starts_with('/') ? target : StrCat(wanted->substr(0, slash), "/", target);
  }
  return wanted.ok() ? ErrnoStatus(ELOOP, "cannot read", path) : wanted.status();
}

absl::StatusOr<ScopedFd> OpenForWriting(const std::string& path, int flag) {
  absl::StatusOr<std::string> absolute = AbsolutePath(path, "cannot write");
  if (!absolute.ok()) return absolute.status();
  std::string wanted = *std::move(absolute);
  const int flags = O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (flag & O_APPEND);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const size_t slash = wanted.rfind('/');
    const std::string name = wanted.substr(slash + 1);
    if (name.empty() || name == "." || name == "..") return ErrnoStatus(EISDIR, "cannot write", path);
    const absl::StatusOr<ScopedFd> directory = OpenDirectoryTrusted(wanted.substr(0, slash));
    if (!directory.ok()) return directory.status();
    const int at = directory->get();
    ScopedFd file(openat(at, name.c_str(), flags | O_NOFOLLOW));
    if (file.get() < 0 && errno == ENOENT) {
      file = ScopedFd(openat(at, name.c_str(), flags | O_NOFOLLOW | O_CREAT | O_EXCL, 0666));
      if (file.get() >= 0) return file;
      if (errno == EEXIST) continue;
      return ErrnoStatus(errno, "cannot write", path);
    }
    if (file.get() >= 0) {
      if (const absl::Status status = CheckFound(file.get(), at, path); !status.ok()) return status;
      if ((flag & O_TRUNC) != 0) (void)!ftruncate(file.get(), 0);  // no effect on a FIFO or a device
      return file;
    }
    const int error = errno;
    const ScopedFd link(openat(at, name.c_str(), kPathFlags));
    struct stat facts;
    if (link.get() < 0 || fstat(link.get(), &facts) != 0 || !S_ISLNK(facts.st_mode)) {
      if (error != ENXIO) return ErrnoStatus(error, "cannot write", path);
      return absl::UnavailableError(StrCat("cannot write ", PrintableUtf8(path), ": no process reads this FIFO"));
    }
    if (!IsTrustedLink(facts, at)) return NotFollowed(wanted, facts.st_uid);
    if (IsInProc(link.get())) {
      // The link leads to an open file of this process, whatever the file's name is: what is in it already stays.
      file = ScopedFd(openat(at, name.c_str(), flags | O_APPEND));
      if (file.get() < 0) return ErrnoStatus(errno, "cannot write", path);
      return file;
    }
    const std::string target = LinkTarget(link.get());
    wanted = target.starts_with('/') ? target : StrCat(wanted.substr(0, slash), "/", target);
    if (attempt > kMaxLinks) break;
  }
  return ErrnoStatus(ELOOP, "cannot write", path);
}

absl::StatusOr<ScopedFd> OpenPrivateDirectory(int parent, const std::string& name, std::string* used) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    *used = attempt == 0 ? name : StrCat(name, "-", RandomHex(6));
    if (mkdirat(parent, used->c_str(), 0700) != 0 && errno != EEXIST) {
      return ErrnoStatus(errno, "cannot make the directory", *used);
    }
    ScopedFd directory(openat(parent, used->c_str(), kPathFlags | O_DIRECTORY));
    struct stat facts;
    if (directory.get() >= 0 && fstat(directory.get(), &facts) == 0 && facts.st_uid == geteuid() &&
        (facts.st_mode & (S_IWGRP | S_IWOTH)) == 0) {
      return directory;
    }
  }
  return absl::PermissionDeniedError(StrCat("cannot make a private directory ", name));
}

absl::StatusOr<ScopedFd> OpenBeneath(int directory, const std::string& path, int flags) {
  std::vector<std::string> rest;
  PushComponents(path, &rest);
  ScopedFd at;
  while (!rest.empty()) {
    const std::string name = std::move(rest.back());
    rest.pop_back();
    if (name == "..") return absl::InvalidArgumentError(StrCat(path, " leads upwards"));
    const int from = at.get() >= 0 ? at.get() : directory;
    ScopedFd next(openat(from, name.c_str(), rest.empty() ? flags | O_NOFOLLOW | O_CLOEXEC : kPathFlags | O_DIRECTORY));
    if (next.get() < 0) return ErrnoStatus(errno, "cannot open", path);
    at = std::move(next);
  }
  return at;
}

std::string PathOfDirectory(int directory) {
  char path[PATH_MAX];
  const ssize_t size = readlink(StrCat("/proc/self/fd/", directory).c_str(), path, sizeof(path));
  std::string text(path, size > 0 ? static_cast<size_t>(size) : 0);
  return text.starts_with('/') && !text.ends_with(kDeleted) ? text : "";
}

bool IsRemoved(int directory) {
  struct stat facts;
  if (fstat(directory, &facts) != 0 || facts.st_nlink == 0) return true;
  // Some file systems keep the link count of a removed directory. A directory's own name may also end with kDeleted.
  struct stat same;
  char path[PATH_MAX];
  const ssize_t size = readlink(StrCat("/proc/self/fd/", directory).c_str(), path, sizeof(path));
  const std::string text(path, size > 0 ? static_cast<size_t>(size) : 0);
  return text.ends_with(kDeleted) &&
         (stat(text.c_str(), &same) != 0 || same.st_ino != facts.st_ino || same.st_dev != facts.st_dev);
}

}  // namespace tbprof
