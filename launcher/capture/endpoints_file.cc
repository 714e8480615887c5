// SPDX-License-Identifier: Apache-2.0
#include "launcher/capture/endpoints_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "launcher/base/deadline.h"
#include "launcher/base/text.h"
#include "writer/base/trusted_path.h"
#include "writer/base/utf8.h"
#include "writer/logdir/logdir.h"

namespace tbprof {
namespace {

constexpr absl::Duration kTidyingLimit = absl::Seconds(2);

}  // namespace

EndpointsFile::~EndpointsFile() {
  if (entries_.empty()) return;
  // A file server that no longer responds must not delay the exit.
  WithinDeadline(kTidyingLimit, [this] {
    // Removing a directory fails, as intended, while it is not empty.
    for (size_t i = entries_.size(); i-- > 0;) {
      const bool is_file = i + 1 == entries_.size();
      unlinkat(entries_[i].directory.get(), entries_[i].name.c_str(), is_file ? 0 : AT_REMOVEDIR);
    }
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
  FileDescriptor at(openat(run.logdir_fd(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  std::string hidden, path = run.logdir();
  for (const std::string& name : {std::string(), std::string("endpoints"), run.run_name()}) {
    absl::StatusOr<FileDescriptor> next =
        name.empty() ? OpenHiddenDirectory(at.get(), path, &hidden) : OpenOrMakeDirectory(at.get(), name, path, 0755);
    if (!next.ok()) return next.status();
    const std::string& used = name.empty() ? hidden : name;
    StrAppend(&path, "/", used);
    entries_.push_back({std::move(at), used});
    at = *std::move(next);
  }
  const std::string name = StrCat(run.host(), "-", getpid(), ".endpoints.json");
  const std::string temporary = StrCat(name, ".", RandomHex(8), ".tmp");
  absl::StatusOr<FileDescriptor> file = CreateFile(at.get(), temporary, path);
  if (!file.ok()) return file.status();
  absl::Status written = WriteAll(file->get(), text, path);
  if (written.ok() && renameat(at.get(), temporary.c_str(), at.get(), name.c_str()) != 0) {
    written = ErrnoStatus(errno, "cannot write", path);
  }
  if (!written.ok()) unlinkat(at.get(), temporary.c_str(), 0);
  entries_.push_back({std::move(at), name});
  return written;
}

}  // namespace tbprof
