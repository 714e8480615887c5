// SPDX-License-Identifier: Apache-2.0
#include "writer/logdir/logdir.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/ascii.h"
#include "writer/base/file_ops.h"
#include "writer/base/text.h"
#include "writer/base/trusted_path.h"
#include "writer/base/utf8.h"
#include "writer/logdir/event_file.h"

namespace tbprof {
namespace {

bool HasScheme(std::string_view text) {
  const size_t colon = text.find("://");
  if (colon == std::string_view::npos || colon == 0) return false;
  for (char c : text.substr(0, colon)) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '+' && c != '-' && c != '.') return false;
  }
  return true;
}

std::vector<std::string_view> Components(std::string_view path) {
  std::vector<std::string_view> parts;
  while (!path.empty()) {
    const size_t end = std::min(path.find('/'), path.size());
    if (end > 0) parts.push_back(path.substr(0, end));
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return parts;
}

template <typename T>
std::string LittleEndian(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

// One TFRecord with an Event; field numbers: wall_time = 1, file_version = 3.
std::string EmptyEventsFile(double wall_time) {
  constexpr std::string_view kVersion = "brain.Event:2";
  const std::string event =
      StrCat("\x09", LittleEndian(wall_time), "\x1a", std::string(1, static_cast<char>(kVersion.size())), kVersion);
  const std::string length = LittleEndian(static_cast<uint64_t>(event.size()));
  return StrCat(length, LittleEndian(MaskedCrc32c(length)), event, LittleEndian(MaskedCrc32c(event)));
}

bool HoldsFileEndingIn(int directory_fd, std::string_view suffix) {
  bool found = false;
  ForEachEntry(directory_fd, [&](std::string_view name) { found = found || name.ends_with(suffix); });
  return found;
}

// Whether this file system allocates a file's space when it is written: waiting for the disk then reveals nothing more.
bool ReportsAtOnce(int fd) {
  struct statfs facts;
  if (fstatfs(fd, &facts) != 0) return false;
  constexpr uint32_t kDisks[] = {EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC, TMPFS_MAGIC,
                                 OVERLAYFS_SUPER_MAGIC};
  return std::find(std::begin(kDisks), std::end(kDisks), static_cast<uint32_t>(facts.f_type)) != std::end(kDisks);
}

// Writes a file, completely or not at all. An existing file is not changed.
absl::Status WriteSmallFile(int directory, const std::string& name, std::string_view bytes, const std::string& path) {
  absl::StatusOr<ScopedFd> fd = CreateFile(directory, name, path);
  if (!fd.ok()) return fd.status();
  absl::Status status = WriteAll(fd->get(), bytes, path);
  if (ReportsAtOnce(fd->get())) {
    // The command waits for this write. The transfer to the disk starts now and ends at the latest with the first
    // profile.
    sync_file_range(fd->get(), 0, 0, SYNC_FILE_RANGE_WRITE);
  } else if (status.ok()) {
    status = Sync(fd->get(), path);
  }
  if (!status.ok()) unlinkat(directory, name.c_str(), 0);
  return status;
}

// Plugins up to 2.20 look for profiles only next to an events file.
void WriteEmptyEventsFile(int logdir_fd, const std::string& logdir, const std::string& host) {
  constexpr std::string_view kSuffix = ".profile-empty";
  if (HoldsFileEndingIn(logdir_fd, kSuffix)) return;
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  // A spool may contain any host name: it must not be a path or the name of an existing directory.
  const std::string name = StrCat("events.out.tfevents.", now.tv_sec, ".", HostNameFrom(host), kSuffix);
  const double wall_time = static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
  // Current plugins do not need this file, so an error is ignored.
  WriteSmallFile(logdir_fd, name, EmptyEventsFile(wall_time), StrCat(logdir, "/", name)).IgnoreError();
}

constexpr std::string_view kProbePrefix = ".tbprof-probe-";
constexpr time_t kAbandonedAfterSeconds = 60;

// Removes the probe files of a tbprof that was killed during a probe. The age protects the files of a running one.
void SweepProbes(int directory_fd) {
  ForEachEntry(directory_fd, [&](const char* name) {
    struct stat info;
    if (!std::string_view(name).starts_with(kProbePrefix) ||
        fstatat(directory_fd, name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode) ||
        info.st_uid != geteuid() || info.st_mtime + kAbandonedAfterSeconds > time(nullptr)) {
      return;
    }
    unlinkat(directory_fd, name, 0);
  });
}

// The uid of new files in a directory: a server may map root to nobody. -1: the caller cannot write there.
uid_t OwnerOfNewFiles(int directory) {
  const std::string name = StrCat(kProbePrefix, getpid(), "-", RandomHex(8));
  const absl::StatusOr<ScopedFd> file = CreateFile(directory, name, name);
  struct stat facts;
  const bool known = file.ok() && fstat(file->get(), &facts) == 0;
  if (file.ok()) unlinkat(directory, name.c_str(), 0);
  return known ? facts.st_uid : static_cast<uid_t>(-1);
}

// Checks that a directory that the user has not named was made by the caller, root or the owner of the directory above.
absl::Status CheckOwner(int directory, const struct stat& above, const std::string& path) {
  struct stat facts;
  if (fstat(directory, &facts) != 0) return ErrnoStatus(errno, "cannot open the directory", path);
  if (IsTrustedOwner(facts.st_uid) || facts.st_uid == above.st_uid || facts.st_uid == OwnerOfNewFiles(directory)) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(
      StrCat(path, " belongs to uid ", facts.st_uid, ": it is used only where it is named"));
}

// Tries the operations of publishing, so that a failure shows before the program runs for hours: creates a file where
// profiles are staged, and moves it to where they are published.
absl::Status Probe(int logdir_fd, const std::string& logdir, int profile_fd, const std::string& profile_path) {
  // A link or a file with this name is refused now, and not replaced by another name: it existed before tbprof.
  struct stat found;
  const std::string hidden_path = StrCat(logdir, "/", kHiddenDirectory);
  if (fstatat(logdir_fd, kHiddenDirectory, &found, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(found.st_mode)) {
    return OpenOrMakeDirectory(logdir_fd, kHiddenDirectory, hidden_path).status();
  }
  const std::string name = StrCat(kProbePrefix, getpid(), "-", RandomHex(8));
  std::string hidden;
  absl::Status status;
  for (int attempt = 0; attempt < 100; ++attempt) {
    absl::StatusOr<ScopedFd> staging = OpenHiddenDirectory(logdir_fd, logdir, &hidden);
    if (!staging.ok()) return staging.status();
    SweepProbes(staging->get());
    status = WriteSmallFile(staging->get(), name, "tbprof\n", StrCat(logdir, "/", hidden, "/", name));
    // Another tbprof removes the directory if it was the last to use it.
    if (absl::IsNotFound(status)) continue;
    if (!status.ok()) break;
    const std::string path = StrCat(profile_path, "/", name);
    status = MoveNoReplace(staging->get(), name, profile_fd, name, path);
    if (!status.ok()) {
      if (absl::IsPermissionDenied(status)) status = Annotated(status, OwnerText(profile_fd));
      unlinkat(staging->get(), name.c_str(), 0);
    } else if (unlinkat(profile_fd, name.c_str(), 0) != 0) {
      status = ErrnoStatus(errno, "cannot remove", path);
    }
    break;
  }
  SweepProbes(profile_fd);
  unlinkat(logdir_fd, hidden.c_str(), AT_REMOVEDIR);
  return status;
}

}  // namespace

absl::StatusOr<std::string> NormaliseLogdir(const std::string& logdir, const std::string& working_directory) {
  if (logdir.empty()) return absl::InvalidArgumentError("the log directory is empty");
  if (logdir.find('\0') != std::string::npos) return absl::InvalidArgumentError("the log directory holds a NUL byte");
  if (HasScheme(logdir)) {
    return absl::InvalidArgumentError(
        StrCat("the log directory ", PrintableUtf8(logdir),
               " is no local path; write to a local directory and copy it there afterwards, or mount the bucket "
               "and give the mount point"));
  }
  if (logdir[0] != '/' && working_directory.empty()) {
    return absl::FailedPreconditionError(
        StrCat("the working directory was deleted, so ", PrintableUtf8(logdir), " has no place; name a whole path"));
  }
  const std::string absolute = logdir[0] == '/' ? logdir : StrCat(working_directory, "/", logdir);
  std::string out;
  for (std::string_view part : Components(absolute)) {
    if (part == ".") continue;
    if (part != "..") {
      StrAppend(&out, "/", part);
      continue;
    }
    // The parent of a linked directory is the parent of its target.
    struct stat info;
    char resolved[PATH_MAX];
    if (lstat(out.c_str(), &info) == 0 && S_ISLNK(info.st_mode) && realpath(out.c_str(), resolved) != nullptr) {
      out = resolved;
    }
    out.resize(out.empty() ? 0 : out.rfind('/'));
  }
  if (out.ends_with("/plugins/profile")) out.resize(out.size() - std::strlen("/plugins/profile"));
  if (out.ends_with("/plugins")) out.resize(out.size() - std::strlen("/plugins"));
  return out.empty() ? "/" : out;
}

absl::Status PrepareLogdir(const std::string& logdir, const std::string& host, const std::string& no_links_below) {
  DirectoryWalk walk;
  walk.make = true;
  walk.no_links_below = no_links_below;
  bool made = false;
  walk.made = &made;
  std::string nearest = "/";
  struct stat above {
  }, here{};
  walk.visit = [&](int fd, const std::string& path) {
    nearest = path;
    above = here;
    return fstat(fd, &here) == 0 ? absl::OkStatus() : ErrnoStatus(errno, "cannot open the directory", path);
  };
  absl::StatusOr<ScopedFd> directory = OpenDirectoryTrusted(logdir, walk);
  if (!directory.ok()) {
    return nearest == logdir.substr(0, std::max<size_t>(logdir.rfind('/'), 1))
               ? directory.status()
               : Annotated(directory.status(), StrCat(" (for ", logdir, "; ", nearest, " exists)"));
  }
  if (!made && !no_links_below.empty()) {
    if (const absl::Status status = CheckOwner(directory->get(), above, logdir); !status.ok()) return status;
  }
  return PrepareLogdir(*std::move(directory), logdir, host, made);
}

absl::Status PrepareLogdir(ScopedFd logdir, const std::string& path, const std::string& host, bool made) {
  absl::StatusOr<ScopedFd> plugins = OpenOrMakeDirectory(logdir.get(), "plugins", StrCat(path, "/plugins"));
  if (!plugins.ok()) return plugins.status();
  const std::string profile_path = StrCat(path, "/plugins/profile");
  absl::StatusOr<ScopedFd> profile = OpenOrMakeDirectory(plugins->get(), "profile", profile_path);
  if (!profile.ok()) return profile.status();
  if (absl::Status status = Probe(logdir.get(), path, profile->get(), profile_path); !status.ok()) return status;
  if (made) WriteSmallFile(logdir.get(), ".gitignore", "*\n", StrCat(path, "/.gitignore")).IgnoreError();
  WriteEmptyEventsFile(logdir.get(), path, host);
  return absl::OkStatus();
}

absl::StatusOr<LogDirectory> LogDirectory::Open(const std::string& path, const std::string& no_links_below) {
  DirectoryWalk walk;
  walk.no_links_below = no_links_below;
  absl::StatusOr<ScopedFd> fd = OpenDirectoryTrusted(path, walk);
  if (!fd.ok()) return fd.status();
  std::string place = PathOfDirectory(fd->get());
  return LogDirectory{*std::move(fd), path, std::move(place)};
}

bool IsHiddenDirectory(std::string_view name) { return name == kHiddenDirectory || name.starts_with(".tbprof-"); }

absl::StatusOr<ScopedFd> OpenHiddenDirectory(int logdir, const std::string& path, std::string* name, bool fresh) {
  absl::Status first;
  constexpr int kAttempts = 10;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    *name = attempt == 0 && !fresh ? kHiddenDirectory : StrCat(kHiddenDirectory, "-", RandomHex(6));
    absl::StatusOr<ScopedFd> hidden = OpenOrMakeDirectory(logdir, *name, StrCat(path, "/", *name), 0755);
    absl::Status status = hidden.status();
    struct stat facts;
    if (hidden.ok() && fstat(hidden->get(), &facts) == 0) {
      if ((facts.st_mode & (S_IWGRP | S_IWOTH)) == 0 &&
          (facts.st_uid == geteuid() || facts.st_uid == OwnerOfNewFiles(hidden->get()))) {
        return hidden;
      }
      status = absl::PermissionDeniedError(StrCat(path, "/", *name, ": other users can write to it"));
    }
    if (attempt == 0) first = status;
  }
  return first;
}

std::string RunNameFor(time_t when) {
  tm local;
  localtime_r(&when, &local);
  char text[32];
  strftime(text, sizeof(text), "%Y_%m_%d_%H_%M_%S", &local);
  return text;
}

std::string HostName() {
  char raw[256] = {};
  gethostname(raw, sizeof(raw) - 1);
  return HostNameFrom(raw);
}

std::string HostNameFrom(std::string_view text) {
  std::string name = PrintableUtf8(text);
  for (char& c : name) {
    if (std::strchr("/,:\\ \"'<>&?#%*", c) != nullptr) c = '_';
  }
  if (!name.empty() && name[0] == '.') name[0] = '_';
  if (name.empty()) name = "localhost";
  if (name == "ALL_HOSTS" || name == "NO_HOST" || name == "NO_MODULE") name += '_';
  return std::string(TruncateUtf8(name, 128));
}

}  // namespace tbprof
