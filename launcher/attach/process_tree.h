// SPDX-License-Identifier: Apache-2.0
//
// Follows the processes that an attached session records: those that the user named and, if wanted, their descendants.
//
//   ProcessTree tree(session, config);
//   tree.AddRoot(process);
//   while (...) { ...; tree.Handle(ReadMonotonic()); }
//   tree.Finish();
//
// Process: launcher, main thread. Never waits.
#ifndef TBPROF_LAUNCHER_ATTACH_PROCESS_TREE_H_
#define TBPROF_LAUNCHER_ATTACH_PROCESS_TREE_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "launcher/attach/attached_process.h"
#include "launcher/attach/running_process.h"
#include "launcher/session/session.h"

namespace tbprof {

class ProcessTree {
 public:
  // `session` must outlive this. `follows`: descendants, too.
  ProcessTree(Session* session, const AttachedProcess::Config& config, bool follows)
      : session_(session), config_(config), follows_(follows) {}

  absl::Status AddRoot(const RunningProcess& process);
  // Updates threads, and looks for children, when it is time.
  void Handle(uint64_t now_ns);
  uint64_t next_ns() const { return next_ns_; }
  // The last update before the session is closed.
  void Finish();

  // False: all processes have ended.
  bool any_alive() const { return !processes_.empty(); }
  size_t size() const { return processes_.size(); }
  // Descendants that were left out because they could not be read, and why the first one could not.
  size_t left_out() const { return refused_.size(); }
  const std::string& why_left_out() const { return why_left_out_; }

 private:
  absl::Status Add(const RunningProcess& process);
  void AddDescendants();
  void Refuse(pid_t pid, const absl::Status& why);

  Session* const session_;
  const AttachedProcess::Config config_;
  const bool follows_;
  std::map<pid_t, std::unique_ptr<AttachedProcess>> processes_;
  std::set<pid_t> refused_;
  std::string why_left_out_;
  uint64_t next_ns_ = 0;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_ATTACH_PROCESS_TREE_H_
