// SPDX-License-Identifier: Apache-2.0
//
// One run of one side of `tbprof ab`: the command under `tbprof run`, as a child of this process.
//
//   const AbRunResult result = RunSide({.command = "python train.py", .logdir = "/logs", .run = "ab-base-1"}, &gpus);
//
// Process: launcher, main thread. Waits for the child.
#ifndef TBPROF_LAUNCHER_GATE_AB_RUN_H_
#define TBPROF_LAUNCHER_GATE_AB_RUN_H_

#include <string>

#include "launcher/gate/machine_load.h"

namespace tbprof {

struct AbRunRequest {
  std::string command;  // for /bin/sh -c
  std::string logdir;   // absolute
  std::string run;      // name of the run
  std::string output;   // file for the output of the command and of tbprof
};

struct AbRunResult {
  std::string error;         // one line; empty: the command succeeded
  bool interrupted = false;  // a signal to this process: no further runs
  RunLoad load;
};

AbRunResult RunSide(const AbRunRequest& request, GpuLoadReader* gpus);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_GATE_AB_RUN_H_
