// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/run_logdir.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "launcher/base/deadline.h"
#include "launcher/base/text.h"
#include "writer/base/trusted_path.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

// The factor of the time limit for a local disk. A local disk always responds or fails, even if late: on a busy machine
// the kernel threads that complete writes were seen without a CPU for a minute.
constexpr int kDiskPatience = 10;

}  // namespace

absl::Status RunLogdir::Choose() {
  context_.host = HostName();
  absl::StatusOr<std::string> logdir = NormaliseLogdir(options_.logdir, WorkingDirectory());
  if (!logdir.ok()) return options_.logdir_required ? logdir.status() : UseLocal(logdir.status());
  logdir_ = *logdir;
  const absl::Duration limit = std::min(options_.publish_timeout, kLookTimeout);
  absl::Status status = WithinDeadline(limit, [this] {
    return StorageOf(Existing(logdir_)) == Storage::kRemote ? absl::UnavailableError("") : absl::OkStatus();
  });
  bool silent = absl::IsDeadlineExceeded(status);
  storage_ = status.ok() ? Storage::kDisk : Storage::kRemote;
  const absl::Duration patience = ProbeLimit();
  if (!silent) {
    status = WithinDeadline(patience, [this] { return PrepareLogdir(logdir_, context_.host, options_.logdir_base); });
    silent = absl::IsDeadlineExceeded(status);
  }
  if (silent) status = absl::DeadlineExceededError(NoAnswer(patience));
  // Opens the directory again in this process and holds it, so that profiles are written to the directory that was
  // checked.
  if (status.ok()) status = Hold(LogDirectory::Open(logdir_, options_.logdir_base));
  if (status.ok()) return status;
  // A log directory that the user named and that is unusable stops the command before it starts. A directory that hangs
  // or that another user made unusable does not stop the command.
  const bool mistake = !silent && !OthersMayHaveCaused(status, logdir_) &&
                       !OthersMayHaveCaused(status, StrCat(logdir_, "/plugins/profile"));
  return options_.logdir_required && mistake ? status : UseLocal(status);
}

absl::Status RunLogdir::UseLocal(const absl::Status& cause) {
  const absl::Status second = Hold(OpenLocal());
  if (!second.ok()) return cause;
  terminal_.Warn(StrCat(PrintableUtf8(ToText(cause)), "; writing to ", PrintableUtf8(logdir_), " instead"));
  storage_ = StorageOf(held_.fd.get());
  return absl::OkStatus();
}

absl::Status RunLogdir::Hold(absl::StatusOr<LogDirectory> logdir) {
  if (!logdir.ok()) return logdir.status();
  held_ = *std::move(logdir);
  logdir_ = held_.path;
  return absl::OkStatus();
}

absl::Duration RunLogdir::LimitFor(Storage storage, absl::Duration limit) {
  return storage == Storage::kRemote ? limit : kDiskPatience * limit;
}

// Opens a log directory in TMPDIR or /tmp, which other users share: a subdirectory that only this user can write to.
absl::StatusOr<LogDirectory> RunLogdir::OpenLocal() const {
  const char* temporary = getenv("TMPDIR");
  const std::string wanted = StrCat("tbprof-logs-", static_cast<int>(geteuid()));
  absl::Status status;
  for (const std::string& base : {std::string(temporary != nullptr ? temporary : ""), std::string("/tmp")}) {
    if (!base.starts_with('/')) continue;
    const absl::StatusOr<ScopedFd> parent = OpenDirectoryTrusted(base);
    status = parent.status();
    if (!parent.ok()) continue;
    std::string name;
    absl::StatusOr<ScopedFd> made = OpenPrivateDirectory(parent->get(), wanted, &name);
    status = made.status();
    if (!made.ok()) continue;
    const std::string path = StrCat(base, "/", name);
    if (name != wanted) {
      terminal_.Warn(StrCat(PrintableUtf8(StrCat(base, "/", wanted)), " is not this user's alone: it is not used"));
    }
    std::string place = PathOfDirectory(made->get());
    status = PrepareLogdir(ScopedFd(fcntl(made->get(), F_DUPFD_CLOEXEC, 0)), path, context_.host);
    if (status.ok()) return LogDirectory{*std::move(made), path, std::move(place)};
  }
  return status;
}

std::string RunLogdir::NoAnswer(absl::Duration limit) const {
  return StrCat(PrintableUtf8(logdir_), " does not answer (", absl::FormatDuration(limit), "; a dead mount?)");
}

absl::Duration RunLogdir::ProbeLimit() const {
  return LimitFor(storage_, std::min(options_.publish_timeout, kLookTimeout));
}

absl::Duration RunLogdir::PublishLimit(const std::string& logdir) const {
  return LimitFor(logdir == logdir_ ? storage_ : Storage::kDisk, options_.publish_timeout);
}

const LogDirectory& RunLogdir::LocalWhenSilent() {
  hangs_ = true;
  if (local_.fd.get() < 0) {
    if (absl::StatusOr<LogDirectory> local = OpenLocal(); local.ok()) local_ = *std::move(local);
  }
  return local_;
}

}  // namespace tbprof
