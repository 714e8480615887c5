// SPDX-License-Identifier: Apache-2.0
//
// `tbprof check`: prints the report of launcher/check/logdir_check.h; the exit status is the result.
#include <ctime>

#include "launcher/base/text.h"
#include "launcher/check/logdir_check.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/terminal.h"
#include "writer/base/saturating.h"
#include "writer/base/utf8.h"
#include "writer/logdir/logdir.h"

namespace tbprof {

int CommandCheck(const Options& options) {
  Terminal terminal(options);
  if (options.operands.size() > 1) {
    terminal.Error(StrCat("check takes one directory, got `", PrintableUtf8(options.operands[1]), "` as well"));
    return kExitUsage;
  }
  const std::string& given = options.operands.empty() ? options.logdir : options.operands[0];
  // The guard keeps NormaliseLogdir from removing a trailing `plugins/profile`: TensorBoard does not remove it either.
  constexpr std::string_view kGuard = "/x";
  absl::StatusOr<std::string> logdir =
      given.empty() ? NormaliseLogdir(given, "/") : NormaliseLogdir(StrCat(given, kGuard), WorkingDirectory());
  if (!logdir.ok()) {
    // Reports the error for the path that the user gave, without the guard.
    const absl::StatusOr<std::string> as_given = NormaliseLogdir(given, WorkingDirectory());
    if (!as_given.ok()) logdir = as_given;
    terminal.Error(std::string(logdir.status().message()));
    return kExitUsage;
  }
  logdir->resize(logdir->size() - kGuard.size());
  if (logdir->empty()) *logdir = "/";
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  const LogdirReport report = CheckLogdir(ScanLogdir(*logdir, ScanLimits()), NanosecondsOf(now));
  if (!PrintOut(options.json ? ReportJson(report) : ReportText(report))) return kExitUsage;
  return report.ExitStatus();
}

}  // namespace tbprof
