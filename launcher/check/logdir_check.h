// SPDX-License-Identifier: Apache-2.0
//
// Checks what TensorBoard shows of a log directory, and what prevents it. The rules are those of the profile plugin
// `xprof` (2.20.3 and newer), of its predecessors, and of TensorBoard's loaders of events files; tests/xprof/ compares
// them with the installed packages.
//
//   LogdirReport report = CheckLogdir(ScanLogdir(logdir, ScanLimits()), now_ns);
//   for (const LogdirFinding& finding : report.findings) ...
//
// Process: launcher, for `tbprof check`. A pure function of the scan and the time.
#ifndef TBPROF_LAUNCHER_CHECK_LOGDIR_CHECK_H_
#define TBPROF_LAUNCHER_CHECK_LOGDIR_CHECK_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/check/logdir_scan.h"

namespace tbprof {

enum class FindingLevel { kNote, kWarning, kProblem };

struct LogdirFinding {
  FindingLevel level;
  std::string_view id;  // stable: docs/check.md
  std::string where;    // path below the logdir; `.` for the logdir itself
  std::string what;     // the observation and its effect
  std::string fix;      // the remedy; empty: none needed
  // A shell command for the remedy, if there is one: launcher/check/logdir_remedy.h.
  std::string command;
};

// A run on the Profile page.
struct ProfileRun {
  std::string name;  // as TensorBoard lists it
  std::string path;  // below the logdir
  std::vector<std::string> hosts;
  std::vector<std::string> tools;  // sorted
  bool tools_from_cache = false;
  bool tools_without_cache = false;  // xprof finds tools if it does not use the cache
  bool shown = false;                // xprof 2.20.3 and newer show it
  bool shown_old = false;            // older plugins show it
  uint64_t bytes = 0;                // size of its profiles
};

// A run on the other pages: a directory with events files.
struct EventsRun {
  std::string name;  // `.` for the logdir itself
  bool listed = false;
  size_t files = 0;
  size_t tags = 0;
  uint64_t values = 0;
  bool has_steps = false;
  int64_t lowest_step = 0, highest_step = 0;
};

struct LogdirReport {
  std::string logdir;
  std::vector<ProfileRun> profile_runs;  // newest name first, as TensorBoard does
  std::vector<EventsRun> events_runs;
  std::vector<LogdirFinding> findings;  // problems first
  // The plugin fails at this logdir and shows no runs.
  bool plugin_fails = false;

  size_t directories = 0, entries = 0, events_files = 0;
  uint64_t event_bytes_read = 0;

  FindingLevel Worst() const;  // kNote if there are no findings
  int ExitStatus() const;      // 0: no warnings, 1: warnings, 2: problems
  size_t Count(FindingLevel level) const;
};

LogdirReport CheckLogdir(const LogdirScan& scan, int64_t now_ns);

// Time since `then_ns`, a file's time: `12 s`, `3 h`.
std::string Age(int64_t then_ns, int64_t now_ns);

std::string ReportText(const LogdirReport& report);
std::string ReportJson(const LogdirReport& report);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_CHECK_LOGDIR_CHECK_H_
