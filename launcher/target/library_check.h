// SPDX-License-Identifier: Apache-2.0
//
// Checks before the start whether the dynamic linker can load a library into the command's processes. If it refuses,
// each process prints an error of ld.so on its stderr; if the file is truncated, each process dies.
#ifndef TBPROF_LAUNCHER_TARGET_LIBRARY_CHECK_H_
#define TBPROF_LAUNCHER_TARGET_LIBRARY_CHECK_H_

#include <string>

namespace tbprof {

// The reason why a library cannot be used: `is cut short`, `needs glibc 2.34, this is 2.31`. Empty: it can be used.
std::string LibraryFault(const std::string& path, const char* glibc_version);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_TARGET_LIBRARY_CHECK_H_
