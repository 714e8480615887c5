// SPDX-License-Identifier: Apache-2.0
#include "launcher/check/logdir_check.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "launcher/base/text.h"
#include "launcher/check/logdir_check_parts.h"
#include "launcher/check/logdir_paths.h"
#include "launcher/cli/options.h"
#include "writer/base/summary_format.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

// TensorBoard scans the whole directory every few seconds, so that many entries are slow.
constexpr size_t kManyEntries = 100'000;

class Checker {
 public:
  Checker(const LogdirScan& scan, int64_t now_ns) : state_{scan, now_ns} {}

  LogdirReport Check() {
    LogdirReport& report = state_.report;
    report.logdir = state_.scan.logdir;
    state_.remedies.SetLogdir(state_.scan.logdir);
    report.directories = state_.scan.directories.size();
    report.entries = state_.scan.entries;
    report.event_bytes_read = state_.scan.event_bytes_read;
    if (state_.scan.error != 0) {
      Unopened();
      return std::move(report);
    }
    TakeLinks();
    FindRuns();
    Logdir();
    NoUtf8();
    CheckHiddenRuns(&state_);
    CheckRuns(&state_);
    CheckCounts(&state_);
    CheckPlaces(&state_);
    CheckFiles(&state_);
    Unreadable();
    CheckEvents(&state_);
    Empty();
    Withheld();
    std::stable_sort(report.findings.begin(), report.findings.end(),
                     [](const LogdirFinding& a, const LogdirFinding& b) { return a.level > b.level; });
    std::sort(report.profile_runs.begin(), report.profile_runs.end(),
              [](const ProfileRun& a, const ProfileRun& b) { return a.name > b.name; });
    return std::move(report);
  }

 private:
  const ScannedDirectory& At(int index) const { return state_.At(index); }

  void TakeLinks() {
    for (const ScannedDirectory& directory : state_.scan.directories) {
      if (directory.is_link) state_.remedies.AddLink(state_.Absolute(directory.path));
      const auto take = [&](const auto& files) {
        for (const ScannedFile& file : files) {
          if (file.is_link) state_.remedies.AddLink(JoinPath(state_.Absolute(directory.path), file.name));
        }
      };
      take(directory.profiles);
      take(directory.events);
      take(directory.others);
    }
  }

  void Unopened() {
    const LogdirScan& scan = state_.scan;
    Remedy remedy(&state_.remedies);
    if (scan.error == ENOENT && scan.logdir.find("/~") != std::string::npos) {
      state_.Problem("logdir-missing", "", "does not exist: `~` was not replaced by the home directory",
                     "write it without quotes");
    } else if (scan.error == ENOENT && scan.siblings.empty() && scan.logdir.find(',') != std::string::npos) {
      state_.Problem("logdir-missing", "", "does not exist: TensorBoard takes one directory, no list",
                     "give the one above them");
    } else if (scan.error == ENOENT) {
      const std::string near = NearestName(BaseName(scan.logdir), scan.siblings);
      if (!near.empty()) remedy.View(JoinPath(ParentOf(scan.logdir), near));
      state_.Problem("logdir-missing", "", "does not exist, so TensorBoard shows nothing",
                     remedy.possible() ? "this one does" : "give the path written to", remedy.command());
    } else if (scan.error == ENOTDIR) {
      // View the file's directory, or for a profile the directory that contains plugins/.
      std::string directory = ParentOf(scan.logdir);
      if (EndsWithPath(ParentOf(directory), "plugins/profile")) directory = ParentOf(ParentOf(ParentOf(directory)));
      remedy.View(directory);
      state_.Problem("logdir-not-directory", "", "is a file, TensorBoard takes a directory", "view its directory",
                     remedy.command());
    } else {
      state_.Problem("logdir-unreadable", "", StrCat("cannot be opened: ", strerror(scan.error)),
                     "view as a user who may read it");
    }
  }

  // Finds the directories <…>/plugins/profile/<run>, and which versions of the plugin show them.
  void FindRuns() {
    std::set<std::string> old_places = {""};
    for (const ScannedDirectory& directory : state_.scan.directories) {
      bool readable = false;
      for (const ScannedEvents& events : directory.events) readable = readable || events.facts.has_time;
      if (!readable) continue;
      old_places.insert(directory.path);
      if (directory.name() == "train" || directory.name() == "validation") old_places.insert(ParentOf(directory.path));
    }
    const bool pattern = PatternEnd(state_.scan.logdir) != std::string::npos;
    const auto is_text = [&](std::string_view path) {
      const std::string whole = state_.Absolute(path);
      return ValidUtf8Prefix(whole) == whole.size();
    };
    // xprof requests the runs of each directory that it finds, and fails at a path that is not UTF-8.
    bool fails = !is_text("");
    for (const ScannedDirectory& profile : state_.scan.directories) {
      if (profile.name() != "profile" || profile.parent < 0) continue;
      const ScannedDirectory& plugins = At(profile.parent);
      if (plugins.path.empty()) {
        // The plugin lists the parent of `plugins`, which is outside of the logdir, and fails.
        if (BaseName(state_.scan.logdir) == "plugins" && !profile.through_link) state_.report.plugin_fails = true;
        continue;
      }
      if (plugins.name() != "plugins") continue;
      const ScannedDirectory& place = At(plugins.parent);
      if (!is_text(place.path) && !profile.through_link && !pattern) {
        if (!fails || !no_utf8_.empty()) no_utf8_.push_back(profile.path);
        fails = true;
      }
      for (const int child : profile.children) {
        ProfileRun run;
        run.path = At(child).path;
        run.name = JoinPath(place.path, At(child).name());
        run.shown_old = old_places.count(place.path) != 0;
        run.shown = place.path.empty() || (!profile.through_link && !pattern);
        state_.report.profile_runs.push_back(std::move(run));
        state_.runs.push_back(child);
      }
    }
    const auto hide = [&] {
      for (ProfileRun& run : state_.report.profile_runs) run.shown = run.shown && !state_.report.plugin_fails;
    };
    hide();
    ForgetOtherWays();
    for (size_t i = 0; i < state_.runs.size(); ++i) {
      if (!state_.report.profile_runs[i].shown) continue;
      for (const ScannedProfile& profile : At(state_.runs[i]).profiles) {
        if (!HostOf(profile.name).empty()) state_.shown_files.insert({profile.device, profile.inode});
      }
    }
    // Computed before this failure counts: shown_files keeps the files that the plugin shows after the path is fixed.
    state_.report.plugin_fails = state_.report.plugin_fails || fails;
    hide();
  }

  // Drops runs that are reached through a link and are shown under another path: nothing is missing on the page.
  void ForgetOtherWays() {
    std::set<std::pair<uint64_t, uint64_t>> shown;
    for (size_t i = 0; i < state_.runs.size(); ++i) {
      if (state_.report.profile_runs[i].shown) shown.insert({At(state_.runs[i]).device, At(state_.runs[i]).inode});
    }
    for (size_t i = state_.runs.size(); i-- > 0;) {
      const ScannedDirectory& run = At(state_.runs[i]);
      if (state_.report.profile_runs[i].shown || !At(run.parent).through_link) continue;
      if (shown.count({run.device, run.inode}) == 0) continue;
      state_.runs.erase(state_.runs.begin() + static_cast<ptrdiff_t>(i));
      state_.report.profile_runs.erase(state_.report.profile_runs.begin() + static_cast<ptrdiff_t>(i));
    }
  }

  // Checks for a logdir that is one level too deep, that has a pattern in its path, or that is far above the runs.
  void Logdir() {
    const std::string& logdir = state_.scan.logdir;
    const std::string name(BaseName(logdir)), parent = ParentOf(logdir);
    std::string place;
    std::string_view what;
    if (name == "plugins" && state_.report.plugin_fails) {
      place = parent;
      what = "is `plugins` itself: xprof fails and lists no run";
    } else if (name == "profile" && BaseName(parent) == "plugins") {
      place = ParentOf(parent);
      what = "is `plugins/profile` itself: no run is found in it";
    } else if (EndsWithPath(parent, "plugins/profile") && CountProfiles(At(0)) > 0) {
      place = ParentOf(ParentOf(parent));
      what = "is a run: TensorBoard takes the directory of `plugins`";
    } else {
      if (state_.LogdirIsHidden()) Hidden();
      TooHigh();
      return;
    }
    state_.too_deep = true;
    Remedy remedy(&state_.remedies);
    remedy.View(place);
    state_.Problem("logdir-too-deep", "", std::string(what), "view the one above", remedy.command());
  }

  // Advises a link instead of a new name: renaming changes the path for every program that uses the logdir.
  void Hidden() {
    bool any = !state_.report.profile_runs.empty();
    for (const ScannedDirectory& directory : state_.scan.directories) any = any || CountProfiles(directory) > 0;
    if (!any) return;
    const std::string& logdir = state_.scan.logdir;
    const std::string part = logdir.substr(0, HiddenEnd(logdir));
    const std::string link = state_.remedies.Free(ParentOf(part), PlainName(BaseName(part)));
    Remedy remedy(&state_.remedies);
    remedy.Link(logdir, link);
    remedy.View(link);
    state_.Problem("path-pattern", "", "`[` or no UTF-8 in its path hides runs from xprof",
                   remedy.Advice("view a link"), remedy.command());
  }

  // Reports the directories above a `plugins/profile` whose names are not UTF-8, each once.
  void NoUtf8() {
    for (const std::string& path : no_utf8_) {
      const size_t valid = ValidUtf8Prefix(path);
      const std::string part = path.substr(0, path.find('/', valid));
      if (!state_.named.insert(part).second) continue;
      Remedy remedy(&state_.remedies);
      const std::string from = state_.Absolute(part);
      remedy.Move(from, state_.remedies.Free(ParentOf(from), PlainName(BaseName(part))));
      state_.Problem("path-pattern", part, "its name is no UTF-8: xprof fails and lists no run",
                     remedy.Advice("rename when no program writes"), remedy.command());
    }
  }

  void TooHigh() {
    if (state_.scan.entries > kManyEntries) {
      state_.Warn("logdir-large", "", StrCat("holds over ", kManyEntries, " files: TensorBoard reloads slowly"),
                  "give the training's directory");
    }
    std::set<std::string> places;
    for (const ProfileRun& run : state_.report.profile_runs) {
      if (run.shown) places.insert(ParentOf(ParentOf(ParentOf(run.path))));
    }
    if (places.size() != 1 || places.begin()->empty()) return;
    const std::string& place = *places.begin();
    // A directory inside a run is not a training's directory; the finding profile-nested reports it.
    if (EndsWithPath(place, "plugins/profile")) return;
    for (const ScannedDirectory& directory : state_.scan.directories) {
      // The logdir has other content to show outside of `place`.
      if (IsWithin(directory.path, place)) continue;
      if (!directory.events.empty() || CountProfiles(directory) > 0) return;
    }
    const size_t levels = 1 + std::count(place.begin(), place.end(), '/');
    Remedy remedy(&state_.remedies);
    remedy.View(state_.Absolute(place));
    state_.Note("logdir-too-high", "",
                StrCat("is ", levels, levels == 1 ? " level" : " levels", " above the profiles: long run names"),
                "view that directory", remedy.command());
  }

  static bool IsPlaceOfRuns(std::string_view path) { return EndsWithPath(path, "plugins/profile"); }

  void Unreadable() {
    for (const ScannedDirectory& directory : state_.scan.directories) {
      if (directory.error == 0 || directory.error == ENOENT) continue;  // ENOENT: removed during the scan
      Remedy remedy(&state_.remedies);
      struct stat info;
      const std::string path = state_.Absolute(directory.path), word = ShellWord(path);
      const bool own = stat(path.c_str(), &info) == 0 && info.st_uid == geteuid();
      if (directory.error == EACCES && own && !word.empty()) {
        remedy.KeepOffLinks(path);
        remedy.Run(ParentOf(path), StrCat("chmod u+rx -- ", word));
      }
      state_.Problem("directory-unreadable", directory.path, StrCat("cannot be listed: ", strerror(directory.error)),
                     remedy.Advice("allow it"), remedy.command());
    }
    if (state_.scan.entries_cut || state_.scan.depth_cut) {
      state_.Warn("scan-cut", "",
                  state_.scan.entries_cut ? StrCat("not all was read: over ", state_.scan.entries - 1, " entries")
                                          : std::string("not all was read: it is nested too deeply"),
                  "give the directory of the training");
    }
    if (state_.scan.links_cut) {
      state_.Warn("scan-cut", "", "not all was read: links lead to too many directories",
                  "give the directory of the training");
    }
    for (const std::string& link : state_.scan.dangling) {
      const bool matters = LowerCase(BaseName(link)).find("xplane") != std::string::npos ||
                           link.find("tfevents") != std::string::npos || IsPlaceOfRuns(ParentOf(link)) ||
                           IsPlaceOfRuns(JoinPath(ParentOf(link), "profile")) || BaseName(link) == "plugins";
      if (matters && state_.named.count(link) == 0) {
        state_.Warn("link-dangling", link, "a link that leads nowhere: nothing is shown", "link it anew");
      }
    }
    // Offers no command: it would remove a name, and commands remove only empty directories.
    for (const std::string& link : state_.scan.loops) {
      state_.Warn("link-loop", link, "leads to a directory above: TensorBoard may loop", "take this link away");
    }
  }

  void Empty() {
    const LogdirReport& report = state_.report;
    if (!report.profile_runs.empty() || report.Count(FindingLevel::kProblem) > 0) return;
    if (!report.events_runs.empty()) {
      state_.Note("no-profile", "", "holds no profile: the Profile page is inactive", "tbprof run -- COMMAND");
    } else if (state_.scan.unnamed_cut || state_.scan.entries_cut || state_.scan.depth_cut || state_.scan.links_cut) {
      state_.Problem("logdir-empty", "", "unknown: no profile in the part that was read",
                     "give the directory written to");
    } else {
      state_.Problem("logdir-empty", "", "holds no profile and no events file: nothing is shown",
                     "tbprof run -- COMMAND");
    }
  }

  // Adds one note for all commands that other users could redirect, and one for all commands that a link would
  // redirect.
  void Withheld() {
    if (std::string link = state_.remedies.link_met(); !link.empty()) {
      link.erase(0, std::min(link.size(), state_.scan.logdir.size() + 1));
      state_.Note("commands-withheld", link, "a symbolic link: no command goes through it",
                  "look where it leads first");
    }
    const std::optional<SharedDirectory>& shared = state_.remedies.trust().shared();
    if (!shared.has_value()) return;
    std::string where = shared->path;
    if (IsWithin(where, state_.scan.logdir)) where.erase(0, std::min(where.size(), state_.scan.logdir.size() + 1));
    state_.Note("commands-withheld", where, StrCat(shared->who, " may write here"),
                StrCat("no command is safe: ", shared->advice));
  }

  CheckState state_;
  std::vector<std::string> no_utf8_;  // `plugins/profile` below paths that are not UTF-8
};

}  // namespace

std::string CheckState::Absolute(std::string_view path) const {
  return path.empty() ? scan.logdir : JoinPath(scan.logdir, path);
}

bool CheckState::IsRun(int index) const { return std::find(runs.begin(), runs.end(), index) != runs.end(); }

bool CheckState::LogdirIsHidden() const { return HiddenEnd(scan.logdir) != std::string::npos; }

void CheckState::Add(FindingLevel level, std::string_view id, std::string_view where, std::string what, std::string fix,
                     std::string command) {
  report.findings.push_back(
      {level, id, where.empty() ? "." : std::string(where), std::move(what), std::move(fix), std::move(command)});
}

bool IsOwnPlace(std::string_view path) { return IsWithin(path, ".tbprof"); }

bool CheckState::IsShown(const ScannedFile& file) const {
  return file.inode != 0 && shown_files.count({file.device, file.inode}) != 0;
}

size_t CheckState::CountUnshown(const ScannedDirectory& directory) const {
  const auto counts = [&](const auto& file) { return IsProfile(file) && !IsShown(file); };
  return static_cast<size_t>(std::count_if(directory.profiles.begin(), directory.profiles.end(), counts) +
                             std::count_if(directory.others.begin(), directory.others.end(), counts));
}

bool IsProfile(const ScannedProfile& profile) {
  const bool is_file = profile.regular || (profile.error != 0 && profile.error != ENOENT);
  return is_file && profile.content != FileContent::kAppleDouble;
}

bool LeadsNowhere(const ScannedFile& file) {
  return file.is_link && (file.error == ENOENT || file.error == ELOOP || file.error == ENOTDIR);
}

bool IsProfile(const ScannedFile& other) { return other.content == FileContent::kProfile; }

size_t CountProfiles(const ScannedDirectory& directory) {
  const auto counts = [](const auto& file) { return IsProfile(file); };
  return static_cast<size_t>(std::count_if(directory.profiles.begin(), directory.profiles.end(), counts) +
                             std::count_if(directory.others.begin(), directory.others.end(), counts));
}

FindingLevel LogdirReport::Worst() const {
  FindingLevel worst = FindingLevel::kNote;
  for (const LogdirFinding& finding : findings) worst = std::max(worst, finding.level);
  return worst;
}

int LogdirReport::ExitStatus() const { return static_cast<int>(Worst()); }

size_t LogdirReport::Count(FindingLevel level) const {
  return static_cast<size_t>(
      std::count_if(findings.begin(), findings.end(), [&](const LogdirFinding& f) { return f.level == level; }));
}

std::string Age(int64_t then_ns, int64_t now_ns) {
  const int64_t since_ns = std::max(then_ns, now_ns - INT64_MAX);  // the time of a file may be any number
  const int64_t seconds = std::max<int64_t>(0, (now_ns - since_ns) / 1'000'000'000);
  if (seconds < 120) return StrCat(seconds, " s");
  if (seconds < 7200) return StrCat(seconds / 60, " min");
  if (seconds < 2 * 86400) return StrCat(seconds / 3600, " h");
  return StrCat(seconds / 86400, " days");
}

LogdirReport CheckLogdir(const LogdirScan& scan, int64_t now_ns) { return Checker(scan, now_ns).Check(); }

}  // namespace tbprof
