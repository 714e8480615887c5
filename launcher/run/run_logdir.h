// SPDX-License-Identifier: Apache-2.0
//
// The run's log directory: chosen before the command starts and held open from then on; a local one takes its place
// where it is wrong by another user's doing, or gives no answer.
//
//   RunLogdir logdir(&context);
//   absl::Status status = logdir.Choose();
//   ... logdir.held(), logdir.PublishLimit(path), logdir.LocalWhenSilent() ...
//
// Process: launcher, main thread. Waits for a file server no longer than its limits.
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

// Before the command starts; a file server that is only busy answers sooner.
inline constexpr absl::Duration kLookTimeout = absl::Seconds(5);

class RunLogdir {
 public:
  explicit RunLogdir(RunContext* context)
      : context_(*context), options_(context->options), terminal_(context->terminal) {}

  absl::Status Choose();
  // OK: the profile goes there.
  absl::Status UseLocal(const absl::Status& cause);

  const std::string& path() const { return logdir_; }
  const LogDirectory& held() const { return held_; }

  // How long a conversion may get no answer from `logdir`.
  absl::Duration PublishLimit(const std::string& logdir) const;
  static absl::Duration LimitFor(Storage storage, absl::Duration limit);
  std::string NoAnswer(absl::Duration limit) const;

  // It has given no answer to a conversion. A local one, the same each time; its descriptor is -1: there is none.
  const LogDirectory& LocalWhenSilent();
  bool hangs() const { return hangs_; }

 private:
  absl::Status Hold(absl::StatusOr<LogDirectory> logdir);
  absl::StatusOr<LogDirectory> OpenLocal() const;

  RunContext& context_;
  const Options& options_;
  Terminal& terminal_;
  std::string logdir_;
  LogDirectory held_;   // logdir_, open from the start
  LogDirectory local_;  // where profiles go when that hangs
  Storage storage_ = Storage::kDisk;
  bool hangs_ = false;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_RUN_RUN_LOGDIR_H_
