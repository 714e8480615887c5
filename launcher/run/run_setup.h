// SPDX-License-Identifier: Apache-2.0
//
// Prepares a run from the command line until just before the command starts: checks, the log directory, the session,
// the command's environment.
//
//   RunSetup setup(&context, &logdir);
//   if (const std::optional<int> status = setup.Prepare()) return *status;   // nothing is recorded
//   std::unique_ptr<Session> session = setup.TakeSession();
//   setup.ReportGaps(session.get());
//   SpawnRequest request = setup.MakeSpawnRequest(*session);
//   setup.PrintStart(lines);
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

// The configuration of a session for the options of a run; logdir and spool_dir are set by the caller.
SessionConfig SessionConfigOf(const RunContext& context);

class RunSetup {
 public:
  RunSetup(RunContext* context, RunLogdir* logdir)
      : context_(*context),
        options_(context->options),
        terminal_(context->terminal),
        logdir_(*logdir),
        environment_(CurrentEnvironment()) {}

  // Returns an exit status if the run ends here. If the command has to run without tbprof, it replaces this process
  // (exec).
  std::optional<int> Prepare();
  // An error before the command started: returns the exit status, or with --on-error=run executes the command without
  // tbprof.
  int Fail(const absl::Status& status);

  std::unique_ptr<Session> TakeSession() { return std::move(session_); }
  // How long the spool's file system may not respond.
  absl::Duration spool_limit() const { return spool_limit_; }
  SignalSet& signals() { return *signals_; }
  // Why the command cannot be recorded, known before its start; empty: no reason is known.
  const std::string& not_recorded() const { return not_recorded_; }

  // Prints what will not be recorded and adds it to the profiles.
  void ReportGaps(Session* session);
  SpawnRequest MakeSpawnRequest(const Session& session);
  // `lines`: CaptureManager::StartLines.
  void PrintStart(const std::vector<std::string>& lines);

 private:
  absl::Status CheckOptions() const;
  static absl::Status CheckMeans();
  absl::Status CheckSummary() const;
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
  std::optional<rlimit> descriptors_, address_space_;  // before the launcher raised its own
  absl::Duration spool_limit_;
  std::string not_recorded_;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_RUN_RUN_SETUP_H_
