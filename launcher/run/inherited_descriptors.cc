// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/inherited_descriptors.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "launcher/base/proc_files.h"
#include "launcher/base/text.h"
#include "writer/base/scoped.h"
#include "writer/base/text_match.h"

namespace tbprof {
namespace {

bool IsPlaceOfDescriptors(std::string_view path) { return StartsWithAny(path, {"/dev/fd/", "/dev/std", "/proc/"}); }

// `/dev/fd/5`, `/dev/stdout`, or a symbolic link to one.
bool NamesADescriptor(const std::string& path) {
  return IsPlaceOfDescriptors(path) || IsPlaceOfDescriptors(LinkText(path));
}

// Closing any descriptor of a file releases the process's own locks on it (fcntl, lockf). The command does not have
// them: a fork does not pass them on.
bool HoldsALock(int fd) { return ReadText(StrCat("/proc/self/fdinfo/", fd)).find("POSIX") != std::string::npos; }

}  // namespace

InheritedDescriptors::InheritedDescriptors() {
  for (const int fd : NumbersIn("/proc/self/fd")) {
    // What exec leaves open has no such flag; what tbprof opens does.
    if (fd > 2 && (fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0) above_two_.push_back(fd);
  }
}

void InheritedDescriptors::Release(const Options& options) const {
  // Which of them is named is not worked out.
  const bool named =
      std::ranges::any_of(options.values, [](const OptionValue& value) { return NamesADescriptor(value.text); });
  if (named || HoldsALock(0) || HoldsALock(1) || std::ranges::any_of(above_two_, HoldsALock)) return;
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
