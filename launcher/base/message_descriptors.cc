// SPDX-License-Identifier: Apache-2.0
#include "launcher/base/message_descriptors.h"

#include <cstddef>
#include <cstring>

namespace tbprof {

std::vector<ScopedFd> TakeDescriptors(msghdr* message) {
  std::vector<ScopedFd> descriptors;
  for (cmsghdr* entry = CMSG_FIRSTHDR(message); entry != nullptr; entry = CMSG_NXTHDR(message, entry)) {
    if (entry->cmsg_level != SOL_SOCKET || entry->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (entry->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      memcpy(&fd, CMSG_DATA(entry) + i * sizeof(int), sizeof(int));
      descriptors.emplace_back(fd);
    }
  }
  return descriptors;
}

}  // namespace tbprof
