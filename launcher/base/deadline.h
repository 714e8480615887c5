// SPDX-License-Identifier: Apache-2.0
//
// Work on a directory that may never answer (a dead NFS server): done in a child, for as long as we are willing to
// wait.
//
//   absl::Status status = WithinDeadline(absl::Seconds(5), [&] { return PrepareLogdir(logdir, host); });
//   if (absl::IsDeadlineExceeded(status)) ...   // the child is killed, or left behind where it can't be
//
// Process: launcher, main thread, while it has no other thread.
#ifndef TBPROF_LAUNCHER_BASE_DEADLINE_H_
#define TBPROF_LAUNCHER_BASE_DEADLINE_H_

#include <sys/types.h>

#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace tbprof {

// Time that passes while we wait. A machine that was suspended, a clock that was set or a scheduler that has no turn
// for us let none of it pass for the one that is waited for either: what one look takes beyond a quarter of a second
// does not count.
class Patience {
 public:
  // Since the last look, and from the last Restart on. A process `pid` that is found runnable waits for a CPU or has
  // one, not for what is suspected to be silent: it begins anew.
  absl::Duration Look(pid_t pid = 0);
  void Restart();

 private:
  absl::Duration passed_ = absl::ZeroDuration();
  absl::Time last_ = absl::InfiniteFuture();
};

// As in /proc/PID/stat: `R`, `S`, `D`, `T`, `Z`; 0 where that has none.
char SchedulerState(pid_t pid);

absl::Status WithinDeadline(absl::Duration limit, const std::function<absl::Status()>& work);

// SIGKILL, and a fifth of a second for it to work: a process that waits for a dead server may not go.
void KillAndLeave(pid_t pid);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_BASE_DEADLINE_H_
