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

constexpr size_t kMostFiles = 400;
constexpr size_t kLargestNotebook = 64u << 20;
constexpr size_t kMostBytes = 256u << 20;  // of all notebooks together
constexpr size_t kMostCells = 100'000;     // of a notebook
constexpr int kDeepest = 1000;

// The text of a notebook file; empty: it cannot be read, or is too large. What is no plain file is not opened: a device
// or a FIFO would notice.
std::string TextOf(const std::string& path) {
  const ScopedFd place(open(path.c_str(), O_PATH | O_CLOEXEC));
  struct stat facts;
  if (!place.valid() || fstat(place.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) return "";
  if (facts.st_size <= 0 || static_cast<uint64_t>(facts.st_size) > kLargestNotebook) return "";
  const ScopedFd file(open(StrCat("/proc/self/fd/", place.get()).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) return "";
  std::string text(static_cast<size_t>(facts.st_size), '\0');
  return ReadAll(file.get(), &text, path).ok() ? text : "";
}

// Takes the code cells of a notebook while it is parsed, and keeps nothing else of it: `cells` of the outermost object,
// of each its `cell_type`, and its `source`, one text or its lines.
class CellReader : public nlohmann::json_sax<Json> {
 public:
  // By hash: numbers of the code cells.
  std::map<uint32_t, std::vector<size_t>> cells;
  bool stopped = false;  // there were more than are read

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool string(string_t& text) override {
    if (!in_cells_ || depth_ < kOfCell) return true;
    if (depth_ == kOfCell && key_ == Key::kType) is_code_ = text == "code";
    if (key_ == Key::kSource && depth_ <= kOfCell + 1) source_ += text;
    return true;
  }
  bool key(string_t& name) override {
    if (depth_ == 1) is_key_of_cells_ = name == "cells";
    if (depth_ == kOfCell) key_ = name == "cell_type" ? Key::kType : name == "source" ? Key::kSource : Key::kOther;
    return true;
  }
  bool start_object(size_t) override {
    if (++depth_ > kDeepest) return false;
    if (depth_ == kOfCell) {
      is_code_ = false;
      key_ = Key::kOther;
      source_.clear();
    }
    return true;
  }
  bool end_object() override {
    if (depth_-- != kOfCell || !in_cells_ || !is_code_) return true;
    cells[HashOfCell(source_)].push_back(++number_);
    stopped = number_ >= kMostCells;
    return !stopped;
  }
  bool start_array(size_t) override {
    if (++depth_ > kDeepest) return false;
    if (depth_ == kOfCells && is_key_of_cells_) in_cells_ = true;
    return true;
  }
  bool end_array() override {
    if (depth_-- == kOfCells) in_cells_ = false;
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  enum class Key { kOther, kType, kSource };
  static constexpr int kOfCells = 2, kOfCell = 3;  // depth within the array of the cells, and within a cell

  int depth_ = 0;
  bool is_key_of_cells_ = false, in_cells_ = false, is_code_ = false;
  Key key_ = Key::kOther;
  std::string source_;
  size_t number_ = 0;
};

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
  if (!path.ends_with(".ipynb") || opened_ >= kMostFiles || bytes_ >= kMostBytes) return;
  if (!known_.insert(path).second) return;
  ++opened_;
  const std::string text = TextOf(path);
  bytes_ += text.size();
  CellReader reader;
  const bool parsed = Json::sax_parse(text, &reader);
  if ((parsed || reader.stopped) && !reader.cells.empty()) notebooks_.push_back({path, std::move(reader.cells)});
}

void NotebookCells::AddFolder(const std::string& folder) {
  constexpr size_t kMostEntries = 10'000;
  if (!folders_.insert(folder).second) return;
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
