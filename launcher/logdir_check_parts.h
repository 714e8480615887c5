// SPDX-License-Identifier: Apache-2.0
//
// The parts of CheckLogdir. Each adds its findings to one report.
#ifndef TBPROF_LAUNCHER_LOGDIR_CHECK_PARTS_H_
#define TBPROF_LAUNCHER_LOGDIR_CHECK_PARTS_H_

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/logdir_check.h"
#include "launcher/logdir_remedy.h"

namespace tbprof {

struct CheckState {
  const LogdirScan& scan;
  int64_t now_ns;
  LogdirReport report = {};
  Remedies remedies = {};
  std::vector<int> runs = {};  // directories of report.profile_runs, in that order
  // The logdir is `plugins`, `plugins/profile` or a run: what it holds is in its place, seen from above.
  bool too_deep = false;
  // Files that a finding has named, so that no second one does.
  std::set<std::string> named = {};

  const ScannedDirectory& At(int index) const { return scan.directories[index]; }
  std::string Absolute(std::string_view path) const;
  bool IsRun(int index) const;
  // xprof finds nothing below the logdir: `[` in its path, or no UTF-8.
  bool LogdirIsHidden() const;

  void Add(FindingLevel level, std::string_view id, std::string_view where, std::string what, std::string fix = "",
           std::string command = "");
  void Problem(std::string_view id, std::string_view where, std::string what, std::string fix = "",
               std::string command = "") {
    Add(FindingLevel::kProblem, id, where, std::move(what), std::move(fix), std::move(command));
  }
  void Warn(std::string_view id, std::string_view where, std::string what, std::string fix = "",
            std::string command = "") {
    Add(FindingLevel::kWarning, id, where, std::move(what), std::move(fix), std::move(command));
  }
  void Note(std::string_view id, std::string_view where, std::string what, std::string fix = "",
            std::string command = "") {
    Add(FindingLevel::kNote, id, where, std::move(what), std::move(fix), std::move(command));
  }
};

// tbprof's own directory for spools and unfinished profiles.
bool IsOwnPlace(std::string_view path);
// By name or by content.
size_t CountProfiles(const ScannedDirectory& directory);

// A run of the Profile page: its hosts, tools, caches, messages, rights.
void CheckRuns(CheckState* state);
// Profiles that are in no run, and how they get into one.
void CheckPlaces(CheckState* state);
// Runs that only a symbolic link leads to.
void CheckHiddenRuns(CheckState* state);
// Events files: runs, steps, writers.
void CheckEvents(CheckState* state);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_LOGDIR_CHECK_PARTS_H_
