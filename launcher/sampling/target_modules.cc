// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/target_modules.h"

#include <sys/stat.h>

#include <algorithm>
#include <memory>

#include "launcher/base/proc_files.h"
#include "writer/base/text.h"
#include "writer/symbols/elf_file.h"

namespace tbprof {
namespace {

using std::chrono::milliseconds;

constexpr size_t kMaxFiles = 4096;  // in the cache
constexpr milliseconds kMaxReadDelay(5000);

}  // namespace

std::optional<uint64_t> ModuleFiles::LoadBias(const std::string& path, uint64_t start, uint64_t offset) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  const Key key = {status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
  auto found = files_.find(key);
  if (found == files_.end()) {
    if (files_.size() >= kMaxFiles) files_.clear();
    const std::unique_ptr<ElfFile> file = ElfFile::Open(path);
    found = files_.emplace(key, file == nullptr ? std::vector<ElfFile::Segment>() : file->segments()).first;
  }
  return ElfFile::LoadBias(found->second, start, offset);
}

void TargetModules::AddTo(const FileMapping& mapping, ModuleMap* map) {
  Module module;
  module.path = OpenablePath(mapping, {mapping.path, PathInRoot(pid_, mapping), PathOfRange(pid_, mapping)});
  if (module.path.empty()) return;
  const std::optional<uint64_t> bias = files_.LoadBias(module.path, mapping.start, mapping.offset);
  if (!bias) return;
  module.load_bias = *bias;
  module.start = mapping.start;
  module.end = mapping.end;
  map->Add(std::move(module));
}

void TargetModules::Read() {
  int error = 0;
  const std::vector<FileMapping> mappings = ParseCodeMappings(ReadProcFile(StrCat("/proc/", pid_, "/maps"), &error));
  if (mappings.empty()) return;
  ModuleMap map;
  for (const FileMapping& mapping : mappings) AddTo(mapping, &map);
  map_ = std::move(map);
}

void TargetModules::Add(const FileMapping& mapping) { AddTo(mapping, &map_); }

bool TargetModules::ReadForUnknown(Time now) {
  if (now < next_read_) return false;
  next_read_ = now + delay_;
  delay_ = std::min(delay_ * 2, kMaxReadDelay);
  Read();
  return true;
}

}  // namespace tbprof
