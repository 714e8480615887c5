// SPDX-License-Identifier: Apache-2.0
#include "writer/base/shown_file.h"

#include "writer/base/cell_path.h"
#include "writer/base/text.h"

namespace tbprof {
namespace {

constexpr size_t kLongest = 40;

// The path below the innermost folder of packages; empty: `path` is in none.
std::string_view BelowPackages(std::string_view path) {
  for (const std::string_view folder : {"/site-packages/", "/dist-packages/"}) {
    const size_t at = path.rfind(folder);
    if (at != std::string_view::npos) return path.substr(at + folder.size());
  }
  for (const std::string_view folder : {"/lib/python3", "/lib64/python3", "/lib/pypy3"}) {
    const size_t at = path.rfind(folder);
    const size_t end = at == std::string_view::npos ? at : path.find('/', at + folder.size());
    if (end != std::string_view::npos) return path.substr(end + 1);
  }
  return {};
}

}  // namespace

std::string ShownFile(std::string_view path) {
  if (const auto cell = CellOfPath(path); cell.has_value()) return StrCat("notebook cell ", *cell);
  const std::string_view base = BaseName(path);
  const std::string_view below = BelowPackages(path);
  if (!below.empty()) {
    if (below.size() <= kLongest) return std::string(below);
    const std::string_view package = below.substr(0, below.find('/'));
    return package.size() == below.size() ? std::string(base) : StrCat(package, "/.../", base);
  }
  if (!base.starts_with("__") || base.size() == path.size()) return std::string(base);
  return StrCat(BaseName(path.substr(0, path.size() - base.size() - 1)), "/", base);
}

}  // namespace tbprof
