// SPDX-License-Identifier: Apache-2.0
//
// Processes of a run that outlive its command: daemons, or a job in the background that the user wanted to see.
//
//   const LeftProcesses left(session->LivePids());         // the command has ended
//   ...                                                     // the profile is written
//   if (const std::string line = left.Line(session->VariableStart()); !line.empty()) terminal.Print(line);
//
// Process: launcher, main thread.
#ifndef TBPROF_LAUNCHER_RUN_LEFT_PROCESSES_H_
#define TBPROF_LAUNCHER_RUN_LEFT_PROCESSES_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tbprof {

class LeftProcesses {
 public:
  explicit LeftProcesses(const std::vector<int>& recorded);

  // Names those that still run, and all whose environment has a variable that begins with `session_variable`: a daemon
  // that has called nothing with a hook is not known by its records. Looks at the processes that are younger than this
  // one, within a limit of time: to read an environment may wait for a process that itself waits for a dead server.
  // Empty: there are none.
  std::string Line(std::string_view session_variable) const;

 private:
  // The pid and the command's name: after a while the pid may be another's.
  std::vector<std::pair<int, std::string>> recorded_;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_RUN_LEFT_PROCESSES_H_
