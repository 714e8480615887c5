// SPDX-License-Identifier: Apache-2.0
#include "launcher/check/path_trust.h"

#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <utility>

#include "launcher/base/text.h"
#include "launcher/check/logdir_paths.h"
#include "writer/base/trusted_path.h"

namespace tbprof {
namespace {

// True for a user's private group: most distributions give each user a group with the user's name and no other member.
// Does not detect other users who have it as their primary group without being listed in it; sshd's StrictModes on
// Debian has the same limit.
bool IsPrivateGroup(gid_t group, uid_t owner) {
  const passwd* user = getpwuid(owner);
  if (user == nullptr || user->pw_gid != group) return false;
  const std::string name = user->pw_name;
  const struct group* entry = getgrgid(group);
  if (entry == nullptr || name != entry->gr_name) return false;
  for (char** member = entry->gr_mem; *member != nullptr; ++member) {
    if (name != *member) return false;
  }
  return true;
}

// With an access list, the group bits of the mode apply to everybody whom the list names.
bool HasAccessList(const std::string& path) {
  return getxattr(path.c_str(), "system.posix_acl_access", nullptr, 0) > 0;
}

// Finds users who may change the entries of a directory. std::nullopt: only the caller and root.
std::optional<SharedDirectory> WhoElse(const std::string& path, const struct stat& facts, bool sticky_is_safe) {
  if (!OthersCanWrite(facts, sticky_is_safe)) return std::nullopt;
  if (!IsTrustedOwner(facts.st_uid)) {
    return SharedDirectory{path, StrCat("uid ", facts.st_uid), "run check as that user"};
  }
  const std::string copy = "copy it without links";
  if ((facts.st_mode & S_IWOTH) != 0) return SharedDirectory{path, "every user", copy};
  const bool is_private = IsPrivateGroup(facts.st_gid, facts.st_uid);
  if (HasAccessList(path)) return SharedDirectory{path, "a user of its ACL", copy};
  if (is_private) return std::nullopt;
  return SharedDirectory{path, StrCat("group ", facts.st_gid), copy};
}

// Checks each directory from the root on; in the last one a sticky bit does not suffice.
class Walk {
 public:
  absl::Status Visit(int fd, const std::string& path) {
    Judge(/*sticky_is_safe=*/true);
    path_ = path;
    seen_ = fstat(fd, &facts_) == 0;
    return absl::OkStatus();
  }
  std::optional<SharedDirectory> Finish() {
    Judge(/*sticky_is_safe=*/false);
    return std::move(shared_);
  }

 private:
  void Judge(bool sticky_is_safe) {
    if (seen_ && !shared_.has_value()) shared_ = WhoElse(path_, facts_, sticky_is_safe);
  }

  std::string path_;
  struct stat facts_ {};
  bool seen_ = false;
  std::optional<SharedDirectory> shared_;
};

}  // namespace

bool PathTrust::IsOurs(const std::string& directory) {
  const auto known = known_.find(directory);
  if (known != known_.end()) return known->second;
  Walk judge;
  DirectoryWalk walk;
  walk.visit = [&](int fd, const std::string& path) { return judge.Visit(fd, path); };
  std::string existing = directory.empty() ? "/" : directory;
  struct stat facts;
  while (existing != "/" && lstat(existing.c_str(), &facts) != 0) {
    existing = ParentOf(existing).empty() ? "/" : ParentOf(existing);
  }
  const auto opened = OpenDirectoryTrusted(existing, walk);
  std::optional<SharedDirectory> shared = judge.Finish();
  if (!shared.has_value() && !opened.ok() && IsUntrusted(opened.status())) {
    shared = SharedDirectory{existing, "a link's owner", "name it without that link"};
  }
  const bool ours = !shared.has_value();
  if (!ours && !shared_.has_value()) shared_ = std::move(shared);
  known_[directory] = ours;
  return ours;
}

}  // namespace tbprof
