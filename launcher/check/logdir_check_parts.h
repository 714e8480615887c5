// SPDX-License-Identifier: Apache-2.0
//
// The parts of CheckLogdir. Each part adds its findings to the same report.
#ifndef TBPROF_LAUNCHER_CHECK_LOGDIR_CHECK_PARTS_H_
#define TBPROF_LAUNCHER_CHECK_LOGDIR_CHECK_PARTS_H_

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/check/logdir_check.h"
#include "launcher/check/logdir_remedy.h"

namespace tbprof {

struct CheckState {
  const LogdirScan& scan;
  int64_t now_ns;
  LogdirReport report = {};
  Remedies remedies = {};
  std::vector<int> runs = {};  // directories of report.profile_runs, in that order
  // The logdir is `plugins`, `plugins/profile` or a run: its content is in the right place for a logdir above it.
  bool too_deep = false;
  // Paths that a finding has reported, so that no second finding reports them.
  std::set<std::string> named = {};
  std::set<std::pair<uint64_t, uint64_t>> shown_files = {};  // profiles that a run shows, under any name

  const ScannedDirectory& At(int index) const { return scan.directories[index]; }
  std::string Absolute(std::string_view path) const;
  bool IsRun(int index) const;
  // True: a run shows the file, under this name or through a link.
  bool IsShown(const ScannedFile& file) const;
  // Number of files that are profiles by name or by content, and that no run shows.
  size_t CountUnshown(const ScannedDirectory& directory) const;
  // True: xprof finds nothing below the logdir, because its path has a pattern `[…]` or is not UTF-8.
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
// True for a file with the name of a profile, broken or not; for a file of `others`, by its content.
bool IsProfile(const ScannedProfile& profile);
bool IsProfile(const ScannedFile& other);
size_t CountProfiles(const ScannedDirectory& directory);

// True: a symbolic link whose target does not exist.
bool LeadsNowhere(const ScannedFile& file);

// Checks the runs of the Profile page: hosts, tools, caches, messages, access rights.
void CheckRuns(CheckState* state);
// Reports profiles of tbprof whose events do not match their counts.
void CheckCounts(CheckState* state);
// Reports profiles outside of runs, with commands that make them part of a run.
void CheckPlaces(CheckState* state);
// Reports runs that are reached only through a symbolic link.
void CheckHiddenRuns(CheckState* state);
// Checks other files: archives, compressed profiles, traces of other formats, files that tbprof left.
void CheckFiles(CheckState* state);
// Checks events files: runs, steps, writers.
void CheckEvents(CheckState* state);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_CHECK_LOGDIR_CHECK_PARTS_H_
