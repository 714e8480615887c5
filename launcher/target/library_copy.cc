// SPDX-License-Identifier: Apache-2.0
#include "launcher/target/library_copy.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include "launcher/base/paths.h"
#include "launcher/base/proc_files.h"
#include "launcher/base/text.h"
#include "wire/gpu_bridge.h"
#include "wire/rendezvous.h"
#include "writer/base/scoped.h"

namespace tbprof {
namespace {

constexpr std::string_view kPrefix = "tbprof-lib-";
constexpr size_t kRandom = 6;
constexpr int kCapSetUid = 7;  // linux/capability.h
// Sweep holds a descriptor for each copy; further copies are left to the next launcher.
constexpr size_t kMostSwept = 64;

// Returns `/`, `/a`, `/a/b` for `/a/b`.
std::vector<std::string> Ancestors(const std::string& path) {
  std::vector<std::string> all = {"/"};
  for (size_t at = 1; at < path.size(); ++at) {
    at = std::min(path.find('/', at), path.size());
    all.push_back(path.substr(0, at));
  }
  return all;
}

// Whether all users can pass through the directory, and only root and this user can replace the files in it.
bool IsSafePlace(const std::string& directory) {
  const std::string real = RealPath(directory);
  if (real.empty() || real.find_first_of(" \t\n:;$") != std::string::npos) return false;
  struct statvfs mount;
  if (statvfs(real.c_str(), &mount) != 0 || (mount.f_flag & ST_NOEXEC) != 0 || access(real.c_str(), W_OK) != 0) {
    return false;
  }
  const std::vector<std::string> ancestors = Ancestors(real);
  return std::all_of(ancestors.begin(), ancestors.end(), [](const std::string& at) {
    struct stat facts;
    if (stat(at.c_str(), &facts) != 0 || (facts.st_mode & S_IXOTH) == 0) return false;
    if (facts.st_uid != 0 && facts.st_uid != geteuid()) return false;
    return (facts.st_mode & (S_IWGRP | S_IWOTH)) == 0 || (facts.st_mode & S_ISVTX) != 0;
  });
}

std::vector<std::string> Places() {
  std::vector<std::string> places;
  const char* const temporary = getenv("TMPDIR");
  if (temporary != nullptr && temporary[0] == '/') places.emplace_back(temporary);
  places.insert(places.end(), {"/tmp", "/var/tmp", "/run", "/dev/shm"});
  return places;
}

absl::Status CopyFile(const std::string& from, int directory, const char* name) {
  const ScopedFd source(open(from.c_str(), O_RDONLY | O_CLOEXEC));
  const ScopedFd copy(openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  struct stat facts;
  if (!source.valid() || !copy.valid() || fstat(source.get(), &facts) != 0) return absl::ErrnoToStatus(errno, from);
  for (off_t at = 0; at < facts.st_size;) {
    const ssize_t sent = sendfile(copy.get(), source.get(), &at, static_cast<size_t>(facts.st_size - at));
    if (sent <= 0) return absl::ErrnoToStatus(sent == 0 ? EIO : errno, from);
  }
  return fchmod(copy.get(), 0555) == 0 ? absl::OkStatus() : absl::ErrnoToStatus(errno, from);
}

// Whether this process has too few descriptors or too little memory to open a file, as opposed to a file of a process
// that has ended or that belongs to another user.
bool LacksRoom(int error) { return error == EMFILE || error == ENFILE || error == ENOMEM; }

// Appends the names of the copies that occur in the text as `tbprof-lib-XXXXXX/`.
void AppendNames(std::string_view text, std::set<std::string, std::less<>>* names) {
  for (size_t at; (at = text.find(kPrefix)) != std::string_view::npos; text.remove_prefix(kPrefix.size())) {
    text.remove_prefix(at);
    const std::string_view name = text.substr(0, kPrefix.size() + kRandom);
    if (text.substr(name.size()).starts_with('/') && !names->contains(name)) names->emplace(name);
  }
}

using Names = std::set<std::string, std::less<>>;

enum class Reading { kDone, kNoEnvironment, kNoRoom };

// Adds the copies that the process has in its environment or of which it maps a file.
Reading AddNamesOf(pid_t pid, Names* names) {
  Reading reading = Reading::kDone;
  // A process that writes its title over its environment (setproctitle) still has the library mapped.
  for (const std::string_view file : {"/environ", "/maps"}) {
    errno = 0;
    const std::string text = ReadText(StrCat("/proc/", pid, file));
    if (LacksRoom(errno)) return Reading::kNoRoom;
    if (text.empty()) reading = Reading::kNoEnvironment;
    AppendNames(text, names);
  }
  return reading;
}

// The copies that another process needs. nullopt: /proc cannot be read.
std::optional<Names> NeededCopies() {
  const std::vector<pid_t> pids = Pids();
  if (pids.empty()) return std::nullopt;
  Names names;
  std::vector<pid_t> again;
  for (const pid_t pid : pids) {
    if (pid == getpid()) continue;
    const Reading reading = AddNamesOf(pid, &names);
    if (reading == Reading::kNoRoom) return std::nullopt;
    if (reading == Reading::kNoEnvironment) again.push_back(pid);
  }
  // In the middle of an exec a process has neither environment nor files.
  for (const pid_t pid : again) {
    if (AddNamesOf(pid, &names) == Reading::kNoRoom) return std::nullopt;
  }
  return names;
}

void Remove(int parent, const std::string& name) {
  const ScopedFd directory(openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!directory.valid()) return;
  unlinkat(directory.get(), kAcceptedDirectory, AT_REMOVEDIR);
  unlinkat(directory.get(), kPreloadFileName, 0);
  unlinkat(directory.get(), kCuptiFileName, 0);
  unlinkat(parent, name.c_str(), AT_REMOVEDIR);
}

}  // namespace

bool MayChangeUser() {
  if (geteuid() == 0) return true;
  return HasCapability(ReadText("/proc/self/status"), kCapSetUid);
}

bool IsReadableByAll(const std::string& path) {
  const std::string real = RealPath(path);
  if (real.empty()) return false;
  // Checks the directories of the path itself, and those of the file to which it leads.
  for (const std::string& way : {path.substr(0, path.rfind('/')), real.substr(0, real.rfind('/'))}) {
    for (const std::string& at : Ancestors(way)) {
      struct stat facts;
      if (stat(at.c_str(), &facts) != 0 || (facts.st_mode & S_IXOTH) == 0) return false;
    }
  }
  struct stat facts;
  return stat(real.c_str(), &facts) == 0 && (facts.st_mode & S_IROTH) != 0;
}

std::string LibraryCopy::Place() {
  const std::vector<std::string> places = Places();
  const auto place = std::find_if(places.begin(), places.end(), IsSafePlace);
  return place == places.end() ? "" : RealPath(*place);
}

absl::StatusOr<std::unique_ptr<LibraryCopy>> LibraryCopy::Make(Libraries* libraries) {
  const std::string place = Place();
  if (place.empty()) return Unavailable("no directory that every user can read and that runs programs");
  std::unique_ptr<LibraryCopy> copy(new LibraryCopy());
  // Before the new directory is locked, another launcher may consider it abandoned and remove it.
  for (int attempt = 0; copy->directory_.empty(); ++attempt) {
    std::string made = StrCat(place, "/", kPrefix, "XXXXXX");
    if (attempt == 100 || mkdtemp(made.data()) == nullptr) return absl::ErrnoToStatus(errno, place);
    copy->lock_.Reset(open(made.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat facts;
    const bool locked = copy->lock_.valid() && flock(copy->lock_.get(), LOCK_EX | LOCK_NB) == 0;
    if (locked && stat(made.c_str(), &facts) == 0) copy->directory_ = made;
  }
  const int directory = copy->lock_.get();
  if (absl::Status status = CopyFile(libraries->preload, directory, kPreloadFileName); !status.ok()) return status;
  if (!libraries->cupti.empty()) {
    if (absl::Status status = CopyFile(libraries->cupti, directory, kCuptiFileName); !status.ok()) return status;
  }
  const std::string way = StrCat(kAcceptedDirectory, "/../");
  const bool accepted = libraries->preload.find(StrCat("/", way)) != std::string::npos;
  if (accepted &&
      (mkdirat(directory, kAcceptedDirectory, 0700) != 0 || fchmodat(directory, kAcceptedDirectory, 0755, 0) != 0)) {
    return absl::ErrnoToStatus(errno, copy->directory_);
  }
  if (fchmod(directory, 0711) != 0) return absl::ErrnoToStatus(errno, copy->directory_);
  libraries->directory = copy->directory_;
  libraries->preload = StrCat(copy->directory_, "/", accepted ? way : "", kPreloadFileName);
  if (!libraries->cupti.empty()) libraries->cupti = StrCat(copy->directory_, "/", kCuptiFileName);
  return copy;
}

LibraryCopy::~LibraryCopy() {
  if (directory_.empty()) return;
  const auto needed = NeededCopies();
  if (needed.has_value() && !needed->contains(BaseName(directory_))) Remove(AT_FDCWD, directory_);
}

void LibraryCopy::Sweep() {
  struct Leftover {
    int place;
    std::string name;
    ScopedFd locked;
  };
  std::vector<ScopedDirectory> places;
  std::vector<Leftover> leftovers;
  for (const std::string& path : Places()) {
    DIR* const place = places.emplace_back(opendir(path.c_str())).get();
    if (place == nullptr) continue;
    while (const dirent* entry = leftovers.size() < kMostSwept ? readdir(place) : nullptr) {
      const std::string_view name = entry->d_name;
      if (!name.starts_with(kPrefix) || name.size() != kPrefix.size() + kRandom) continue;
      ScopedFd directory(openat(dirfd(place), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      struct stat facts;
      if (!directory.valid() || fstat(directory.get(), &facts) != 0 || facts.st_uid != geteuid()) continue;
      if (flock(directory.get(), LOCK_EX | LOCK_NB) != 0) continue;
      leftovers.push_back({dirfd(place), std::string(name), std::move(directory)});
    }
  }
  if (leftovers.empty()) return;
  // All copies are locked before /proc is read: a launcher that was alive during the reading, and whose processes may
  // have started after it, still holds the lock of its copy.
  const auto needed = NeededCopies();
  if (!needed.has_value()) return;
  for (const Leftover& leftover : leftovers) {
    if (!needed->contains(leftover.name)) Remove(leftover.place, leftover.name);
  }
}

}  // namespace tbprof
