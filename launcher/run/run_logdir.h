// SPDX-License-Identifier: Apache-2.0
//
// The run's log directory: chosen before the command starts and held open from then on. A local directory replaces it
// if another user made it unusable or if it does not respond.
//
//   RunLogdir logdir(&context);
//   absl::Status status = logdir.Choose();
//   ... logdir.held(), logdir.PublishLimit(path), logdir.LocalWhenSilent() ...
//
// Process: launcher, main thread. Limits the time that it waits for a file server.
#ifndef TBPROF_LAUNCHER_RUN_RUN_LOGDIR_H_
#define TBPROF_LAUNCHER_RUN_RUN_LOGDIR_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "launcher/run/run_context.h"
#include "launcher/session/spools.h"
#include "writer/logdir/logdir.h"

namespace tbprof {

// The time limit for checks before the command starts; a file server that is merely busy responds sooner.
inline constexpr absl::Duration kLookTimeout = absl::Seconds(5);

class RunLogdir {
 public:
  explicit RunLogdir(RunContext* context)
      : context_(*context), options_(context->options), terminal_(context->terminal) {}

  absl::Status Choose();
  // Switches to a local log directory and prints `cause`; returns `cause` if there is none.
  absl::Status UseLocal(const absl::Status& cause);

  const std::string& path() const { return logdir_; }
  const LogDirectory& held() const { return held_; }

  // How long the probe, and each later small file, may wait for the log directory without a response.
  absl::Duration ProbeLimit() const;
  // How long a conversion may wait for `logdir` without a response.
  absl::Duration PublishLimit(const std::string& logdir) const;
  static absl::Duration LimitFor(Storage storage, absl::Duration limit);
  std::string NoAnswer(absl::Duration limit) const;

  // To be called when the log directory did not respond to a conversion. Returns the local log directory, the same for
  // each call; descriptor -1: there is none.
  const LogDirectory& LocalWhenSilent();
  bool hangs() const { return hangs_; }

 private:
  absl::Status Hold(absl::StatusOr<LogDirectory> logdir);
  absl::StatusOr<LogDirectory> OpenLocal() const;

  RunContext& context_;
  const Options& options_;
  Terminal& terminal_;
  std::string logdir_;
  LogDirectory held_;   // logdir_, held open
  LogDirectory local_;  // for profiles if logdir_ hangs
  Storage storage_ = Storage::kDisk;
  bool hangs_ = false;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_RUN_RUN_LOGDIR_H_
