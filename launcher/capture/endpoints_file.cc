// SPDX-License-Identifier: Apache-2.0
#include "launcher/capture/endpoints_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "launcher/base/deadline.h"
#include "launcher/base/text.h"
#include "writer/base/trusted_path.h"
#include "writer/base/utf8.h"
#include "writer/logdir/logdir.h"

namespace tbprof {
namespace {

constexpr absl::Duration kTidyingLimit = absl::Seconds(2);
constexpr char kEndpoints[] = "endpoints";

absl::Status WriteFile(int logdir, std::string path, const std::string& run, const std::string& name,
                       const std::string& text) {
  std::string hidden;
  absl::StatusOr<ScopedFd> at = OpenHiddenDirectory(logdir, path, &hidden);
  if (!at.ok()) return at.status();
  StrAppend(&path, "/", hidden);
  for (const std::string& level : {std::string(kEndpoints), run}) {
    absl::StatusOr<ScopedFd> next = OpenOrMakeDirectory(at->get(), level, path, 0755);
    if (!next.ok()) return next.status();
    StrAppend(&path, "/", level);
    at = std::move(next);
  }
  const std::string temporary = StrCat(name, ".", RandomHex(8), ".tmp");
  absl::StatusOr<ScopedFd> file = CreateFile(at->get(), temporary, path);
  if (!file.ok()) return file.status();
  absl::Status written = WriteAll(file->get(), text, path);
  if (written.ok() && renameat(at->get(), temporary.c_str(), at->get(), name.c_str()) != 0) {
    written = ErrnoStatus(errno, "cannot write", path);
  }
  if (!written.ok()) unlinkat(at->get(), temporary.c_str(), 0);
  return written;
}

// Removes the file, and its temporary file if a writer was killed before it could rename it. Removing a directory
// fails, as intended, while it is not empty.
void RemoveFile(int logdir, const std::string& run, const std::string& name) {
  ForEachEntry(logdir, [&](const char* name_of_hidden) {
    if (!IsHiddenDirectory(name_of_hidden)) return;
    const absl::StatusOr<ScopedFd> hidden = OpenBeneath(logdir, name_of_hidden, O_PATH | O_DIRECTORY);
    if (!hidden.ok()) return;
    const absl::StatusOr<ScopedFd> endpoints = OpenBeneath(hidden->get(), kEndpoints, O_PATH | O_DIRECTORY);
    if (!endpoints.ok()) return;
    if (const auto directory = OpenBeneath(endpoints->get(), run, O_PATH | O_DIRECTORY); directory.ok()) {
      ForEachEntry(directory->get(), [&](const char* entry) {
        if (std::string_view(entry).starts_with(name)) unlinkat(directory->get(), entry, 0);
      });
    }
    unlinkat(endpoints->get(), run.c_str(), AT_REMOVEDIR);
    unlinkat(hidden->get(), kEndpoints, AT_REMOVEDIR);
    unlinkat(logdir, name_of_hidden, AT_REMOVEDIR);
  });
}

}  // namespace

EndpointsFile::~EndpointsFile() {
  if (file_.empty()) return;
  // A file server that no longer responds must not delay the exit.
  WithinDeadline(kTidyingLimit, [this] {
    RemoveFile(logdir_.get(), run_, file_);
    return absl::OkStatus();
  }).IgnoreError();
}

absl::Status EndpointsFile::Write(const CaptureRun& run, const std::string& ranks,
                                  const std::vector<std::string>& addresses) {
  const nlohmann::json json = {{"run", ValidUtf8(run.run_name())},
                               {"host", run.host()},
                               {"pid", getpid()},
                               {"rank", run.job().rank.rank},
                               {"world_size", run.job().rank.world_size},
                               {"sure_rank", run.job().sure_rank},
                               {"ranks", ranks},
                               {"addresses", addresses}};
  const std::string text = json.dump(2) + "\n";
  // The directories are opened in a child process, and so again when the file is removed.
  logdir_ = ScopedFd(fcntl(run.logdir_fd(), F_DUPFD_CLOEXEC, 0));
  run_ = run.run_name();
  file_ = StrCat(run.host(), "-", getpid(), ".endpoints.json");
  return WithinDeadline(run.LogdirLimit(), [&] { return WriteFile(logdir_.get(), run.logdir(), run_, file_, text); });
}

}  // namespace tbprof
