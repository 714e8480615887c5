// SPDX-License-Identifier: Apache-2.0
//
// `tbprof convert` and `tbprof recover`: make a profile from a spool, with the same worker that `run` uses.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "launcher/base/text.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/terminal.h"
#include "launcher/convert/conversion_wait.h"
#include "launcher/convert/summary_file.h"
#include "launcher/session/spools.h"
#include "writer/base/scoped.h"
#include "writer/base/trusted_path.h"
#include "writer/base/utf8.h"
#include "writer/convert/timeline_builder.h"
#include "writer/logdir/logdir.h"

namespace tbprof {
namespace {

// True: the profile was written. `summaries` counts those of the command.
bool ConvertWindow(const Options& options, const ConversionRequest& request, size_t* summaries, Terminal* terminal) {
  const absl::StatusOr<ConversionResult> result = ConvertAndWait(request, "writing the profile", terminal);
  if (!result.ok()) {
    terminal->Error(std::string(result.status().message()));
    return false;
  }
  for (const std::string& line : result->lines) terminal->Print(line);
  const std::string path = NumberedSummaryPath(options, ++*summaries);
  const absl::Status status = WriteSummaryJson(options, path, result->summary_json);
  if (status.ok() && path != options.summary_json) {
    terminal->Print(StrCat("the summary of ", PrintableUtf8(request.run), " is ", PrintableUtf8(path)));
  }
  if (!status.ok()) terminal->Error(std::string(status.message()));
  return status.ok();
}

// The logdir that contains the spool; empty: the spool is somewhere else.
std::string LogdirAround(const std::string& spool) {
  const std::string directory = spool.substr(0, std::min(spool.rfind('/'), spool.size()));
  const size_t slash = directory.rfind('/');
  const std::string name = slash == std::string::npos ? directory : directory.substr(slash + 1);
  if (!IsHiddenDirectory(name)) return "";
  return slash == std::string::npos ? "." : slash == 0 ? "/" : directory.substr(0, slash);
}

// Chooses the logdir of the profile: the user's choice; else the logdir that contains the spool; else the path that the
// spool names, if a logdir exists there. A spool is untrusted: it must not create directories at any place.
absl::StatusOr<LogDirectory> LogdirOf(const Options& options, const std::string& spool, const std::string& recorded,
                                      const std::string& host) {
  std::string wanted = options.logdir, base = options.logdir_base;
  if (!options.logdir_named) {
    const std::string around = LogdirAround(spool);
    absl::StatusOr<LogDirectory> known = absl::NotFoundError("");
    if (recorded.starts_with('/')) known = LogDirectory::Open(recorded);
    const bool is_logdir = known.ok() && OpenBeneath(known->fd.get(), "plugins/profile", O_PATH | O_DIRECTORY).ok();
    if (is_logdir || !around.empty()) {
      wanted = is_logdir && around.empty() ? recorded : around;
      // `base` applies only without operands: here the user named the spool, and its path determines the logdir.
      if (!options.operands.empty()) base.clear();
    }
  }
  const absl::StatusOr<std::string> path = NormaliseLogdir(wanted, WorkingDirectory());
  if (!path.ok()) return path.status();
  if (const absl::Status prepared = PrepareLogdir(*path, host, base); !prepared.ok()) return prepared;
  return LogDirectory::Open(*path, base);
}

enum class Outcome { kWritten, kFailed, kNothingToDo };

Outcome ConvertOne(const Options& options, const std::string& spool, bool recovering, size_t* summaries,
                   Terminal* terminal) {
  const absl::StatusOr<SpoolSummary> summary = ReadSpoolSummary(spool);
  if (!summary.ok()) {
    terminal->Error(std::string(summary.status().message()));
    return Outcome::kFailed;
  }
  ConversionRequest request;
  request.spool = spool;
  request.host = summary->host.empty() ? HostName() : HostNameFrom(summary->host);
  const absl::StatusOr<LogDirectory> logdir = LogdirOf(options, spool, summary->logdir, request.host);
  if (!logdir.ok()) {
    terminal->Error(PrintableUtf8(std::string(logdir.status().message())));
    return Outcome::kFailed;
  }
  SetLogdir(*logdir, &request);
  request.run = !options.run.empty()    ? options.run
                : !summary->run.empty() ? summary->run
                                        : RunNameFor(static_cast<time_t>(summary->start_unix_ns / 1'000'000'000));
  request.run_exclusive = options.run.empty() && summary->run_exclusive;
  request.max_profile_size = options.max_profile_size;
  request.step_marker = options.step_marker;
  request.also = options.also.empty() ? summary->also : options.also;
  request.recovered = recovering;
  request.color = terminal->color();
  request.width = std::min(terminal->width(), 100);
  request.full_summary = options.full_summary;
  // Converts the run's own window. If there is none, or three windows replaced it, converts each of the other windows.
  // `recover` leaves out windows that the launcher has published.
  std::vector<SpoolSummary::SpoolWindow> windows;
  bool any_published = false;
  for (const auto& window : summary->windows) {
    if (window.number == 0 && !window.replaced) windows = {window};
  }
  if (windows.empty()) {
    for (const auto& window : summary->windows) {
      if (!window.replaced) windows.push_back(window);
    }
  }
  if (recovering) {
    any_published = std::erase_if(windows, [](const auto& window) { return window.published; }) > 0;
  }
  if (windows.empty() && any_published) {
    terminal->Print(StrCat(PrintableUtf8(spool), ": all of it had been published; left as it is"));
    return Outcome::kNothingToDo;
  }
  if (windows.empty()) windows.push_back({0});
  const std::string run = request.run;
  for (const auto& window : windows) {
    request.window = window.number;
    request.run = window.number >= kStartWindow ? StrCat(run, "_", WindowName(window.number)) : run;
    if (!ConvertWindow(options, request, summaries, terminal)) return Outcome::kFailed;
  }
  return Outcome::kWritten;
}

int ConvertAll(const Options& options, bool recovering) {
  signal(SIGXFSZ, SIG_IGN);
  Terminal terminal(options);
  std::vector<std::string> operands = options.operands;
  if (operands.empty()) {
    if (!recovering) {
      terminal.Error("convert needs a spool: tbprof convert SPOOL...");
      return kExitUsage;
    }
    operands.push_back(options.logdir);
  }
  // A cloned repository may have a link in place of the default logdir: the spools behind it would be converted and
  // removed.
  const bool named = !options.operands.empty() || options.logdir_base.empty();
  if (!named) {
    const absl::StatusOr<std::string> path = NormaliseLogdir(options.logdir, WorkingDirectory());
    const absl::Status status = path.ok() ? LogDirectory::Open(*path, options.logdir_base).status() : path.status();
    if (IsUntrusted(status)) {
      terminal.Error(std::string(status.message()));
      return kExitUsage;
    }
  }
  std::vector<std::string> spools;
  for (const std::string& operand : operands) {
    const std::vector<std::string> found = FindSpools(operand, /*links=*/named);
    if (found.empty() && access(operand.c_str(), F_OK) == 0 && ScopedDirectory(opendir(operand.c_str())) == nullptr) {
      spools.push_back(operand);
    } else if (found.empty() && access(operand.c_str(), F_OK) != 0) {
      terminal.Error(StrCat("cannot read ", PrintableUtf8(operand), ": ", strerror(errno)));
      return kExitUsage;
    }
    for (const std::string& spool : found) {
      if (IsOwnSpool(spool)) {
        spools.push_back(spool);
      } else {
        terminal.Warn(StrCat(PrintableUtf8(spool), " is another user's: left alone; to convert it, name it"));
      }
    }
  }
  size_t written = 0, busy = 0, summaries = 0;
  for (const std::string& spool : spools) {
    std::optional<ScopedFd> lock;
    if (recovering) {
      lock = LockSpool(spool);
      // A `recover` that ended just now has removed the file.
      const bool is_gone = lock.has_value() && access(spool.c_str(), F_OK) != 0;
      if (!lock.has_value() || is_gone) {
        ++busy;
        const std::string_view why =
            is_gone ? " was recovered meanwhile" : " is still being written or recovered: left alone";
        terminal.Print(StrCat(PrintableUtf8(spool), why));
        continue;
      }
    }
    const Outcome outcome = ConvertOne(options, spool, recovering, &summaries, &terminal);
    if (outcome == Outcome::kNothingToDo) ++busy;
    if (outcome != Outcome::kWritten) continue;
    ++written;
    if (!recovering || options.keep_spool) continue;
    RemoveSpoolFiles(spool);
    // rmdir fails, as intended, if the directory contains anything else.
    const std::string directory = spool.substr(0, spool.find_last_of('/') + 1);
    if (!LogdirAround(spool).empty()) rmdir(directory.c_str());
  }
  if (spools.empty()) terminal.Print("no spool found: nothing to recover");
  return written + busy == spools.size() ? 0 : 1;
}

}  // namespace

int CommandConvert(const Options& options) { return ConvertAll(options, false); }
int CommandRecover(const Options& options) { return ConvertAll(options, true); }

}  // namespace tbprof
