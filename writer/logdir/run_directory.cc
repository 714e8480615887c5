// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <functional>

#include "writer/base/file_ops.h"
#include "writer/base/text.h"
#include "writer/base/trusted_path.h"
#include "writer/base/utf8.h"
#include "writer/logdir/logdir.h"

namespace tbprof {
namespace {

constexpr int kMaxRunSuffix = 1000;
constexpr time_t kAbandonedAfterSeconds = 60;

absl::Status CheckRunName(const std::string& run) {
  const std::string printable = PrintableUtf8(run);
  if (run.empty() || run.size() > 128 || run[0] == '.' || run.find('/') != std::string::npos || printable != run) {
    return absl::InvalidArgumentError(StrCat("`", TruncateUtf8(printable, 140),
                                             "` cannot be the name of a run: 1 to 128 printable bytes, no `/`, "
                                             "no `.` in front"));
  }
  return absl::OkStatus();
}

std::string FileName(std::string_view pattern, const std::string& host) {
  std::string name(pattern);
  for (size_t at = 0; (at = name.find("%h", at)) != std::string::npos; at += host.size()) name.replace(at, 2, host);
  return name;
}

bool Exists(int directory, const std::string& name) {
  return faccessat(directory, name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

// For a run that several processes share: a link or a file of this name cannot hold profiles.
bool IsDirectoryOrFree(int directory, const std::string& name) {
  struct stat facts;
  return fstatat(directory, name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0 ? errno == ENOENT : S_ISDIR(facts.st_mode);
}

// Removes staging directories whose owner has ended: their lock is free. The age protects directories that are being
// created.
void SweepAbandoned(int staging_parent) {
  ForEachEntry(staging_parent, [&](const char* name) {
    if (name[0] == '.') return;
    ScopedFd abandoned(openat(staging_parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat info;
    if (abandoned.get() < 0 || fstat(abandoned.get(), &info) != 0 || info.st_uid != geteuid()) return;
    if (info.st_mtime + kAbandonedAfterSeconds > time(nullptr)) return;
    if (flock(abandoned.get(), LOCK_EX | LOCK_NB) != 0) return;
    RemoveFlatDirectory(staging_parent, name);
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunDirectory>> RunDirectory::Create(int logdir, const std::string& path,
                                                                   const std::string& run, bool exclusive,
                                                                   const std::string& host, int rank,
                                                                   const std::vector<int>& further_ranks,
                                                                   RankNames names) {
  if (absl::Status status = CheckRunName(run); !status.ok()) return status;
  std::unique_ptr<RunDirectory> directory(new RunDirectory);
  directory->logdir_ = path;
  directory->exclusive_ = exclusive;
  directory->host_ = HostNameFrom(host);
  directory->rank_ = rank;
  directory->further_ranks_ = further_ranks;
  directory->names_ = names;

  directory->logdir_fd_ = ScopedFd(openat(logdir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory->logdir_fd_.get() < 0) return ErrnoStatus(errno, "cannot open the directory", path);
  absl::StatusOr<ScopedFd> plugins =
      OpenOrMakeDirectory(directory->logdir_fd_.get(), "plugins", StrCat(path, "/plugins"));
  if (!plugins.ok()) return plugins.status();
  absl::StatusOr<ScopedFd> profile = OpenOrMakeDirectory(plugins->get(), "profile", StrCat(path, "/plugins/profile"));
  if (!profile.ok()) return profile.status();
  directory->profile_fd_ = *std::move(profile);

  // Another tbprof that cleans up can remove the parent during Reserve.
  absl::Status status;
  for (int attempt = 0; attempt < 100; ++attempt) {
    status = directory->OpenStaging();
    if (!status.ok()) return status;
    SweepAbandoned(directory->staging_parent_fd_.get());
    status = directory->Reserve(run);
    if (!absl::IsNotFound(status)) break;
  }
  if (!status.ok()) return status;
  return directory;
}

// Another tbprof may remove the empty levels between two calls.
absl::Status RunDirectory::OpenStaging() {
  absl::Status status;
  bool fresh = false;
  for (int attempt = 0; attempt < 100; ++attempt) {
    absl::StatusOr<ScopedFd> hidden = OpenHiddenDirectory(logdir_fd_.get(), logdir_, &hidden_name_, fresh);
    if (!hidden.ok()) return hidden.status();
    hidden_fd_ = *std::move(hidden);
    const std::string path = StrCat(logdir_, "/", hidden_name_, "/staging");
    absl::StatusOr<ScopedFd> parent = OpenOrMakeDirectory(hidden_fd_.get(), "staging", path, 0755);
    status = parent.status();
    if (parent.ok()) {
      staging_parent_fd_ = *std::move(parent);
      return absl::OkStatus();
    }
    if (absl::IsNotFound(status) || absl::IsAborted(status)) continue;
    if (fresh) break;
    fresh = true;  // a repository may contain a link or a file with this name
  }
  return status;
}

// The name of the staging directory is the reservation. It is created exclusively, and only then checked against the
// names that were published before.
bool RunDirectory::Taken() const {
  if (exclusive_) return Exists(profile_fd_.get(), run_);
  const ScopedFd shared(openat(profile_fd_.get(), run_.c_str(), O_PATH | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC));
  if (shared.get() < 0) return false;
  const auto exists = [&](int rank) { return Exists(shared.get(), StrCat(HostOf(rank), ".xplane.pb")); };
  return exists(rank_) || std::any_of(further_ranks_.begin(), further_ranks_.end(), exists);
}

std::string RunDirectory::HostOf(int rank) const {
  if (names_ == RankNames::kHosts) {
    const std::string ending = StrCat("_r", rank);
    // `tbprof capture` has already named a launcher's file after its rank.
    return rank < 0 || host_.ends_with(ending) ? host_ : StrCat(host_, ending);
  }
  return rank == rank_ ? host_ : StrCat(host_, ".r", rank);
}

std::string RunDirectory::NameForClient(std::string_view file_name, std::string_view stem) {
  if (file_name.starts_with(StrCat(stem, "."))) file_name.remove_prefix(stem.size() + 1);
  return std::string(file_name);
}

absl::Status RunDirectory::Reserve(const std::string& named) {
  const std::string wanted_host = host_;
  std::string run = named;
  for (int i = 2; !exclusive_ && !IsDirectoryOrFree(profile_fd_.get(), run) && i <= kMaxRunSuffix; ++i) {
    run = StrCat(named, "_", i);
  }
  for (int attempt = 1; attempt <= kMaxRunSuffix; ++attempt) {
    if (exclusive_) {
      run_ = attempt == 1 ? run : StrCat(run, "_", attempt);
      staging_name_ = run_;
    } else {
      run_ = run;
      host_ = attempt == 1 ? wanted_host : StrCat(wanted_host, "_", getpid(), "-", RandomHex(4));
      // With several ranks, the ranks of two launchers may overlap.
      staging_name_ = StrCat(run_, "@", further_ranks_.empty() ? HostOf(rank_) : host_);
      if (staging_name_.size() > 200) {
        staging_name_ = StrCat(TruncateUtf8(staging_name_, 180), std::hash<std::string>()(staging_name_));
      }
    }
    path_ = StrCat(logdir_, "/plugins/profile/", run_);
    const int parent = staging_parent_fd_.get();
    const std::string staging_path = StrCat(logdir_, "/", hidden_name_, "/staging/", staging_name_);
    if (mkdirat(parent, staging_name_.c_str(), 0777) != 0) {
      if (errno == EEXIST) continue;
      return ErrnoStatus(errno, "cannot make the directory", staging_path);
    }
    staging_fd_ = ScopedFd(openat(parent, staging_name_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (staging_fd_.get() < 0) return ErrnoStatus(errno, "cannot open the directory", staging_path);
    // On file systems without locks, only the cleanup after a killed process is lost.
    flock(staging_fd_.get(), LOCK_EX | LOCK_NB);
    if (!Taken()) return absl::OkStatus();
    staging_fd_.Reset();
    unlinkat(parent, staging_name_.c_str(), AT_REMOVEDIR);
  }
  return absl::AlreadyExistsError(StrCat(path_, " and ", kMaxRunSuffix - 1, " other names are taken"));
}

RunDirectory::~RunDirectory() {
  if (staging_fd_.get() >= 0) {
    staging_fd_.Reset();
    RemoveFlatDirectory(staging_parent_fd_.get(), staging_name_);
  }
  if (staging_parent_fd_.get() < 0) return;
  // Both calls fail, as intended, while the directories are not empty.
  unlinkat(hidden_fd_.get(), "staging", AT_REMOVEDIR);
  unlinkat(logdir_fd_.get(), hidden_name_.c_str(), AT_REMOVEDIR);
}

absl::StatusOr<uint64_t> RunDirectory::Write(const Output& output, const Timeline& timeline, uint64_t most_bytes) {
  return WriteFile(
      FileName(output.file_name, timeline.host), &output, &timeline,
      [&](Sink& sink) { return output.write(timeline, sink); }, most_bytes);
}

absl::Status RunDirectory::WriteText(const std::string& file_name, std::string_view text) {
  if (!exclusive_) return WriteTextOfRank(rank_, file_name, text);
  return WriteBytes(file_name, [&](Sink& sink) { return sink.Append(text); }).status();
}

absl::Status RunDirectory::WriteTextOfRank(int rank, const std::string& file_name, std::string_view text) {
  return WriteBytes(StrCat(HostOf(rank), ".", file_name), [&](Sink& sink) { return sink.Append(text); }).status();
}

absl::StatusOr<uint64_t> RunDirectory::WriteBytes(const std::string& file_name,
                                                  const std::function<absl::Status(Sink&)>& fill) {
  return WriteFile(file_name, nullptr, nullptr, fill, UINT64_MAX);
}

absl::StatusOr<uint64_t> RunDirectory::WriteFile(const std::string& name, const Output* output,
                                                 const Timeline* timeline,
                                                 const std::function<absl::Status(Sink&)>& fill, uint64_t most_bytes) {
  if (published_) return absl::FailedPreconditionError(StrCat(path_, " is published already"));
  Pending pending;
  pending.name = name;
  pending.file.path = StrCat(path_, "/", name);
  const std::string temporary = StrCat(name, ".tmp");
  absl::StatusOr<ScopedFd> fd = CreateFile(staging_fd_.get(), temporary, pending.file.path);
  if (!fd.ok()) return fd.status();
  FileSink sink(fd->get(), pending.file.path, most_bytes);
  absl::Status status = fill(sink);
  if (status.ok() && sink.bytes() <= most_bytes) status = sink.Flush();
  if (status.ok() && sink.bytes() > most_bytes) {
    unlinkat(staging_fd_.get(), temporary.c_str(), 0);
    return sink.bytes();
  }
  struct stat info;
  if (status.ok() && fstat(fd->get(), &info) != 0) status = ErrnoStatus(errno, "cannot check", pending.file.path);
  if (status.ok() && static_cast<uint64_t>(info.st_size) != sink.bytes()) {
    status = absl::DataLossError(
        StrCat(pending.file.path, ": ", sink.bytes(), " bytes were written, ", info.st_size, " are there"));
  }
  if (status.ok() && output != nullptr && output->verify != nullptr) {
    // Opened through the descriptor: the path may lead elsewhere by now.
    const std::string staged = StrCat("/proc/self/fd/", staging_fd_.get(), "/", temporary);
    absl::StatusOr<std::string> verified = output->verify(staged, *timeline);
    status = verified.status();
    if (!status.ok()) {
      const std::string message(status.message());
      const size_t at = message.find(staged);
      if (at != std::string::npos) {
        status = absl::Status(status.code(),
                              StrCat(message.substr(0, at), pending.file.path, message.substr(at + staged.size())));
      }
    }
    if (verified.ok()) pending.file.verified = *std::move(verified);
  }
  if (!status.ok()) {
    unlinkat(staging_fd_.get(), temporary.c_str(), 0);
    return status;
  }
  pending.file.bytes = sink.bytes();
  if (durable_) pending.unsynced = std::move(*fd);
  pending_.push_back(std::move(pending));
  // Many ranks have as many files: not all of them stay open.
  constexpr size_t kMostOpen = 16;
  if (pending_.size() % kMostOpen == 0) {
    if (status = SyncPending(); !status.ok()) return status;
  }
  return sink.bytes();
}

// The first fsync commits the journal for all files: one wait for the disk instead of one per file.
absl::Status RunDirectory::SyncPending() {
  for (Pending& pending : pending_) {
    if (pending.unsynced.get() < 0) continue;
    const absl::Status status = Sync(pending.unsynced.get(), pending.file.path);
    pending.unsynced.Reset();
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

namespace {

// xprof lists no tools if it cannot create this file, as in a directory that belongs to another user.
void LeaveModuleMarker(int directory, const std::string& path) {
  constexpr char kName[] = "NO_MODULE.hlo_proto.pb";
  CreateFile(directory, kName, StrCat(path, "/", kName)).status().IgnoreError();
}

// Removes the results that the viewer computed from the earlier files: statistics over all hosts. Without its version
// file the viewer recomputes the others, but it does not check a combined result by name, so that would stay.
void RemoveStaleCaches(int run_directory) {
  ForEachEntry(run_directory, [&](const char* entry) {
    const std::string_view name = entry;
    if (name.starts_with("ALL_HOSTS.") || name == "cache_version.txt" || name == ".cached_tools.json") {
      unlinkat(run_directory, entry, 0);
    }
  });
}

}  // namespace

absl::StatusOr<std::vector<RunDirectory::File>> RunDirectory::Publish() {
  if (published_) return absl::FailedPreconditionError(StrCat(path_, " is published already"));
  if (pending_.empty()) return absl::FailedPreconditionError(StrCat("nothing was written for ", path_));
  absl::Status status = exclusive_ ? PublishDirectory() : PublishFiles();
  if (!status.ok()) return status;
  published_ = true;
  if (durable_) status = Sync(profile_fd_.get(), StrCat(logdir_, "/plugins/profile"));
  if (!status.ok()) return status;
  for (Pending& pending : pending_) pending.file.path = StrCat(path_, "/", pending.name);
  return written();
}

void RunDirectory::PutFirst(size_t index) {
  if (index < pending_.size())
    std::rotate(pending_.begin(), pending_.begin() + static_cast<ptrdiff_t>(index), pending_.end());
}

std::vector<RunDirectory::File> RunDirectory::written() const {
  std::vector<File> files;
  for (const Pending& pending : pending_) files.push_back(pending.file);
  return files;
}

absl::Status RunDirectory::PublishDirectory() {
  for (const Pending& pending : pending_) {
    const std::string temporary = StrCat(pending.name, ".tmp");
    if (renameat(staging_fd_.get(), temporary.c_str(), staging_fd_.get(), pending.name.c_str()) != 0) {
      return ErrnoStatus(errno, "cannot publish", pending.file.path);
    }
  }
  LeaveModuleMarker(staging_fd_.get(), path_);
  // After the renames, so that their changes reach the disk with the files.
  absl::Status synced = SyncPending();
  if (synced.ok() && durable_) synced = Sync(staging_fd_.get(), path_);
  if (!synced.ok()) return synced;
  // Only a program other than tbprof can have taken the name since.
  const std::string reserved = run_;
  for (int attempt = 2;; ++attempt) {
    const absl::Status status = MoveNoReplace(staging_parent_fd_.get(), staging_name_, profile_fd_.get(), run_, path_);
    if (status.ok()) break;
    if (!absl::IsAlreadyExists(status) || attempt > kMaxRunSuffix) return status;
    run_ = StrCat(reserved, "_", attempt);
    path_ = StrCat(logdir_, "/plugins/profile/", run_);
  }
  staging_fd_.Reset();
  return absl::OkStatus();
}

absl::Status RunDirectory::PublishFiles() {
  const std::string wanted = run_;
  for (int attempt = 2; !IsDirectoryOrFree(profile_fd_.get(), run_) && attempt <= kMaxRunSuffix; ++attempt) {
    run_ = StrCat(wanted, "_", attempt);
    path_ = StrCat(logdir_, "/plugins/profile/", run_);
  }
  absl::StatusOr<ScopedFd> target = OpenOrMakeDirectory(profile_fd_.get(), run_, path_);
  if (!target.ok()) return target.status();
  if (absl::Status synced = SyncPending(); !synced.ok()) return synced;
  std::vector<std::string> moved;
  for (const Pending& pending : pending_) {
    const absl::Status status =
        MoveNoReplace(staging_fd_.get(), StrCat(pending.name, ".tmp"), target->get(), pending.name, pending.file.path);
    if (status.ok()) {
      moved.push_back(pending.name);
      continue;
    }
    for (const std::string& name : moved) unlinkat(target->get(), name.c_str(), 0);
    return status;
  }
  RemoveStaleCaches(target->get());
  LeaveModuleMarker(target->get(), path_);
  return durable_ ? Sync(target->get(), path_) : absl::OkStatus();
}

}  // namespace tbprof
