// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <functional>

#include "writer/file_ops.h"
#include "writer/logdir.h"
#include "writer/text.h"
#include "writer/utf8.h"

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

// Opens <logdir>/.tbprof/staging. Another tbprof may remove the empty levels between our two calls.
absl::StatusOr<FileDescriptor> OpenStagingParent(int logdir_fd, const std::string& logdir) {
  absl::Status status;
  for (int attempt = 0; attempt < 100; ++attempt) {
    const std::string path = StrCat(logdir, "/.tbprof");
    absl::StatusOr<FileDescriptor> hidden = OpenOrMakeDirectory(logdir_fd, ".tbprof", path);
    if (!hidden.ok()) return hidden.status();
    absl::StatusOr<FileDescriptor> parent = OpenOrMakeDirectory(hidden->get(), "staging", StrCat(path, "/staging"));
    if (parent.ok()) return parent;
    status = parent.status();
    if (!absl::IsNotFound(status) && !absl::IsAborted(status)) break;
  }
  return status;
}

// Staging directories whose owner is gone: nobody holds their lock. The age protects those just being made.
void SweepAbandoned(int staging_parent) {
  ForEachEntry(staging_parent, [&](const char* name) {
    if (name[0] == '.') return;
    FileDescriptor abandoned(openat(staging_parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat info;
    if (abandoned.get() < 0 || fstat(abandoned.get(), &info) != 0 || info.st_uid != geteuid()) return;
    if (info.st_mtime + kAbandonedAfterSeconds > time(nullptr)) return;
    if (flock(abandoned.get(), LOCK_EX | LOCK_NB) != 0) return;
    RemoveFlatDirectory(staging_parent, name);
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunDirectory>> RunDirectory::Create(const std::string& logdir, const std::string& run,
                                                                   bool exclusive, const std::string& host, int rank,
                                                                   const std::vector<int>& further_ranks,
                                                                   RankNames names) {
  if (absl::Status status = CheckRunName(run); !status.ok()) return status;
  std::unique_ptr<RunDirectory> directory(new RunDirectory);
  directory->logdir_ = logdir;
  directory->exclusive_ = exclusive;
  directory->host_ = HostNameFrom(host);
  directory->rank_ = rank;
  directory->further_ranks_ = further_ranks;
  directory->names_ = names;

  FileDescriptor logdir_fd(open(logdir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (logdir_fd.get() < 0) return ErrnoStatus(errno, "cannot open the directory", logdir);
  absl::StatusOr<FileDescriptor> plugins = OpenOrMakeDirectory(logdir_fd.get(), "plugins", StrCat(logdir, "/plugins"));
  if (!plugins.ok()) return plugins.status();
  absl::StatusOr<FileDescriptor> profile =
      OpenOrMakeDirectory(plugins->get(), "profile", StrCat(logdir, "/plugins/profile"));
  if (!profile.ok()) return profile.status();
  directory->profile_fd_ = profile->Release();

  // Reserving can lose its parent to another tbprof that tidies up.
  absl::Status status;
  for (int attempt = 0; attempt < 100; ++attempt) {
    absl::StatusOr<FileDescriptor> parent = OpenStagingParent(logdir_fd.get(), logdir);
    if (!parent.ok()) return parent.status();
    if (directory->staging_parent_fd_ >= 0) close(directory->staging_parent_fd_);
    directory->staging_parent_fd_ = parent->Release();
    SweepAbandoned(directory->staging_parent_fd_);
    status = directory->Reserve(run);
    if (!absl::IsNotFound(status)) break;
  }
  if (!status.ok()) return status;
  return directory;
}

// The staging directory's name is the reservation: made exclusively, and only then is it checked that nothing was
// published under that name before.
bool RunDirectory::Taken() const {
  if (exclusive_) return Exists(profile_fd_, run_);
  const auto exists = [&](int rank) { return Exists(profile_fd_, StrCat(run_, "/", HostOf(rank), ".xplane.pb")); };
  return exists(rank_) || std::any_of(further_ranks_.begin(), further_ranks_.end(), exists);
}

std::string RunDirectory::HostOf(int rank) const {
  if (further_ranks_.empty()) return host_;
  if (names_ == RankNames::kHosts) return StrCat(host_, "_r", rank);
  return rank == rank_ ? host_ : StrCat(host_, ".r", rank);
}

std::string RunDirectory::NameForClient(std::string_view file_name, std::string_view stem) {
  if (file_name.starts_with(StrCat(stem, "."))) file_name.remove_prefix(stem.size() + 1);
  return std::string(file_name);
}

absl::Status RunDirectory::Reserve(const std::string& run) {
  const std::string wanted_host = host_;
  for (int attempt = 1; attempt <= kMaxRunSuffix; ++attempt) {
    if (exclusive_) {
      run_ = attempt == 1 ? run : StrCat(run, "_", attempt);
      staging_name_ = run_;
    } else {
      run_ = run;
      if (attempt == 1) {
        host_ = wanted_host;
      } else if (attempt == 2 && rank_ >= 0 && further_ranks_.empty()) {
        host_ = StrCat(wanted_host, "_r", rank_);
      } else {
        host_ = StrCat(wanted_host, "_", getpid(), "-", RandomHex(4));
      }
      staging_name_ = StrCat(run_, "@", host_);
      if (staging_name_.size() > 200) {
        staging_name_ = StrCat(TruncateUtf8(staging_name_, 180), std::hash<std::string>()(staging_name_));
      }
    }
    path_ = StrCat(logdir_, "/plugins/profile/", run_);
    const std::string staging_path = StrCat(logdir_, "/.tbprof/staging/", staging_name_);
    if (mkdirat(staging_parent_fd_, staging_name_.c_str(), 0777) != 0) {
      if (errno == EEXIST) continue;
      return ErrnoStatus(errno, "cannot make the directory", staging_path);
    }
    staging_fd_ = openat(staging_parent_fd_, staging_name_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (staging_fd_ < 0) return ErrnoStatus(errno, "cannot open the directory", staging_path);
    // File systems without locks lose only the sweeping of what a killed process left.
    flock(staging_fd_, LOCK_EX | LOCK_NB);
    if (!Taken()) return absl::OkStatus();
    close(staging_fd_);
    staging_fd_ = -1;
    unlinkat(staging_parent_fd_, staging_name_.c_str(), AT_REMOVEDIR);
  }
  return absl::AlreadyExistsError(StrCat(path_, " and ", kMaxRunSuffix - 1, " other names are taken"));
}

RunDirectory::~RunDirectory() {
  if (staging_fd_ >= 0) {
    close(staging_fd_);
    RemoveFlatDirectory(staging_parent_fd_, staging_name_);
  }
  if (staging_parent_fd_ >= 0) {
    close(staging_parent_fd_);
    // Both fail, as they should, while anything is left in them.
    rmdir(StrCat(logdir_, "/.tbprof/staging").c_str());
    rmdir(StrCat(logdir_, "/.tbprof").c_str());
  }
  if (profile_fd_ >= 0) close(profile_fd_);
}

absl::StatusOr<uint64_t> RunDirectory::Write(const Output& output, const Timeline& timeline, uint64_t most_bytes) {
  return WriteFile(
      FileName(output.file_name, timeline.host), &output, &timeline,
      [&](Sink& sink) { return output.write(timeline, sink); }, most_bytes);
}

absl::Status RunDirectory::WriteText(const std::string& file_name, std::string_view text) {
  return WriteBytes(exclusive_ ? file_name : StrCat(host_, ".", file_name),
                    [&](Sink& sink) { return sink.Append(text); })
      .status();
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
  absl::StatusOr<FileDescriptor> fd = CreateFile(staging_fd_, temporary, pending.file.path);
  if (!fd.ok()) return fd.status();
  FileSink sink(fd->get(), pending.file.path, most_bytes);
  absl::Status status = fill(sink);
  if (status.ok() && sink.bytes() > most_bytes) {
    unlinkat(staging_fd_, temporary.c_str(), 0);
    return sink.bytes();
  }
  struct stat info;
  if (status.ok() && fstat(fd->get(), &info) != 0) status = ErrnoStatus(errno, "cannot check", pending.file.path);
  if (status.ok() && static_cast<uint64_t>(info.st_size) != sink.bytes()) {
    status = absl::DataLossError(
        StrCat(pending.file.path, ": ", sink.bytes(), " bytes were written, ", info.st_size, " are there"));
  }
  if (status.ok() && output != nullptr && output->verify != nullptr) {
    const std::string staged = StrCat(logdir_, "/.tbprof/staging/", staging_name_, "/", temporary);
    absl::StatusOr<std::string> verified = output->verify(staged, *timeline);
    status = verified.status();
    if (verified.ok()) pending.file.verified = *std::move(verified);
  }
  // Last, so that the disk has had the time of the verifying.
  if (status.ok() && durable_) status = Sync(fd->get(), pending.file.path);
  if (!status.ok()) {
    unlinkat(staging_fd_, temporary.c_str(), 0);
    return status;
  }
  pending.file.bytes = sink.bytes();
  pending_.push_back(std::move(pending));
  return sink.bytes();
}

namespace {

// xprof lists no tools at all if it cannot make this file, as in a directory that belongs to another user.
void LeaveModuleMarker(int directory, const std::string& path) {
  constexpr char kName[] = "NO_MODULE.hlo_proto.pb";
  CreateFile(directory, kName, StrCat(path, "/", kName)).status().IgnoreError();
}

// What the viewer has computed from the files that were there before: statistics over all hosts. Without its version
// file it recomputes the rest; a combined result under a name that it does not check would stay.
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
  if (durable_) status = Sync(profile_fd_, StrCat(logdir_, "/plugins/profile"));
  if (!status.ok()) return status;
  for (Pending& pending : pending_) pending.file.path = StrCat(path_, "/", pending.name);
  return written();
}

std::vector<RunDirectory::File> RunDirectory::written() const {
  std::vector<File> files;
  for (const Pending& pending : pending_) files.push_back(pending.file);
  return files;
}

absl::Status RunDirectory::PublishDirectory() {
  for (const Pending& pending : pending_) {
    const std::string temporary = StrCat(pending.name, ".tmp");
    if (renameat(staging_fd_, temporary.c_str(), staging_fd_, pending.name.c_str()) != 0) {
      return ErrnoStatus(errno, "cannot publish", pending.file.path);
    }
  }
  LeaveModuleMarker(staging_fd_, path_);
  if (durable_) {
    if (absl::Status status = Sync(staging_fd_, path_); !status.ok()) return status;
  }
  // Only a program that is not tbprof can have taken the name since.
  const std::string reserved = run_;
  for (int attempt = 2;; ++attempt) {
    const absl::Status status = MoveNoReplace(staging_parent_fd_, staging_name_, profile_fd_, run_, path_);
    if (status.ok()) break;
    if (!absl::IsAlreadyExists(status) || attempt > kMaxRunSuffix) return status;
    run_ = StrCat(reserved, "_", attempt);
    path_ = StrCat(logdir_, "/plugins/profile/", run_);
  }
  close(staging_fd_);
  staging_fd_ = -1;
  return absl::OkStatus();
}

absl::Status RunDirectory::PublishFiles() {
  absl::StatusOr<FileDescriptor> target = OpenOrMakeDirectory(profile_fd_, run_, path_);
  if (!target.ok()) return target.status();
  std::vector<std::string> moved;
  for (const Pending& pending : pending_) {
    const absl::Status status =
        MoveNoReplace(staging_fd_, StrCat(pending.name, ".tmp"), target->get(), pending.name, pending.file.path);
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
