// SPDX-License-Identifier: Apache-2.0
#include "launcher/capture/delivery.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <utility>

#include "launcher/base/control_messages.h"
#include "launcher/base/control_socket.h"
#include "launcher/base/text.h"
#include "writer/base/file_ops.h"
#include "writer/base/trusted_path.h"
#include "writer/logdir/logdir.h"

namespace tbprof {
namespace {

constexpr std::string_view kProfileSuffix = ".xplane.pb", kSummary = "summary.json";

// Opens <logdir>/plugins/profile/<run>/<file> below the directory in which it was published.
ScopedFd OpenPublished(int logdir, const std::string& path) {
  const size_t below = path.rfind("/plugins/profile/");
  if (below == std::string::npos) return ScopedFd();
  absl::StatusOr<ScopedFd> found = OpenBeneath(logdir, path.substr(below), O_RDONLY | O_NONBLOCK | O_NOCTTY);
  return found.ok() ? *std::move(found) : ScopedFd();
}

}  // namespace

std::shared_ptr<PrivateDirectory> MakePrivateDirectory(const Session& session) {
  ScopedFd at(session.spool_directory() >= 0 ? fcntl(session.spool_directory(), F_DUPFD_CLOEXEC, 0) : -1);
  std::string name = StrCat(session.spool_name(), ".capture-", RandomHex(8));
  std::string path = StrCat(session.spool_path(), name.substr(session.spool_name().size()));
  if (at.get() < 0 || mkdirat(at.get(), name.c_str(), 0700) != 0) {
    const std::string socket = session.control_path();
    name = StrCat(kControlName, "-", RandomHex(8));
    path = StrCat(socket.substr(0, socket.rfind('/') + 1), name);
    at = ScopedFd(open(socket.substr(0, socket.rfind('/')).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (at.get() < 0 || mkdirat(at.get(), name.c_str(), 0700) != 0) return nullptr;
  }
  ScopedFd made(openat(at.get(), name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (made.get() < 0) return nullptr;
  auto directory = std::make_shared<PrivateDirectory>();
  std::string place = PathOfDirectory(made.get());
  directory->logdir = LogDirectory{std::move(made), path, std::move(place)};
  directory->parent = std::move(at);
  directory->name = name;
  return directory;
}

DeliveredFiles OpenDelivered(const ConversionRequest& request, const ConversionResult& result, bool with_summary) {
  std::vector<std::string> paths;
  std::string summary;
  for (const std::string& path : result.files) {
    if (path.ends_with(kProfileSuffix)) paths.push_back(path);
    if (with_summary && path.ends_with(kSummary)) summary = path;
  }
  std::string stem;
  DeliveredFiles delivered;
  const absl::StatusOr<LogDirectory> again =
      IsRemoved(request.logdir_fd) ? LogDirectory::Open(request.logdir) : absl::UnavailableError("");
  const int logdir = again.ok() ? again->fd.get() : request.logdir_fd;
  for (const std::string& path : paths) {
    ScopedFd file = OpenPublished(logdir, path);
    struct stat facts;
    if (!file.valid() || fstat(file.get(), &facts) != 0) continue;
    const std::string name = path.substr(path.rfind('/') + 1);
    // The first profile is that of the command's own rank.
    if (delivered.names.empty()) stem = name.substr(0, name.size() - kProfileSuffix.size());
    delivered.names.push_back(RunDirectory::NameForClient(name, stem));
    delivered.files.push_back(std::move(file));
    delivered.bytes += static_cast<uint64_t>(facts.st_size);
    if (delivered.files.size() == kMaxControlFiles) break;
  }
  if (summary.empty() || delivered.files.empty() || delivered.files.size() == kMaxControlFiles) return delivered;
  if (ScopedFd file = OpenPublished(logdir, summary); file.valid()) {
    delivered.names.emplace_back(kSummary);
    delivered.files.push_back(std::move(file));
  }
  return delivered;
}

}  // namespace tbprof
