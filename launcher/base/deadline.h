// SPDX-License-Identifier: Apache-2.0
//
// Runs work on a directory that may never respond (a dead NFS server) in a child process, with a time limit.
//
//   absl::Status status = WithinDeadline(absl::Seconds(5), [&] { return PrepareLogdir(logdir, host); });
//   if (absl::IsDeadlineExceeded(status)) ...   // the child is killed, or left behind if it can't be
//
// Process: launcher, main thread. In the child, a lock that another thread of the launcher held at the fork is never
// released, except malloc's. If there are other threads, `work` may only allocate and make system calls; if it should
// wait for such a lock all the same, the limit ends it.
#ifndef TBPROF_LAUNCHER_BASE_DEADLINE_H_
#define TBPROF_LAUNCHER_BASE_DEADLINE_H_

#include <sys/types.h>

#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace tbprof {

// Measures the time that this process waits for another one. If the machine was suspended, a clock was set, or this
// process got no CPU, the other process could not run either: at most 250 ms count between two calls of Look.
class Patience {
 public:
  // Returns the time since the last Restart. Calls Restart first if process `pid` is runnable: such a process has a CPU
  // or waits for one, and does not wait for an unresponsive directory.
  absl::Duration Look(pid_t pid = 0);
  void Restart();

 private:
  absl::Duration passed_ = absl::ZeroDuration();
  absl::Time last_ = absl::InfiniteFuture();
};

absl::Status WithinDeadline(absl::Duration limit, const std::function<absl::Status()>& work);

// Sends SIGKILL and waits up to 200 ms for the end: a process that waits for a dead server may not exit.
void KillAndLeave(pid_t pid);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_BASE_DEADLINE_H_
