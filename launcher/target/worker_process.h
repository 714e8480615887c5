// SPDX-License-Identifier: Apache-2.0
//
// A worker of the launcher: this executable again, with an argument that only the launcher gives.
//
//   const absl::StatusOr<pid_t> pid = StartWorker({kWorkerArgument}, {{input.get(), 3}}, blocked, "cannot ...");
//
// It is no target, and has none of the user's preloads nor what the user tells his own gRPC in its environment.
// Whoever has started it waits for its end.
//
// Process: launcher, main thread.
#ifndef TBPROF_LAUNCHER_TARGET_WORKER_PROCESS_H_
#define TBPROF_LAUNCHER_TARGET_WORKER_PROCESS_H_

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tbprof {

struct WorkerDescriptor {
  int fd;
  int as;  // its number in the worker, below 32
};

// `blocked`: signals that the worker is not to see. `failure`: what an error begins with.
absl::StatusOr<pid_t> StartWorker(const std::vector<std::string>& arguments,
                                  const std::vector<WorkerDescriptor>& descriptors, const sigset_t& blocked,
                                  const char* failure);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_TARGET_WORKER_PROCESS_H_
