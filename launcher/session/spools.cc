// SPDX-License-Identifier: Apache-2.0
#include "launcher/session/spools.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "launcher/base/text.h"
#include "writer/base/scoped.h"
#include "writer/base/trusted_path.h"
#include "writer/logdir/logdir.h"

namespace tbprof {

namespace {

// A link of another user may point to a spool of the caller, which would be converted to a place that the other user
// chooses.
bool IsForeignLink(const std::string& path) {
  struct stat facts;
  return lstat(path.c_str(), &facts) == 0 && S_ISLNK(facts.st_mode) && !IsTrustedOwner(facts.st_uid);
}

bool IsLink(const std::string& path) {
  struct stat facts;
  return lstat(path.c_str(), &facts) == 0 && S_ISLNK(facts.st_mode);
}

}  // namespace

std::vector<std::string> FindSpools(const std::string& directory, bool links) {
  constexpr std::string_view kSuffix = ".spool";
  std::vector<std::string> spools;
  std::vector<std::string> places = {directory};
  for (size_t i = 0; i < places.size(); ++i) {
    const std::string place = places[i];
    if (i > 0 && (links ? IsForeignLink(place) : IsLink(place))) continue;
    const ScopedDirectory listing(opendir(place.c_str()));
    if (listing == nullptr) continue;
    while (const dirent* entry = readdir(listing.get())) {
      const std::string_view name = entry->d_name;
      if (name.size() > kSuffix.size() && name.ends_with(kSuffix)) spools.push_back(StrCat(place, "/", name));
      if (i == 0 && IsHiddenDirectory(name)) places.push_back(StrCat(place, "/", name));
    }
  }
  std::sort(spools.begin(), spools.end());
  return spools;
}

bool IsOwnSpool(const std::string& spool) {
  if (IsForeignLink(spool)) return false;
  const ScopedFd file(open(spool.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat facts;
  return file.valid() && fstat(file.get(), &facts) == 0 && S_ISREG(facts.st_mode) && IsTrustedOwner(facts.st_uid) &&
         facts.st_nlink == 1;
}

namespace {

// `kind`: LOCK_EX or LOCK_SH.
std::optional<ScopedFd> OpenLocked(const std::string& spool, int kind) {
  // O_NONBLOCK: the file may be a FIFO.
  ScopedFd file(open(spool.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.valid() && flock(file.get(), kind | LOCK_NB) != 0 && errno == EWOULDBLOCK) return std::nullopt;
  return file;
}

}  // namespace

bool IsSpoolInUse(const std::string& spool) { return !OpenLocked(spool, LOCK_SH).has_value(); }

std::optional<ScopedFd> LockSpool(const std::string& spool) { return OpenLocked(spool, LOCK_EX); }

Storage StorageOf(int fd) {
  struct statfs facts {};
  if (fstatfs(fd, &facts) != 0) return Storage::kDisk;
  // The numbers are Lustre, GPFS and BeeGFS, which linux/magic.h lacks.
  switch (static_cast<unsigned>(facts.f_type)) {
    case TMPFS_MAGIC:
    case RAMFS_MAGIC:
      return Storage::kMemory;
    case NFS_SUPER_MAGIC:
    case SMB_SUPER_MAGIC:
    case CIFS_SUPER_MAGIC:
    case CEPH_SUPER_MAGIC:
    case AFS_SUPER_MAGIC:
    case FUSE_SUPER_MAGIC:
    case SMB2_SUPER_MAGIC:
    case 0x0bd00bd0u:
    case 0x47504653u:
    case 0x19830326u:
      return Storage::kRemote;
    default:
      return Storage::kDisk;
  }
}

Storage StorageOf(const std::string& path) {
  const ScopedFd fd(open(path.c_str(), O_PATH | O_CLOEXEC));
  return StorageOf(fd.get());
}

std::string Existing(std::string path) {
  while (path.size() > 1 && access(path.c_str(), F_OK) != 0)
    path = path.substr(0, std::max<size_t>(path.rfind('/'), 1));
  return path;
}

std::vector<std::string> LocalDirectories() {
  std::vector<std::string> found;
  const char* temporary = getenv("TMPDIR");
  for (const std::string& base :
       {std::string(temporary != nullptr ? temporary : ""), std::string("/var/tmp"), std::string("/tmp")}) {
    if (base.starts_with('/') && access(base.c_str(), W_OK | X_OK) == 0 && StorageOf(base) == Storage::kDisk) {
      found.push_back(base);
    }
  }
  return found;
}

}  // namespace tbprof
