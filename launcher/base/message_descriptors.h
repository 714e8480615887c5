// SPDX-License-Identifier: Apache-2.0
//
// The descriptors that came with a message of a Unix socket.
//
// Process: launcher and service worker.
#ifndef TBPROF_LAUNCHER_BASE_MESSAGE_DESCRIPTORS_H_
#define TBPROF_LAUNCHER_BASE_MESSAGE_DESCRIPTORS_H_

#include <sys/socket.h>

#include <vector>

#include "writer/base/scoped.h"

namespace tbprof {

// `message`: as recvmsg has returned it.
std::vector<ScopedFd> TakeDescriptors(msghdr* message);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_BASE_MESSAGE_DESCRIPTORS_H_
