// SPDX-License-Identifier: Apache-2.0
//
// Spools that lie in a directory, and whether a launcher still writes them.
//
// Process: launcher.
#ifndef TBPROF_LAUNCHER_SPOOLS_H_
#define TBPROF_LAUNCHER_SPOOLS_H_

#include <string>
#include <vector>

namespace tbprof {

// `directory` itself and its `.tbprof`, sorted.
std::vector<std::string> FindSpools(const std::string& directory);

// Held by the launcher that writes it.
bool IsSpoolInUse(const std::string& spool);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SPOOLS_H_
