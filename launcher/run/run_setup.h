// SPDX-License-Identifier: Apache-2.0
//
// From the command line to the moment before the command starts: checks, the log directory, the session, the command's
// environment.
//
//   RunSetup setup(&context, &logdir);
//   if (const std::optional<int> status = setup.Prepare()) return *status;   // nothing is recorded
//   std::unique_ptr<Session> session = setup.TakeSession();
//   setup.ReportGaps(session.get());
//   SpawnRequest request = setup.MakeSpawnRequest(*session);
//   setup.SayStart(lines);
//
// Process: launcher, main thread, before any other thread.
#ifndef TBPROF_LAUNCHER_RUN_RUN_SETUP_H_
#define TBPROF_LAUNCHER_RUN_RUN_SETUP_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "launcher/run/run_context.h"
#include "launcher/run/run_logdir.h"
#include "launcher/session/session.h"
#include "launcher/target/libraries.h"
#include "launcher/target/library_copy.h"
#include "launcher/target/preflight.h"
#include "launcher/target/signals.h"
#include "launcher/target/target_process.h"

namespace tbprof {

// The session that records what the options ask for; where it lies is not in them.
SessionConfig SessionConfigOf(const RunContext& context);

class RunSetup {
 public:
  RunSetup(RunContext* context, RunLogdir* logdir)
      : context_(*context),
        options_(context->options),
        terminal_(context->terminal),
        logdir_(*logdir),
        environment_(CurrentEnvironment()) {}

  // Not nothing: the exit status. Where the command is to run without us, it replaces this process.
  std::optional<int> Prepare();
  // Before the command started: stop here, or with --on-error=run start it without us.
  int Fail(const absl::Status& status);

  std::unique_ptr<Session> TakeSession() { return std::move(session_); }
  // Of silence of the spool's file system.
  absl::Duration spool_limit() const { return spool_limit_; }
  SignalSet& signals() { return *signals_; }
  // Why the command cannot be recorded, known before its start; empty: nothing speaks against it.
  const std::string& not_recorded() const { return not_recorded_; }

  // What will not be recorded, to the terminal and into the profiles.
  void ReportGaps(Session* session);
  SpawnRequest MakeSpawnRequest(const Session& session);
  // `lines`: of the captures.
  void SayStart(const std::vector<std::string>& lines);

 private:
  absl::Status CheckOptions() const;
  bool Prints() const;
  int PlainExec();
  void MakeReadableByAll();
  absl::Status MakeSessionSomewhere();
  absl::Status MakeSession(const std::string& spool_dir);
  std::vector<std::string> Additions(const Session& session);
  std::string TracedText() const;

  RunContext& context_;
  const Options& options_;
  Terminal& terminal_;
  RunLogdir& logdir_;
  const Environment environment_;
  Preflight preflight_;
  Libraries libraries_;
  std::optional<SignalSet> signals_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<LibraryCopy> library_copy_;
  absl::Duration spool_limit_;
  std::string not_recorded_;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_RUN_RUN_SETUP_H_
