// SPDX-License-Identifier: Apache-2.0
#include "launcher/spools.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "launcher/scoped.h"
#include "launcher/text.h"

namespace tbprof {

std::vector<std::string> FindSpools(const std::string& directory) {
  constexpr std::string_view kSuffix = ".spool";
  std::vector<std::string> spools;
  for (const std::string& place : {directory, StrCat(directory, "/.tbprof")}) {
    DIR* listing = opendir(place.c_str());
    if (listing == nullptr) continue;
    while (const dirent* entry = readdir(listing)) {
      const std::string_view name = entry->d_name;
      if (name.size() > kSuffix.size() && name.ends_with(kSuffix)) spools.push_back(StrCat(place, "/", name));
    }
    closedir(listing);
  }
  std::sort(spools.begin(), spools.end());
  return spools;
}

bool IsSpoolInUse(const std::string& spool) {
  // O_NONBLOCK: the name may be that of a FIFO.
  const ScopedFd file(open(spool.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  return file.valid() && flock(file.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

}  // namespace tbprof
