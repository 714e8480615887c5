// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/target_modules.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "launcher/sampling/target_memory.h"
#include "writer/symbols/elf_file.h"

namespace tbprof {
namespace {

using std::chrono::milliseconds;

constexpr size_t kMaxFiles = 4096;  // in the cache
constexpr milliseconds kMaxReadDelay(5000);

}  // namespace

std::vector<CodeMapping> ParseCodeMappings(std::string_view maps) {
  std::vector<CodeMapping> mappings;
  while (!maps.empty()) {
    const size_t end = std::min(maps.find('\n'), maps.size());
    const std::string line(maps.substr(0, end));
    maps.remove_prefix(std::min(end + 1, maps.size()));
    CodeMapping mapping;
    unsigned long start = 0, stop = 0, offset = 0, inode = 0;
    char access[8] = "";
    int path = 0;
    if (sscanf(line.c_str(), "%lx-%lx %7s %lx %*s %lu %n", &start, &stop, access, &offset, &inode, &path) < 5) continue;
    if (access[0] == '\0' || access[1] == '\0' || access[2] != 'x' || inode == 0 || path == 0 || start >= stop)
      continue;
    if (line[static_cast<size_t>(path)] != '/') continue;
    mappings.push_back({start, stop, offset, inode, line.substr(static_cast<size_t>(path))});
  }
  return mappings;
}

bool ModuleFiles::AddressOf(const std::string& path, uint64_t offset, uint64_t* difference) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
  const Key key = {status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
  auto found = files_.find(key);
  if (found == files_.end()) {
    if (files_.size() >= kMaxFiles) files_.clear();
    found = files_.emplace(key, std::vector<Segment>()).first;
    const std::unique_ptr<ElfFile> file = ElfFile::Open(path);
    if (file != nullptr) {
      for (const ElfFile::Segment& segment : file->segments()) {
        if (!segment.executable) continue;
        const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
        found->second.push_back(
            {segment.offset / page * page, segment.offset + segment.file_size, segment.address - segment.offset});
      }
    }
  }
  for (const Segment& segment : found->second) {
    if (offset < segment.offset || offset >= segment.end) continue;
    *difference = segment.difference;
    return true;
  }
  return false;
}

// A file in a container is opened through the process's root, and a replaced file through its mapping.
std::string TargetModules::OpenablePath(const CodeMapping& mapping) const {
  const std::string proc = "/proc/" + std::to_string(pid_);
  char range[64];
  snprintf(range, sizeof(range), "/map_files/%lx-%lx", static_cast<unsigned long>(mapping.start),
           static_cast<unsigned long>(mapping.end));
  for (std::string path : {mapping.path, proc + "/root" + mapping.path, proc + range}) {
    struct stat status;
    if (stat(path.c_str(), &status) == 0 && status.st_ino == mapping.inode && access(path.c_str(), R_OK) == 0) {
      return path;
    }
  }
  return "";
}

void TargetModules::AddTo(const CodeMapping& mapping, ModuleMap* map) {
  Module module;
  uint64_t difference;
  module.path = OpenablePath(mapping);
  if (module.path.empty() || !files_.AddressOf(module.path, mapping.offset, &difference)) return;
  module.load_bias = mapping.start - mapping.offset - difference;
  module.start = mapping.start;
  module.end = mapping.end;
  map->Add(std::move(module));
}

void TargetModules::Read() {
  int error = 0;
  const std::vector<CodeMapping> mappings =
      ParseCodeMappings(ReadProcFile("/proc/" + std::to_string(pid_) + "/maps", &error));
  if (mappings.empty()) return;
  ModuleMap map;
  for (const CodeMapping& mapping : mappings) AddTo(mapping, &map);
  map_ = std::move(map);
}

void TargetModules::Add(const CodeMapping& mapping) { AddTo(mapping, &map_); }

bool TargetModules::ReadForUnknown(Time now) {
  if (now < next_read_) return false;
  next_read_ = now + delay_;
  delay_ = std::min(delay_ * 2, kMaxReadDelay);
  Read();
  return true;
}

}  // namespace tbprof
