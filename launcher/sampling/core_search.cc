// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/core_search.h"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "writer/base/saturating.h"
#include "writer/base/scoped.h"
#include "writer/base/text.h"

namespace tbprof {
namespace {

constexpr size_t kMaxEntries = 1u << 16;  // that are read of a directory
constexpr size_t kMaxCandidates = 8;
// Timestamps of the file system lag by up to one kernel tick.
constexpr int64_t kClockSlackNs = 50'000'000;

// The files whose name matches `name`, newest first.
std::vector<std::string> Candidates(const std::string& folder, const std::string& name) {
  std::vector<std::pair<int64_t, std::string>> found;
  const ScopedDirectory directory(opendir(folder.empty() ? "/" : folder.c_str()));
  if (directory == nullptr) return {};
  for (size_t i = 0; i < kMaxEntries; ++i) {
    const dirent* const entry = readdir(directory.get());
    if (entry == nullptr) break;
    if (fnmatch(name.c_str(), entry->d_name, FNM_PERIOD) != 0) continue;
    struct stat status;
    if (fstatat(dirfd(directory.get()), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    found.emplace_back(NanosecondsOf(status.st_mtim), entry->d_name);
  }
  std::ranges::sort(found, std::greater<>());
  found.resize(std::min(found.size(), kMaxCandidates));
  std::vector<std::string> paths;
  for (const auto& [changed, entry] : found) paths.push_back(StrCat(folder, "/", entry));
  return paths;
}

// Sets `core` if `path` is the wanted core file. Returns the reason if it is not, else an empty string.
std::string TakeCore(const std::string& path, const CoreSearch& search, std::chrono::steady_clock::time_point until,
                     std::unique_ptr<CoreFile>* core) {
  // O_NONBLOCK: opening a FIFO would block.
  ScopedFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  struct stat status;
  if (fd.get() < 0 || fstat(fd.get(), &status) != 0) return strerror(errno);
  if (!S_ISREG(status.st_mode)) return "it is no regular file";
  if (status.st_uid != geteuid() && status.st_uid != search.user) return "it belongs to another user";
  if (NanosecondsOf(status.st_mtim) < search.begun_ns - kClockSlackNs) return "it is older than the process";
  std::string reason;
  std::unique_ptr<CoreFile> read = CoreFile::Open(std::move(fd), until, &reason);
  if (read == nullptr) return reason;
  const bool has_thread =
      std::ranges::any_of(read->threads(), [&](const CoreFile::Thread& thread) { return thread.tid == search.pid; });
  // The main thread may have ended before the others: the thread list is used only if the notes have no process id.
  if (read->pid() != 0 ? read->pid() != search.pid : !has_thread) return "it is of another process";
  *core = std::move(read);
  return "";
}

FoundCore FindByPath(const std::string& path, const CoreSearch& search, std::chrono::steady_clock::time_point until) {
  FoundCore found;
  const size_t slash = path.rfind('/');
  const std::string folder = UnescapedPath(std::string_view(path).substr(0, slash)), name = path.substr(slash + 1);
  if (HasWildcard(std::string_view(path).substr(0, slash))) {
    found.reason = "core file not looked for: its directory has a name that only the kernel knew (core_pattern)";
    return found;
  }
  std::vector<std::string> paths = {StrCat(folder, "/", UnescapedPath(name))};
  if (HasWildcard(name)) paths = Candidates(folder, name);
  if (paths.empty()) found.reason = StrCat("core file not found: nothing in ", folder, " is called ", name);
  for (const std::string& candidate : paths) {
    const std::string reason = TakeCore(candidate, search, until, &found.core);
    if (found.core != nullptr) {
      found.path = candidate;
      found.reason.clear();
      return found;
    }
    if (found.reason.empty()) found.reason = StrCat("core file ", candidate, " not used: ", reason);
  }
  return found;
}

}  // namespace

FoundCore FindCore(const CoreSearch& search, std::chrono::steady_clock::time_point until) {
  const std::string path = search.pattern.PathOf(search.pid);
  if (!search.pattern.is_relative()) return FindByPath(path, search, until);
  FoundCore found;
  found.reason = "core file not found: the process's working directory is not known";
  bool is_first = true;
  for (const std::string& directory : search.directories) {
    FoundCore here = FindByPath(StrCat(EscapedPath(directory), "/", path), search, until);
    if (here.core != nullptr) return here;
    if (std::exchange(is_first, false)) found.reason = std::move(here.reason);
  }
  return found;
}

}  // namespace tbprof
