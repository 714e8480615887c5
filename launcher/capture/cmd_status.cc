// SPDX-License-Identifier: Apache-2.0
//
// `tbprof status`: prints the sessions of this machine on standard output.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "launcher/base/control_socket.h"
#include "launcher/base/text.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/terminal.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

std::string Since(uint64_t unix_ns) {
  const absl::Duration passed = absl::Now() - absl::FromUnixNanos(static_cast<int64_t>(unix_ns));
  if (passed > absl::Hours(48)) return absl::StrFormat("%d d", passed / absl::Hours(24));
  if (passed > absl::Minutes(10)) return absl::FormatDuration(absl::Trunc(passed, absl::Minutes(1)));
  return absl::FormatDuration(absl::Trunc(std::max(passed, absl::ZeroDuration()), absl::Seconds(1)));
}

std::string StateText(const SessionStatus& status) {
  if (status.state != "capturing") return status.state;
  const absl::Duration left = absl::FromUnixNanos(static_cast<int64_t>(status.capture_until_unix_ns)) - absl::Now();
  return absl::StrFormat("capturing for %s, %.1f s left", status.capture_of,
                         std::max(absl::ToDoubleSeconds(left), 0.0));
}

std::string Text(const std::vector<FoundSession>& sessions) {
  if (sessions.empty()) return "no `tbprof run` of this user is running on this machine\n";
  std::string text;
  for (const FoundSession& session : sessions) {
    const SessionStatus& status = session.status;
    const std::string rank = status.rank < 0 ? ""
                                             : StrCat(", rank ", status.rank,
                                                      status.world_size < 0 ? "" : StrCat(" of ", status.world_size));
    text += absl::StrFormat("%d  run %s%s, %s for %s\n", status.pid, PrintableUtf8(status.run), rank,
                            PrintableUtf8(StateText(status)), Since(status.since_unix_ns));
    text += absl::StrFormat("    command    %s\n", PrintableUtf8(absl::StrJoin(status.command, " ").substr(0, 300)));
    text +=
        absl::StrFormat("    logdir     %s, window %s\n", PrintableUtf8(status.logdir), PrintableUtf8(status.window));
    text += absl::StrFormat("    processes  %d alive; since the start %d records, %d dropped, %d captures\n",
                            status.processes, status.records, status.dropped, status.captures);
    text +=
        absl::StrFormat("    capture    tbprof capture %d%s\n", status.pid,
                        status.addresses.empty() ? "" : StrCat(", port ", absl::StrJoin(status.addresses, " and ")));
  }
  return text;
}

std::string JsonText(const std::vector<FoundSession>& sessions) {
  nlohmann::json all = nlohmann::json::array();
  for (const FoundSession& session : sessions) all.push_back(nlohmann::json::parse(ToText(session.status)));
  return all.dump(2) + "\n";
}

}  // namespace

int CommandStatus(const Options& options) {
  if (!options.operands.empty()) {
    Terminal().Error(StrCat("status takes no operand, got `", PrintableUtf8(options.operands[0]), "`"));
    return kExitUsage;
  }
  const std::vector<FoundSession> sessions = FindSessions();
  return PrintOut(options.json ? JsonText(sessions) : Text(sessions)) ? 0 : kExitUsage;
}

}  // namespace tbprof
