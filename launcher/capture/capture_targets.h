// SPDX-License-Identifier: Apache-2.0
//
// Whom `tbprof capture` captures: addresses, sessions of this machine, and all launchers of a run, by what they have
// left in the log directory that they share.
//
//   absl::StatusOr<CaptureTargets> targets = FindCaptureTargets(options.operands, logdir);
//   for (const CaptureTarget& target : targets->all) ...
//   Say(targets->MissingRanks());
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
  std::string address;   // of its port; empty: by its session's socket
  FoundSession session;  // without an address
  std::string name;      // in messages
  std::string stem;      // what its file is called

  // As its launcher reports it; of an address that the user has typed nothing is known.
  std::string host;
  int pid = 0;
  int rank = -1, world_size = -1;
  bool sure_rank = false;
  std::string ranks;  // --ranks
};

struct CaptureTargets {
  std::vector<CaptureTarget> all;
  std::string logdir;      // of the sessions of this machine; empty: no such
  bool whole_run = false;  // a run was named, of which all ranks are captured

  // Ranks of the run that should be recorded, and none of `all` is. Empty where it is unknown.
  std::vector<int> MissingRanks() const;
};

// `logdir`: where launchers of a run may have left their ports, besides the log directories of sessions of that run.
absl::StatusOr<CaptureTargets> FindCaptureTargets(const std::vector<std::string>& operands, const std::string& logdir);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_CAPTURE_CAPTURE_TARGETS_H_
