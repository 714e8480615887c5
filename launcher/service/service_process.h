// SPDX-License-Identifier: Apache-2.0
//
// The worker of the port as a process: what memory and which descriptors it may have, and who is connected to it.
//
// Process: the worker of the port.
#ifndef TBPROF_LAUNCHER_SERVICE_SERVICE_PROCESS_H_
#define TBPROF_LAUNCHER_SERVICE_SERVICE_PROCESS_H_

#include <cstdint>
#include <string>

namespace tbprof {

// Of connections: the system hands out the lowest free descriptor, so a higher one shows how many there are. gRPC
// itself closes its listening socket for good when accept fails for want of descriptors.
inline constexpr int kHighestConnection = 300;

// Descriptors, stacks, no core file, first to go when memory runs out. Before any thread.
void LimitServiceProcess();
// A process that waits for the end of what the launcher was given (a pipe to `tee`) must not wait for us: closes all
// from `end` on, and the standard ones.
void LeaveOtherDescriptors(int end);

struct Memory {
  uint64_t resident = 0, data = 0;
};
// `statm`: /proc/self/statm, open.
Memory MemoryNow(int statm);
// Raises what the process may take to what it has and `more`; never lowers it, for what a reply took is given back at
// an unknown time.
void AllowData(uint64_t more);

// `127.0.0.1:51234` of a connection's peer.
std::string AddressOf(int connection);
// Whether the client has connected to a loopback address of this machine.
bool IsToLoopback(int connection);
// Whether anybody is connected, by descriptors from `first` on.
bool HasConnections(int first);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SERVICE_SERVICE_PROCESS_H_
