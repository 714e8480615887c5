// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/inherited_descriptors.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "writer/base/scoped.h"
#include "writer/base/text_match.h"

namespace tbprof {

InheritedDescriptors::InheritedDescriptors() {
  const ScopedDirectory listing(opendir("/proc/self/fd"));
  if (listing == nullptr) return;
  while (const dirent* entry = readdir(listing.get())) {
    const int fd = atoi(entry->d_name);
    // What exec leaves open has no such flag; what tbprof opens does.
    if (fd > 2 && (fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0) above_two_.push_back(fd);
  }
}

void InheritedDescriptors::Release(const Options& options) const {
  // `--log-file=/dev/fd/5`, `--summary-json=/dev/stdout`: which of them is not worked out.
  const bool named = std::ranges::any_of(options.values, [](const OptionValue& value) {
    return ContainsAny(value.text, {"/fd/", "/dev/std"});
  });
  if (named) return;
  for (const int fd : above_two_) {
    if (fd != options.summary_json_fd) close(fd);
  }
  const ScopedFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null.valid()) return;
  for (const int fd : {0, 1}) {
    // A descriptor that was closed at the start may be a file of tbprof's by now.
    if (fd != options.summary_json_fd && (fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0) dup2(null.get(), fd);
  }
}

}  // namespace tbprof
