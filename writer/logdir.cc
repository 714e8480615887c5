// SPDX-License-Identifier: Apache-2.0
#include "writer/logdir.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/ascii.h"
#include "writer/event_file.h"
#include "writer/file_ops.h"
#include "writer/text.h"
#include "writer/utf8.h"

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

// One TFRecord with an Event{wall_time = 1, file_version = 3}.
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

// A file in a directory, complete or not at all. An existing one is left alone.
absl::Status WriteSmallFile(int directory, const std::string& name, std::string_view bytes, const std::string& path) {
  absl::StatusOr<FileDescriptor> fd = CreateFile(directory, name, path);
  if (!fd.ok()) return fd.status();
  absl::Status status = WriteAll(fd->get(), bytes, path);
  if (status.ok()) status = Sync(fd->get(), path);
  if (!status.ok()) unlinkat(directory, name.c_str(), 0);
  return status;
}

// Old plugins (up to 2.20) look for profiles only beside an events file.
void WriteEmptyEventsFile(int logdir_fd, const std::string& logdir, const std::string& host) {
  constexpr std::string_view kSuffix = ".profile-empty";
  if (HoldsFileEndingIn(logdir_fd, kSuffix)) return;
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  const std::string name = StrCat("events.out.tfevents.", now.tv_sec, ".", host, kSuffix);
  const double wall_time = static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
  // Current plugins do without it: no reason to fail.
  WriteSmallFile(logdir_fd, name, EmptyEventsFile(wall_time), StrCat(logdir, "/", name)).IgnoreError();
}

constexpr std::string_view kProbePrefix = ".tbprof-probe-";
constexpr time_t kAbandonedAfterSeconds = 60;

// Probes of a tbprof that was killed at it. The age protects those of a living one.
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

// What will be done for real at the end, so that its failure shows before the program runs for hours: a file made where
// profiles are staged, moved to where they are published.
absl::Status Probe(int logdir_fd, const std::string& logdir, int profile_fd, const std::string& profile_path) {
  const std::string name = StrCat(kProbePrefix, getpid(), "-", RandomHex(8));
  const std::string staging_path = StrCat(logdir, "/.tbprof");
  absl::Status status;
  for (int attempt = 0; attempt < 100; ++attempt) {
    absl::StatusOr<FileDescriptor> staging = OpenOrMakeDirectory(logdir_fd, ".tbprof", staging_path);
    if (!staging.ok()) return staging.status();
    SweepProbes(staging->get());
    status = WriteSmallFile(staging->get(), name, "tbprof\n", StrCat(staging_path, "/", name));
    // Another tbprof removes the directory when it was the last to use it.
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
  unlinkat(logdir_fd, ".tbprof", AT_REMOVEDIR);
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
  const std::string absolute = logdir[0] == '/' ? logdir : StrCat(working_directory, "/", logdir);
  std::string out;
  for (std::string_view part : Components(absolute)) {
    if (part == ".") continue;
    if (part != "..") {
      StrAppend(&out, "/", part);
      continue;
    }
    // The parent of a linked directory is that of its target.
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

absl::Status PrepareLogdir(const std::string& logdir, const std::string& host) {
  FileDescriptor at(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (at.get() < 0) return ErrnoStatus(errno, "cannot open", "/");
  std::string path;
  bool made = false;
  for (std::string_view part : Components(logdir)) {
    const std::string parent = path.empty() ? "/" : path;
    StrAppend(&path, "/", part);
    // The levels above are the user's own way to the directory: links are followed.
    const std::string name(part);
    int fd = openat(at.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno == EACCES) fd = openat(at.get(), name.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
      at = FileDescriptor(fd);
      made = false;
      continue;
    }
    absl::StatusOr<FileDescriptor> next = OpenOrMakeDirectory(at.get(), name, path, &made);
    if (!next.ok()) {
      return path == logdir ? next.status()
                            : Annotated(next.status(), StrCat(" (for ", logdir, "; ", parent, " exists)"));
    }
    at = *std::move(next);
  }
  absl::StatusOr<FileDescriptor> plugins = OpenOrMakeDirectory(at.get(), "plugins", StrCat(path, "/plugins"));
  if (!plugins.ok()) return plugins.status();
  const std::string profile_path = StrCat(path, "/plugins/profile");
  absl::StatusOr<FileDescriptor> profile = OpenOrMakeDirectory(plugins->get(), "profile", profile_path);
  if (!profile.ok()) return profile.status();
  if (absl::Status status = Probe(at.get(), path, profile->get(), profile_path); !status.ok()) return status;
  if (made) WriteSmallFile(at.get(), ".gitignore", "*\n", StrCat(path, "/.gitignore")).IgnoreError();
  WriteEmptyEventsFile(at.get(), path, host);
  return absl::OkStatus();
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
