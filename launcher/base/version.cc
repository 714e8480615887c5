// SPDX-License-Identifier: Apache-2.0
#include "launcher/base/version.h"

#include "launcher/base/text.h"
#include "wire/layout.h"

// CMake sets these.
#ifndef TBPROF_VERSION
#define TBPROF_VERSION "0"
#endif
#ifndef TBPROF_COMMIT
#define TBPROF_COMMIT "unknown"
#endif

namespace tbprof {

std::string_view Version() { return TBPROF_VERSION; }

std::string VersionLine() {
  return StrCat("tbprof ", Version(), " (commit ", TBPROF_COMMIT, ", wire format ", kAbiVersion, ")");
}

}  // namespace tbprof
