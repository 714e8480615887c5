// SPDX-License-Identifier: Apache-2.0
//
// Finds the libraries that are loaded into the target: in ../lib/tbprof beside the directory of this program, in the
// build tree and after installation. TBPROF_LIBRARY_DIR names another directory (tests). A package contains a second
// set in the subdirectory glibc-2.17/, for glibc before 2.34 (docs/decisions/039-packages-for-old-glibc.md).
#ifndef TBPROF_LAUNCHER_TARGET_LIBRARIES_H_
#define TBPROF_LAUNCHER_TARGET_LIBRARIES_H_

#include <string>

#include "absl/status/statusor.h"
#include "launcher/cli/options.h"

namespace tbprof {

// A directory beside the libraries; no file in it is loaded (docs/decisions/014-a-name-that-asan-accepts.md).
inline constexpr char kAcceptedDirectory[] = "libasan.so-accepts";

struct Libraries {
  std::string directory;  // absolute
  std::string preload;    // .../libtbprof_preload.so, readable, valid in LD_PRELOAD (no blank, colon or dollar sign)
  std::string cupti;      // .../libtbprof_cupti.so; empty: unavailable
  std::string no_cupti;   // why `cupti` is empty: `no libtbprof_cupti.so in /usr/lib/tbprof`
  bool for_older_glibc = false;  // a package's set for glibc before 2.34
};

// The directory of tbprof's executable; empty: not known. After an upgrade during a run its link is `... (deleted)`:
// the directory then contains the new program and the libraries that belong to it.
std::string OwnDirectory();

absl::StatusOr<Libraries> FindLibraries(const Environment& environment);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_TARGET_LIBRARIES_H_
