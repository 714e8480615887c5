// SPDX-License-Identifier: Apache-2.0
#include "launcher/session/spool_home.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "launcher/base/proc_files.h"
#include "launcher/session/spools.h"
#include "writer/base/file_ops.h"
#include "writer/base/text.h"
#include "writer/base/trusted_path.h"
#include "writer/logdir/logdir.h"

namespace tbprof {
namespace {

constexpr uint64_t kMaxPartBytes = 16u << 20;
constexpr uint64_t kMinPartBytes = 256u << 10;
// The limit of a spool in memory without --spool-limit.
constexpr uint64_t kMemorySpoolLimit = 256u << 20;
// The limit of a run that is split into several profiles when it gets long: they need no more.
constexpr uint64_t kSplitSpoolLimit = uint64_t{2} << 30;

}  // namespace

void MadeDirectory::Remove() const { unlinkat(parent.get(), name.c_str(), AT_REMOVEDIR); }

// Opens the directory at `path`; if other users can write to it, a hidden directory in it that they cannot write to, so
// that they cannot replace the spool.
absl::StatusOr<SpoolDirectory> SpoolHome::OpenNamedDirectory(const std::string& path) {
  DirectoryWalk walk;
  walk.make = true;
  absl::StatusOr<ScopedFd> named = OpenDirectoryTrusted(path, walk);
  if (!named.ok()) {
    return absl::Status(named.status().code(), absl::StrCat("the spool directory: ", named.status().message()));
  }
  SpoolDirectory chosen;
  chosen.path = path;
  struct stat facts;
  if (fstat(named->get(), &facts) != 0 || !OthersCanWrite(facts, /*sticky_is_safe=*/true)) {
    chosen.fd = std::move(*named);
    return chosen;
  }
  absl::StatusOr<ScopedFd> hidden = OpenHiddenDirectory(named->get(), path, &chosen.made.name);
  if (!hidden.ok()) return hidden.status();
  chosen.path = absl::StrCat(path, "/", chosen.made.name);
  chosen.fd = std::move(*hidden);
  chosen.made.parent = std::move(*named);
  return chosen;
}

absl::StatusOr<SpoolDirectory> OpenLogdirsDirectory(const std::string& path, int logdir_fd) {
  SpoolDirectory chosen;
  if (logdir_fd >= 0) {
    chosen.made.parent.Reset(fcntl(logdir_fd, F_DUPFD_CLOEXEC, 0));
  } else {
    absl::StatusOr<LogDirectory> logdir = LogDirectory::Open(path);
    if (!logdir.ok()) return logdir.status();
    chosen.made.parent = std::move(logdir->fd);
  }
  absl::StatusOr<ScopedFd> hidden = OpenHiddenDirectory(chosen.made.parent.get(), path, &chosen.made.name);
  if (!hidden.ok()) return hidden.status();
  chosen.path = absl::StrCat(path, "/", chosen.made.name);
  chosen.fd = std::move(*hidden);
  return chosen;
}

absl::StatusOr<SpoolDirectory> SpoolHome::OpenSpoolDirectory(const SessionConfig& config) {
  link_directory_.Reset();
  made_directories_.clear();
  if (!config.spool_dir.empty()) return OpenNamedDirectory(config.spool_dir);
  absl::StatusOr<SpoolDirectory> in_logdir = OpenLogdirsDirectory(config.logdir, config.logdir_fd);
  if (!in_logdir.ok()) return in_logdir.status();
  const Storage storage = StorageOf(in_logdir->fd.get());
  if (storage == Storage::kDisk) return in_logdir;
  in_logdir->in_memory = storage == Storage::kMemory;
  for (const std::string& base : LocalDirectories()) {
    const absl::StatusOr<ScopedFd> parent = OpenDirectoryTrusted(base);
    if (!parent.ok()) continue;
    std::string name;
    absl::StatusOr<ScopedFd> other =
        OpenPrivateDirectory(parent->get(), absl::StrCat("tbprof-spool-", geteuid()), &name);
    if (!other.ok() || StorageOf(other->get()) != Storage::kDisk) continue;
    link_directory_ = std::move(in_logdir->fd);
    made_directories_.push_back(std::move(in_logdir->made));
    SpoolDirectory chosen;
    chosen.path = absl::StrCat(base, "/", name);
    chosen.fd = std::move(*other);
    return chosen;
  }
  return in_logdir;
}

absl::StatusOr<ScopedFd> SpoolHome::Make(const SessionConfig& config, uint64_t nonce) {
  const std::string name = absl::StrFormat("%s-%d-%04x.spool", config.run, getpid(), nonce & 0xffff);
  SpoolDirectory directory;
  ScopedFd fd;
  int error = 0;
  // Another tbprof may remove the hidden directory, as its last user, between open and openat.
  for (int attempt = 0; attempt < 100 && !fd.valid(); ++attempt) {
    absl::StatusOr<SpoolDirectory> opened = OpenSpoolDirectory(config);
    if (!opened.ok()) return opened.status();
    directory = std::move(*opened);
    path_ = absl::StrCat(directory.path, "/", name);
    fd.Reset(openat(directory.fd.get(), name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    error = errno;
    if (error != ENOENT) break;
  }
  if (!fd.valid()) return absl::ErrnoToStatus(error, absl::StrCat("cannot make the spool ", path_));
  // The lock is held while the launcher lives: `recover` takes an unlocked spool as abandoned.
  flock(fd.get(), LOCK_EX | LOCK_NB);
  const SpoolHeader header = MakeSpoolHeader(nonce);
  if (const ssize_t size = write(fd.get(), &header, sizeof(header)); size != static_cast<ssize_t>(sizeof(header))) {
    error = size < 0 ? errno : ENOSPC;
    unlinkat(directory.fd.get(), name.c_str(), 0);
    return absl::ErrnoToStatus(error, absl::StrCat("cannot write the spool ", path_));
  }
  name_ = name;
  directory_ = std::move(directory.fd);
  in_memory_ = directory.in_memory;
  if (directory.made.parent.valid()) made_directories_.push_back(std::move(directory.made));
  if (link_directory_.valid() && symlinkat(path_.c_str(), link_directory_.get(), name.c_str()) != 0) {
    link_directory_.Reset();
  }
  link_ = LinkText(absl::StrCat("/proc/self/fd/", fd.get()));
  limit_ = config.spool_limit;
  struct statvfs space;
  if (limit_ == 0 && fstatvfs(fd.get(), &space) == 0) {
    limit_ = static_cast<uint64_t>(space.f_bavail) * space.f_frsize / 2;
    if (config.split_ns != 0) limit_ = std::min(limit_, kSplitSpoolLimit);
    if (directory.in_memory) limit_ = std::min(limit_, kMemorySpoolLimit);
  }
  return fd;
}

SpoolPlan SpoolHome::Plan(const SessionConfig& config) const {
  SpoolPlan plan;
  plan.path = path_;
  plan.limit = limit_;
  plan.reserve = limit_ / 4;
  if (limit_ != 0) plan.part_bytes = std::clamp(limit_ / 16, kMinPartBytes, kMaxPartBytes);
  plan.parts_at_once = !config.everything;
  if (config.split_ns != 0) plan.split_bytes = limit_ / 8 * 5;
  return plan;
}

ScopedFd SpoolHome::OpenDirectory() const { return ScopedFd(fcntl(directory_.get(), F_DUPFD_CLOEXEC, 0)); }

const std::string& SpoolHome::Find(int file) {
  const std::string place = absl::StrCat("/proc/", getpid(), "/fd/", file);
  const std::string now = LinkText(place);
  if (now.empty() || now == link_) return path_;
  link_ = now;
  // A removed spool can be read through /proc while the launcher lives.
  path_ = now.ends_with(kDeleted) ? place : now;
  return path_;
}

void SpoolHome::Remove(int file) {
  Find(file);
  RemoveSpoolFiles(directory() < 0 ? path_ : absl::StrCat("/proc/self/fd/", directory(), "/", name_));
  if (link_directory_.valid()) unlinkat(link_directory_.get(), name_.c_str(), 0);
  for (const MadeDirectory& made : made_directories_) made.Remove();
}

}  // namespace tbprof
