// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/notebook_names.h"

#include <map>
#include <set>
#include <string_view>

#include "writer/base/cell_path.h"
#include "writer/base/text.h"
#include "writer/symbols/notebook_cells.h"

namespace tbprof {
namespace {

// The cells of a process: paths of their code by hash.
std::map<uint32_t, std::set<std::string>> CellsOf(const PythonProcessFacts& process) {
  std::map<uint32_t, std::set<std::string>> cells;
  for (const PythonCode& code : process.codes) {
    if (const auto cell = CellOfPath(code.file); cell.has_value()) cells[*cell].insert(code.file);
  }
  return cells;
}

// Arguments of programs that are notebooks: `jupyter nbconvert --execute train.ipynb`, `papermill in.ipynb out.ipynb`.
std::vector<std::string> NotebookArguments(const std::vector<std::string>& command, const SpoolFacts& facts) {
  constexpr size_t kMost = 100;
  std::vector<std::string> notebooks;
  const auto add = [&](const std::vector<std::string>& arguments) {
    for (const std::string& argument : arguments) {
      if (argument.ends_with(".ipynb") && notebooks.size() < kMost) notebooks.push_back(argument);
    }
  };
  add(command);
  for (const auto& [identity, process] : facts.processes) add(process.arguments);
  return notebooks;
}

}  // namespace

void NameNotebookCells(const std::vector<std::string>& command, SpoolFacts* facts) {
  std::map<std::string, std::string> names;  // by path of the code
  std::vector<std::string> arguments;
  NotebookCells notebooks;
  for (const auto& [identity, process] : facts->python.processes()) {
    if (process.directories.empty()) continue;
    const std::map<uint32_t, std::set<std::string>> cells = CellsOf(process);
    if (cells.empty()) continue;
    if (arguments.empty()) arguments = NotebookArguments(command, *facts);
    for (const std::string& directory : process.directories) {
      for (const std::string& argument : arguments) {
        notebooks.Add(argument[0] == '/' ? argument : StrCat(directory, "/", argument));
      }
      notebooks.AddFolder(directory);
    }
    std::set<uint32_t> hashes;
    for (const auto& [hash, paths] : cells) hashes.insert(hash);
    for (const auto& [hash, name] : notebooks.NamesOf(hashes)) {
      for (const std::string& path : cells.at(hash)) names.emplace(path, name);
    }
  }
  if (names.empty()) return;
  facts->python.RenameFiles(names);
  for (auto& [identity, process] : facts->processes) {
    for (auto& [address, codes] : process.python_codes) {
      for (PythonCodeAt& at : codes) {
        if (const auto found = names.find(at.code.file); found != names.end()) at.code.file = found->second;
      }
    }
  }
}

}  // namespace tbprof
