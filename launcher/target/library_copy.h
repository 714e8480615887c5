// SPDX-License-Identifier: Apache-2.0
//
// A copy of the target's libraries that every user can read. tbprof may lie below a directory of mode 0700 (a home
// directory, a checkout of root's): a child that drops its user can then not load the library, and the dynamic linker
// prints an error on the program's stderr.
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
#include "launcher/base/scoped.h"
#include "launcher/target/libraries.h"

namespace tbprof {

// Whether children of this process may become another user: it is root or has CAP_SETUID.
bool MayChangeUser();
// By the permissions of the file and of each directory on its way.
bool IsReadableByAll(const std::string& path);

class LibraryCopy {
 public:
  // Into a directory that all can read, that runs programs, and in which nobody else can put another file in place of
  // ours. Sets the paths of `libraries` to the copy.
  static absl::StatusOr<std::unique_ptr<LibraryCopy>> Make(Libraries* libraries);
  // Removes it, unless a process still has it in its environment: its next program would print the error.
  ~LibraryCopy();
  const std::string& directory() const { return directory_; }

  // Removes copies of this user that were left by launchers that are gone and that no process needs any more.
  static void Sweep();
  // Where Make puts the copy; empty: nowhere.
  static std::string Place();

 private:
  LibraryCopy() = default;
  std::string directory_;
  ScopedFd lock_;  // held while the launcher lives
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_TARGET_LIBRARY_COPY_H_
