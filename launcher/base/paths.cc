// SPDX-License-Identifier: Apache-2.0
#include "launcher/base/paths.h"

#include <cstdlib>
#include <memory>

#include "launcher/base/text.h"

namespace tbprof {

std::string ParentOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? std::string_view() : path.substr(0, slash));
}

std::string JoinPath(std::string_view directory, std::string_view name) {
  if (directory == "/") return StrCat("/", name);
  return directory.empty() ? std::string(name) : StrCat(directory, "/", name);
}

bool EndsWithPath(std::string_view path, std::string_view end) {
  return path == end || (path.ends_with(end) && path[path.size() - end.size() - 1] == '/');
}

bool IsWithin(std::string_view path, std::string_view directory) {
  return path == directory || directory.empty() || path.starts_with(StrCat(directory, "/"));
}

std::string RealPath(const std::string& path) {
  const std::unique_ptr<char, decltype(&free)> real(realpath(path.c_str(), nullptr), &free);
  return real == nullptr ? "" : real.get();
}

}  // namespace tbprof
