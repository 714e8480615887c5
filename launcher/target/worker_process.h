// SPDX-License-Identifier: Apache-2.0
//
// Starts a worker of the launcher: this executable again, with an argument that only the launcher passes.
//
//   const absl::StatusOr<pid_t> pid = StartWorker({kWorkerArgument}, {{input.get(), 3}}, blocked, "cannot ...");
//
// A worker is not a target: its environment lacks the user's LD_PRELOAD and the user's GRPC_* variables. The caller
// waits for its end.
//
// Process: launcher, main thread.
#ifndef TBPROF_LAUNCHER_TARGET_WORKER_PROCESS_H_
#define TBPROF_LAUNCHER_TARGET_WORKER_PROCESS_H_

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tbprof {

struct WorkerDescriptor {
  int fd;
  int as;  // descriptor number in the worker, below 32
};

// `blocked`: signals that are blocked in the worker. `failure`: the beginning of an error message.
absl::StatusOr<pid_t> StartWorker(const std::vector<std::string>& arguments,
                                  const std::vector<WorkerDescriptor>& descriptors, const sigset_t& blocked,
                                  const char* failure);

// The error of a call that got no descriptor, from errno: names the limit if it is the cause.
absl::Status NoDescriptor(const char* failure);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_TARGET_WORKER_PROCESS_H_
