// SPDX-License-Identifier: Apache-2.0
//
// The parts of CheckLogdir. Each adds its findings to one report.
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
  // The logdir is `plugins`, `plugins/profile` or a run: what it holds is in its place, seen from above.
  bool too_deep = false;
  // Files that a finding has named, so that no second one does.
  std::set<std::string> named = {};
  std::set<std::pair<uint64_t, uint64_t>> shown_files = {};  // profiles that a run shows, by whatever name

  const ScannedDirectory& At(int index) const { return scan.directories[index]; }
  std::string Absolute(std::string_view path) const;
  bool IsRun(int index) const;
  // A run shows it: under this name, or by a link.
  bool IsShown(const ScannedFile& file) const;
  // Profiles, by name or by content, that no run shows.
  size_t CountUnshown(const ScannedDirectory& directory) const;
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
// A file of such a name, whether broken or not; of `others`, by its content.
bool IsProfile(const ScannedProfile& profile);
bool IsProfile(const ScannedFile& other);
size_t CountProfiles(const ScannedDirectory& directory);

// A symbolic link to a file that is not there.
bool LeadsNowhere(const ScannedFile& file);

// A run of the Profile page: its hosts, tools, caches, messages, rights.
void CheckRuns(CheckState* state);
// Profiles of tbprof's whose events are not those that were counted.
void CheckCounts(CheckState* state);
// Profiles that are in no run, and how they get into one.
void CheckPlaces(CheckState* state);
// Runs that only a symbolic link leads to.
void CheckHiddenRuns(CheckState* state);
// Other files: archives, compressed profiles, traces of other formats, what a tbprof left.
void CheckFiles(CheckState* state);
// Events files: runs, steps, writers.
void CheckEvents(CheckState* state);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_CHECK_LOGDIR_CHECK_PARTS_H_
