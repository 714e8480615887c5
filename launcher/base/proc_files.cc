// SPDX-License-Identifier: Apache-2.0
#include "launcher/base/proc_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "launcher/base/text.h"
#include "writer/base/scoped.h"

namespace tbprof {
namespace {

std::string ReadAll(int file, size_t most_bytes) {
  std::string text;
  char buffer[1 << 14];
  while (text.size() < most_bytes) {
    const ssize_t size = read(file, buffer, sizeof(buffer));
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    text.append(buffer, static_cast<size_t>(size));
  }
  return text;
}

}  // namespace

std::string ReadText(const std::string& path) {
  constexpr size_t kMostBytes = 64 << 20;
  const ScopedFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat facts;
  if (!file.valid() || fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) return "";
  return ReadAll(file.get(), kMostBytes);
}

std::string ReadProcFile(const std::string& path, int* error) {
  constexpr size_t kMostBytes = 16 << 20;
  const ScopedFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  *error = file.valid() ? 0 : errno;
  return file.valid() ? ReadAll(file.get(), kMostBytes) : "";
}

std::string LinkText(const std::string& path) {
  char text[PATH_MAX];
  const ssize_t length = readlink(path.c_str(), text, sizeof(text));
  const bool is_whole = length > 0 && static_cast<size_t>(length) < sizeof(text);
  return is_whole ? std::string(text, static_cast<size_t>(length)) : "";
}

std::vector<int> NumbersIn(const std::string& directory) {
  std::vector<int> numbers;
  const ScopedDirectory listing(opendir(directory.c_str()));
  if (listing == nullptr) return numbers;
  while (const dirent* entry = readdir(listing.get())) {
    const int number = atoi(entry->d_name);
    if (number > 0) numbers.push_back(number);
  }
  return numbers;
}

std::vector<pid_t> Pids() { return NumbersIn("/proc"); }

std::vector<pid_t> TasksOf(pid_t pid) { return NumbersIn(StrCat("/proc/", pid, "/task")); }

std::string StatusField(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const size_t colon = line.find(':');
    if (colon != std::string_view::npos && Strip(line.substr(0, colon)) == name) {
      return std::string(Strip(line.substr(colon + 1)));
    }
  }
  return "";
}

std::optional<std::array<unsigned, 3>> StatusIds(std::string_view text, std::string_view name) {
  std::array<unsigned, 3> ids{};
  const std::string field = StatusField(text, name);
  if (sscanf(field.c_str(), "%u %u %u", &ids[0], &ids[1], &ids[2]) != 3) return std::nullopt;
  return ids;
}

std::optional<bool> StatusBit(std::string_view text, std::string_view name, int bit) {
  const std::string field = StatusField(text, name);
  if (field.empty()) return std::nullopt;
  return bit >= 0 && bit < 64 && (strtoull(field.c_str(), nullptr, 16) >> bit & 1) != 0;
}

bool HasCapability(std::string_view text, int capability) {
  return StatusBit(text, "CapEff", capability).value_or(false);
}

}  // namespace tbprof
