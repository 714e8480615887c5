// SPDX-License-Identifier: Apache-2.0
//
// Finds other users who may change a directory that a command touches. A command that `tbprof check` prints is run
// later, maybe by root: a user who may write to a directory on its path can put a link there in between, and the
// command follows it.
//
//   PathTrust trust;
//   if (!trust.IsOurs("/logs/plugins/profile")) ...   // trust.shared(): which one, and who
//
// Process: launcher, for `tbprof check`. Not thread-safe.
#ifndef TBPROF_LAUNCHER_CHECK_PATH_TRUST_H_
#define TBPROF_LAUNCHER_CHECK_PATH_TRUST_H_

#include <map>
#include <optional>
#include <string>

namespace tbprof {

// A directory that users other than the caller and root may change.
struct SharedDirectory {
  std::string path;
  std::string who;     // `uid 1000`, `group 100`, `every user`
  std::string advice;  // the alternative to a command
};

class PathTrust {
 public:
  // True: only the caller and root can change the entries of `directory` and of the directories that lead to it. If it
  // does not exist: of the directory in which it would be created.
  bool IsOurs(const std::string& directory);

  const std::optional<SharedDirectory>& shared() const { return shared_; }  // the first one that was found

 private:
  std::map<std::string, bool> known_;
  std::optional<SharedDirectory> shared_;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_CHECK_PATH_TRUST_H_
