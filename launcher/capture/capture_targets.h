// SPDX-License-Identifier: Apache-2.0
//
// Finds the targets of `tbprof capture`: addresses, sessions of this machine, and all launchers of a run, by the
// endpoints files in their shared log directory.
//
//   absl::StatusOr<CaptureTargets> targets = FindCaptureTargets(options.operands, logdir);
//   for (const CaptureTarget& target : targets->all) ...
//   Print(targets->MissingRanks());
//
// Process: `tbprof capture`. Single-threaded.
#ifndef TBPROF_LAUNCHER_CAPTURE_CAPTURE_TARGETS_H_
#define TBPROF_LAUNCHER_CAPTURE_CAPTURE_TARGETS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "launcher/base/control_socket.h"

namespace tbprof {

struct CaptureTarget {
  std::string address;   // of its port; empty: reached by its session's socket
  FoundSession session;  // used without an address
  std::string name;      // in messages
  std::string stem;      // name of its file without suffix

  // Reported by its launcher; unset for an address that the user has typed.
  std::string host;
  int pid = 0;
  int rank = -1, world_size = -1;
  bool sure_rank = false;
  std::string ranks;  // --ranks
};

struct CaptureTargets {
  std::vector<CaptureTarget> all;
  std::string logdir;      // of the sessions of this machine; empty: none
  bool whole_run = false;  // a run was named: all its ranks are captured

  // Ranks of the run that should be recorded but are not in `all`. Empty if unknown.
  std::vector<int> MissingRanks() const;
};

// `logdir`: searched for endpoints files of a run, besides the log directories of the run's sessions on this machine.
absl::StatusOr<CaptureTargets> FindCaptureTargets(const std::vector<std::string>& operands, const std::string& logdir);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_CAPTURE_CAPTURE_TARGETS_H_
