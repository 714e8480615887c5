// SPDX-License-Identifier: Apache-2.0
#include "writer/symbols/notebook_cells.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "writer/base/file_ops.h"
#include "writer/base/scoped.h"
#include "writer/base/text.h"

namespace tbprof {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostNotebooks = 200;
constexpr size_t kLargestNotebook = 64u << 20;
constexpr size_t kMostBytes = 256u << 20;  // of all notebooks together
constexpr size_t kMostCells = 100'000;     // of a notebook

// The text of a notebook file; empty: it cannot be read, or is too large.
std::string TextOf(const std::string& path) {
  const ScopedFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat facts;
  if (!file.valid() || fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) return "";
  if (facts.st_size <= 0 || static_cast<uint64_t>(facts.st_size) > kLargestNotebook) return "";
  std::string text(static_cast<size_t>(facts.st_size), '\0');
  return ReadAll(file.get(), &text, path).ok() ? text : "";
}

// A member of an object; null: there is none.
const Json* Member(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

// The source of a cell: one text, or its lines.
std::string SourceOf(const Json& cell) {
  const Json* const source = Member(cell, "source");
  if (source == nullptr) return "";
  if (source->is_string()) return source->get<std::string>();
  std::string text;
  if (!source->is_array()) return text;
  for (const Json& line : *source) {
    if (line.is_string()) text += line.get_ref<const std::string&>();
  }
  return text;
}

}  // namespace

uint32_t HashOfCell(std::string_view text) {
  constexpr uint32_t kSeed = 0xc70f6907, kFactor = 0x5bd1e995;
  const auto byte = [&](size_t at) { return static_cast<uint32_t>(static_cast<unsigned char>(text[at])); };
  const size_t whole = text.size() & ~size_t{3};
  uint32_t hash = kSeed ^ static_cast<uint32_t>(text.size());
  for (size_t at = 0; at < whole; at += 4) {
    uint32_t word = (byte(at) | byte(at + 1) << 8 | byte(at + 2) << 16 | byte(at + 3) << 24) * kFactor;
    word ^= word >> 24;
    hash = hash * kFactor ^ word * kFactor;
  }
  if (whole != text.size()) {
    uint32_t rest = 0;
    for (size_t at = whole; at < text.size(); ++at) rest |= byte(at) << (8 * (at - whole));
    hash = (hash ^ rest) * kFactor;
  }
  hash = (hash ^ hash >> 13) * kFactor;
  return hash ^ hash >> 15;
}

void NotebookCells::Add(const std::string& path) {
  if (notebooks_.size() >= kMostNotebooks || bytes_ >= kMostBytes || !known_.insert(path).second) return;
  const std::string text = TextOf(path);
  bytes_ += text.size();
  // Outputs are the largest part of a notebook.
  const auto without_outputs = [](int, Json::parse_event_t event, const Json& parsed) {
    return event != Json::parse_event_t::key || parsed != "outputs";
  };
  const Json json = Json::parse(text, without_outputs, /*allow_exceptions=*/false);
  const Json* const cells = Member(json, "cells");
  if (cells == nullptr || !cells->is_array()) return;
  Notebook notebook{path, {}};
  size_t number = 0;
  for (const Json& cell : *cells) {
    const Json* const type = Member(cell, "cell_type");
    if (type == nullptr || *type != "code") continue;
    if (++number > kMostCells) break;
    notebook.cells[HashOfCell(SourceOf(cell))].push_back(number);
  }
  if (!notebook.cells.empty()) notebooks_.push_back(std::move(notebook));
}

void NotebookCells::AddFolder(const std::string& folder) {
  constexpr size_t kMostEntries = 10'000;
  const ScopedFd directory(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK));
  if (!directory.valid()) return;
  std::set<std::string> names;
  ForEachEntry(directory.get(), [&](const char* name) {
    if (std::string_view(name).ends_with(".ipynb") && names.size() < kMostEntries) names.insert(name);
  });
  for (const std::string& name : names) Add(StrCat(folder, folder.ends_with('/') ? "" : "/", name));
}

std::map<uint32_t, std::string> NotebookCells::NamesOf(const std::set<uint32_t>& hashes) const {
  std::vector<std::pair<size_t, const Notebook*>> order;  // number of these cells in a notebook
  for (const Notebook& notebook : notebooks_) {
    const auto has = [&](uint32_t hash) { return notebook.cells.contains(hash); };
    order.emplace_back(static_cast<size_t>(std::count_if(hashes.begin(), hashes.end(), has)), &notebook);
  }
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::map<uint32_t, std::string> names;
  for (const uint32_t hash : hashes) {
    for (const auto& [count, notebook] : order) {
      const auto found = notebook->cells.find(hash);
      if (found == notebook->cells.end()) continue;
      constexpr size_t kMostNamed = 3;
      std::string name = StrCat(notebook->path, " cell ", found->second[0]);
      for (size_t i = 1; i < std::min(found->second.size(), kMostNamed); ++i) {
        StrAppend(&name, " or ", found->second[i]);
      }
      names.emplace(hash, std::move(name));
      break;
    }
  }
  return names;
}

}  // namespace tbprof
