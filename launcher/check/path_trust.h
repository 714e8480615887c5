// SPDX-License-Identifier: Apache-2.0
//
// Who else may change what a command would touch. A command that `tbprof check` prints is run later, maybe by root: who
// may write to a directory on its way can put a link there in between, and the command follows it.
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

// A directory that others than the caller and root may change.
struct SharedDirectory {
  std::string path;
  std::string who;     // `uid 1000`, `group 100`, `every user`
  std::string advice;  // what to do instead of a command
};

class PathTrust {
 public:
  // Only the caller and root can change the entries of `directory`, or of one that leads to it. Of a directory
  // that does not exist: of the one in which it would be made.
  bool IsOurs(const std::string& directory);

  const std::optional<SharedDirectory>& shared() const { return shared_; }  // the first that was met

 private:
  std::map<std::string, bool> known_;
  std::optional<SharedDirectory> shared_;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_CHECK_PATH_TRUST_H_
