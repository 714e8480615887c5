// SPDX-License-Identifier: Apache-2.0
//
// Parts of paths, computed from their text only.
#ifndef TBPROF_LAUNCHER_BASE_PATHS_H_
#define TBPROF_LAUNCHER_BASE_PATHS_H_

#include <string>
#include <string_view>

namespace tbprof {

std::string ParentOf(std::string_view path);  // "" for a path without a slash
std::string JoinPath(std::string_view directory, std::string_view name);
// True: `path` ends with these components.
bool EndsWithPath(std::string_view path, std::string_view end);
// True: `path` is `directory` or below it.
bool IsWithin(std::string_view path, std::string_view directory);
// Without links; empty: the path does not exist or may not be read.
std::string RealPath(const std::string& path);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_BASE_PATHS_H_
