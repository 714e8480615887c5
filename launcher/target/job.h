// SPDX-License-Identifier: Apache-2.0
//
// The launcher's place in a distributed job, from its own environment: its rank, a run name that all ranks agree on,
// who prints.
//
//   const Job job = JobOf(environment, options.command);
//   if (!job.sure_rank || IsChosen(choice, job.rank)) ...
//
// Process: launcher. Pure functions.
#ifndef TBPROF_LAUNCHER_TARGET_JOB_H_
#define TBPROF_LAUNCHER_TARGET_JOB_H_

#include <string>
#include <vector>

#include "launcher/cli/options.h"
#include "wire/ranks.h"

namespace tbprof {

struct Job {
  RankFacts rank;        // rank -1: this launcher was not started as one of several
  std::string run;       // the same on all ranks: job and attempt; empty: the scheduler told none
  bool sure_rank;        // false: the command may start ranks of its own, and each process has to look for itself
  bool starts_remotely;  // the command starts tasks that may have launchers of their own (mpirun, srun)
};
Job JobOf(const Environment& environment, const std::vector<std::string>& command);

// The rank that speaks for all where --print-ranks says nothing: the lowest that is recorded.
int PrintingRank(const RankChoice& choice, const RankFacts& facts);

// Whether the launcher that TBPROF_SESSION names still listens on this machine.
bool SessionListens(std::string_view session_variable);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_TARGET_JOB_H_
