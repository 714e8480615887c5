// SPDX-License-Identifier: Apache-2.0
//
// Determines the launcher's place in a distributed job from its environment: its rank, a run name that is equal on all
// ranks, and the rank that prints.
//
//   const Job job = JobOf(environment, options.command);
//   if (!job.sure_rank || IsChosen(choice, job.rank)) ...
//
// Process: launcher. Pure functions, except SessionListens, which connects to a socket.
#ifndef TBPROF_LAUNCHER_TARGET_JOB_H_
#define TBPROF_LAUNCHER_TARGET_JOB_H_

#include <string>
#include <vector>

#include "launcher/cli/options.h"
#include "wire/ranks.h"

namespace tbprof {

struct Job {
  RankFacts rank;        // rank -1: this launcher was not started as one of several ranks
  std::string run;       // equal on all ranks: job and attempt; empty: the scheduler sets none
  bool sure_rank;        // false: the command may start its own ranks: each process must determine its rank
  bool starts_remotely;  // the command starts tasks that may have their own launchers (mpirun, srun)
};
Job JobOf(const Environment& environment, const std::vector<std::string>& command);

// The rank that prints for all ranks if --print-ranks is not given: the lowest recorded rank.
int PrintingRank(const RankChoice& choice, const RankFacts& facts);

// `session_variable`: the value of TBPROF_SESSION. Whether the launcher that it names still listens on this machine.
bool SessionListens(std::string_view session_variable);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_TARGET_JOB_H_
