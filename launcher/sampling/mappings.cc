// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/mappings.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <system_error>

#include "writer/base/parse_number.h"
#include "writer/base/text.h"

namespace tbprof {
namespace {

// Takes a hexadecimal number and the character behind it.
bool TakeHex(std::string_view* text, char behind, uint64_t* number) {
  const char* const end = text->data() + text->size();
  const auto [at, error] = std::from_chars(text->data(), end, *number, 16);
  if (error != std::errc() || at == end || *at != behind) return false;
  text->remove_prefix(static_cast<size_t>(at - text->data()) + 1);
  return true;
}

std::string_view TakeWord(std::string_view* text) {
  const std::string_view word = text->substr(0, text->find(' '));
  text->remove_prefix(std::min(word.size() + 1, text->size()));
  return word;
}

// `START-END PERMISSIONS OFFSET DEVICE INODE   PATH`
std::optional<MapsLine> ParseMapsLine(std::string_view text) {
  MapsLine line;
  if (!TakeHex(&text, '-', &line.start) || !TakeHex(&text, ' ', &line.end)) return std::nullopt;
  const std::string_view permissions = TakeWord(&text);
  if (permissions.size() < 3 || line.start >= line.end || !TakeHex(&text, ' ', &line.offset)) return std::nullopt;
  line.readable = permissions[0] == 'r';
  line.executable = permissions[2] == 'x';
  TakeWord(&text);  // the device
  const std::optional<uint64_t> inode = TakeNumber<uint64_t>(&text);
  if (!inode) return std::nullopt;
  line.inode = *inode;
  line.path = text.substr(std::min(text.find_first_not_of(' '), text.size()));
  return line;
}

bool IsFile(const MapsLine& line) { return line.inode != 0 && line.path.starts_with('/'); }

FileMapping ToFileMapping(const MapsLine& line) {
  return {line.start, line.end, line.offset, line.inode, std::string(line.path)};
}

}  // namespace

std::optional<MapsLine> TakeMapsLine(std::string_view* maps) {
  while (!maps->empty()) {
    const std::string_view text = maps->substr(0, maps->find('\n'));
    maps->remove_prefix(std::min(text.size() + 1, maps->size()));
    if (const std::optional<MapsLine> line = ParseMapsLine(text)) return line;
  }
  return std::nullopt;
}

std::vector<FileMapping> ParseCodeMappings(std::string_view maps) {
  std::vector<FileMapping> mappings;
  while (const std::optional<MapsLine> line = TakeMapsLine(&maps)) {
    if (line->executable && IsFile(*line)) mappings.push_back(ToFileMapping(*line));
  }
  return mappings;
}

std::vector<FileMapping> ParseMappedFiles(std::string_view maps) {
  std::vector<FileMapping> files;
  while (const std::optional<MapsLine> line = TakeMapsLine(&maps)) {
    const bool is_new = IsFile(*line) && std::none_of(files.begin(), files.end(), [&](const FileMapping& file) {
                          return file.inode == line->inode && file.path == line->path;
                        });
    if (is_new) files.push_back(ToFileMapping(*line));
  }
  return files;
}

std::string PathInRoot(pid_t pid, const FileMapping& mapping) { return StrCat("/proc/", pid, "/root", mapping.path); }

std::string PathOfRange(pid_t pid, const FileMapping& mapping) {
  char range[64];
  snprintf(range, sizeof(range), "%lx-%lx", static_cast<unsigned long>(mapping.start),
           static_cast<unsigned long>(mapping.end));
  return StrCat("/proc/", pid, "/map_files/", range);
}

std::string OpenablePath(const FileMapping& mapping, std::initializer_list<std::string> paths) {
  for (const std::string& path : paths) {
    struct stat facts;
    if (stat(path.c_str(), &facts) == 0 && facts.st_ino == mapping.inode && access(path.c_str(), R_OK) == 0) {
      return path;
    }
  }
  return "";
}

}  // namespace tbprof
