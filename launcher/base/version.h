// SPDX-License-Identifier: Apache-2.0
#ifndef TBPROF_LAUNCHER_BASE_VERSION_H_
#define TBPROF_LAUNCHER_BASE_VERSION_H_

#include <string>
#include <string_view>

namespace tbprof {

// `tbprof 0.1.0 (commit abc, wire format 1)`.
std::string VersionLine();
std::string_view Version();

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_BASE_VERSION_H_
