// SPDX-License-Identifier: Apache-2.0
//
// Where the libraries are that go into the target: ../lib/tbprof beside the directory of this program, in the build
// tree and after installation. TBPROF_LIBRARY_DIR names another directory (tests). A package has them a second time, in
// glibc-2.17/ there, for glibc before 2.34 (docs/decisions/039-packages-for-old-glibc.md).
#ifndef TBPROF_LAUNCHER_TARGET_LIBRARIES_H_
#define TBPROF_LAUNCHER_TARGET_LIBRARIES_H_

#include <string>

#include "absl/status/statusor.h"
#include "launcher/cli/options.h"

namespace tbprof {

// Beside the libraries; holds nothing that is loaded (docs/decisions/014-a-name-that-asan-accepts.md).
inline constexpr char kAcceptedDirectory[] = "libasan.so-accepts";

struct Libraries {
  std::string directory;  // absolute
  std::string preload;    // .../libtbprof_preload.so, readable, fit for LD_PRELOAD (no blank, colon or dollar sign)
  std::string cupti;      // .../libtbprof_cupti.so; empty: unavailable
  std::string no_cupti;   // why: `no libtbprof_cupti.so in /usr/lib/tbprof`
  bool for_older_glibc = false;  // those of a package for glibc before 2.34
};

absl::StatusOr<Libraries> FindLibraries(const Environment& environment);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_TARGET_LIBRARIES_H_
