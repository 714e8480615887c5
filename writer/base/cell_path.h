// SPDX-License-Identifier: Apache-2.0
//
// The file name that IPython's kernel gives to the code of a notebook's cell: `/tmp/ipykernel_4711/3338075097.py`, with
// the process of the kernel and a hash of the cell's text.
//
//   CellOfPath("/tmp/ipykernel_4711/3338075097.py")  // 3338075097
//
// Process: launcher and converter. Pure functions.
#ifndef TBPROF_WRITER_BASE_CELL_PATH_H_
#define TBPROF_WRITER_BASE_CELL_PATH_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "writer/base/parse_number.h"

namespace tbprof {

// The hash; std::nullopt: another file.
inline std::optional<uint32_t> CellOfPath(std::string_view path) {
  const size_t name = path.rfind('/');
  if (name == std::string_view::npos || !path.ends_with(".py")) return std::nullopt;
  const std::string_view folder = path.substr(0, name);
  if (!folder.substr(folder.rfind('/') + 1).starts_with("ipykernel_")) return std::nullopt;
  const std::string_view digits = path.substr(name + 1, path.size() - name - 4);
  return ParseNumber<uint32_t>(digits);
}

// Whether the file is a cell, under that name or under the one that the converter gives it: `train.ipynb cell 3`.
inline bool IsCell(std::string_view file) {
  return CellOfPath(file).has_value() || file.find(".ipynb cell ") != std::string_view::npos;
}

}  // namespace tbprof

#endif  // TBPROF_WRITER_BASE_CELL_PATH_H_
