// SPDX-License-Identifier: Apache-2.0
//
// The process of the port's worker: limits of its memory and descriptors, and its connections.
//
// Process: the worker of the port.
#ifndef TBPROF_LAUNCHER_SERVICE_SERVICE_PROCESS_H_
#define TBPROF_LAUNCHER_SERVICE_SERVICE_PROCESS_H_

#include <cstdint>
#include <string>

namespace tbprof {

// The highest descriptor of a connection; a higher one is closed. The system assigns the lowest free descriptor, so the
// number limits the connections. gRPC itself would close its listening socket permanently when accept fails for lack of
// descriptors.
inline constexpr int kHighestConnection = 300;

// Limits descriptors and thread stacks, disables core files, and makes the process the first victim of the OOM killer.
// To be called before any thread starts.
void LimitServiceProcess();
// Closes all descriptors from `end` on and redirects 0 to 2 to /dev/null: a process that waits for the end of an
// inherited pipe (such as `tee`) must not wait for the worker.
void LeaveOtherDescriptors(int end);

struct Memory {
  uint64_t resident = 0, data = 0;
};
// `statm`: a descriptor of /proc/self/statm.
Memory MemoryNow(int statm);
// Raises RLIMIT_DATA to the current data size plus `more` bytes; never lowers it, since the memory of a reply is freed
// at an unknown time.
void AllowData(uint64_t more);

// The peer of a connection, such as `127.0.0.1:51234`.
std::string AddressOf(int connection);
// Whether the client has connected to a loopback address of this machine.
bool IsToLoopback(int connection);
// Whether a client is connected: checks the descriptors from `first` on.
bool HasConnections(int first);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SERVICE_SERVICE_PROCESS_H_
