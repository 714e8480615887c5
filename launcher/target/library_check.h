// SPDX-License-Identifier: Apache-2.0
//
// Whether the dynamic linker will load a library into the command's processes. Where it refuses, each of them has an
// error of ld.so on its stderr, and where a file is cut short, each dies: so it is found out before.
#ifndef TBPROF_LAUNCHER_TARGET_LIBRARY_CHECK_H_
#define TBPROF_LAUNCHER_TARGET_LIBRARY_CHECK_H_

#include <string>

namespace tbprof {

// Why a library is not to be used: `is cut short`, `needs glibc 2.34, this is 2.31`. Empty: nothing is wrong.
std::string LibraryFault(const std::string& path, const char* glibc_version);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_TARGET_LIBRARY_CHECK_H_
