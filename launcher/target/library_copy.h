// SPDX-License-Identifier: Apache-2.0
//
// Copies the target's libraries to a directory that every user can read. tbprof may be installed below a directory of
// mode 0700 (a home directory, a checkout of root's): a child that changes its user can then not load the library, and
// the dynamic linker prints an error on the program's stderr.
//
//   if (MayChangeUser() && !IsReadableByAll(libraries.preload)) {
//     absl::StatusOr<std::unique_ptr<LibraryCopy>> copy = LibraryCopy::Make(&libraries);
//
// Process: launcher, main thread.
#ifndef TBPROF_LAUNCHER_TARGET_LIBRARY_COPY_H_
#define TBPROF_LAUNCHER_TARGET_LIBRARY_COPY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "launcher/target/libraries.h"
#include "writer/base/scoped.h"

namespace tbprof {

// Whether children of this process may become another user: it is root or has CAP_SETUID.
bool MayChangeUser();
// Checks the permissions of the file and of each directory in its path.
bool IsReadableByAll(const std::string& path);

class LibraryCopy {
 public:
  // Copies into a directory that all users can reach, that is not mounted noexec, and in which no other user can
  // replace the files. Sets the paths of `libraries` to the copy.
  static absl::StatusOr<std::unique_ptr<LibraryCopy>> Make(Libraries* libraries);
  // Removes the copy, unless a process still has it in its environment: the next program of that process would print
  // the error.
  ~LibraryCopy();
  const std::string& directory() const { return directory_; }

  // Removes the copies of this user whose launcher has ended and that no process needs any more.
  static void Sweep();
  // The directory in which Make creates the copy; empty: there is none.
  static std::string Place();

 private:
  LibraryCopy() = default;
  std::string directory_;
  ScopedFd lock_;  // held while the launcher lives
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_TARGET_LIBRARY_COPY_H_
