// SPDX-License-Identifier: Apache-2.0
#include "launcher/base/text.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "writer/base/scoped.h"

namespace tbprof {

std::string ReadText(const std::string& path) {
  constexpr size_t kMostBytes = 64 << 20;
  const ScopedFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat facts;
  std::string text;
  if (!file.valid() || fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) return text;
  char buffer[1 << 14];
  while (text.size() < kMostBytes) {
    const ssize_t size = read(file.get(), buffer, sizeof(buffer));
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    text.append(buffer, static_cast<size_t>(size));
  }
  return text;
}

}  // namespace tbprof
