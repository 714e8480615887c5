// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "launcher/base/text.h"
#include "launcher/check/logdir_check_parts.h"
#include "launcher/check/logdir_paths.h"
#include "writer/base/summary_format.h"

namespace tbprof {
namespace {

// Nobody would read a longer command: one command moves at most this many files, the next check reports the rest.
constexpr size_t kMaxMoves = 50;
constexpr size_t kMaxRunName = 200;

class Places {
 public:
  explicit Places(CheckState* state) : state_(*state), scan_(state->scan) {
    for (size_t i = 0; i < scan_.directories.size(); ++i) by_path_[scan_.directories[i].path] = static_cast<int>(i);
    for (const int run : state_.runs) shown_.insert({At(run).device, At(run).inode});
    for (const ScannedDirectory& directory : scan_.directories) {
      if (!directory.is_link && !directory.through_link) real_.insert({directory.device, directory.inode});
    }
  }

  void Check() {
    Nested();
    Misspelt();
    Misplaced();
  }

  void CheckHidden() {
    std::set<std::string> places;
    bool any_shown = false;
    std::vector<int> hidden;
    for (size_t i = 0; i < state_.runs.size(); ++i) {
      const ProfileRun& run = state_.report.profile_runs[i];
      any_shown = any_shown || run.shown;
      if (run.shown || !At(At(state_.runs[i]).parent).through_link) continue;
      hidden.push_back(state_.runs[i]);
      places.insert(ParentOf(ParentOf(ParentOf(run.path))));
    }
    if (state_.report.plugin_fails || state_.LogdirIsHidden()) return;
    const bool view = !any_shown && places.size() == 1 && !HoldsDataOutside(*places.begin());
    for (const int run : hidden) {
      Remedy remedy(&state_.remedies);
      if (view) {
        remedy.View(state_.Absolute(*places.begin()));
      } else {
        LinkAsRun(run, &remedy);
      }
      state_.Problem("profile-behind-link", At(run).path, "behind a symbolic link, which xprof does not follow",
                     remedy.Advice(view ? "view what it leads to" : "link the run itself"), remedy.command());
    }
  }

 private:
  const ScannedDirectory& At(int index) const { return scan_.directories[index]; }

  bool HoldsDataOutside(const std::string& place) const {
    return std::any_of(scan_.directories.begin(), scan_.directories.end(), [&](const ScannedDirectory& directory) {
      if (IsWithin(directory.path, place) || real_.count({directory.device, directory.inode}) == 0) return false;
      return !directory.events.empty() || CountProfiles(directory) > 0;
    });
  }

  // ---- places for new runs

  // True: xprof finds a `plugins/profile` in this directory.
  bool IsSearched(int index) const {
    const ScannedDirectory& directory = At(index);
    if (directory.is_link || directory.through_link || directory.error != 0) return false;
    if (HiddenEnd(directory.path) != std::string_view::npos || IsOwnPlace(directory.path)) return false;
    if (index > 0 && directory.name() == "plugins") return false;
    const std::string whole = StrCat("/", directory.path, "/");
    return whole.find("/plugins/profile/") == std::string::npos;
  }

  // The nearest searched directory: this one or one above it; at last the logdir.
  int PlaceAt(int index) const {
    while (index > 0 && !IsSearched(index)) index = At(index).parent;
    return std::max(index, 0);
  }

  // The directory in which `plugins/profile` belongs for the profiles of this directory: the one that contains the
  // correct or misspelt `plugins` or `profile`.
  int PlaceFor(int index) const {
    if (index == 0 || !At(index).events.empty()) return PlaceAt(index);
    const int parent = At(index).parent;
    const auto named = [&](int at, std::string_view name) {
      return at >= 0 && IsNear(at == 0 ? BaseName(scan_.logdir) : At(at).name(), name);
    };
    const auto above = [&](int at) { return at > 0 ? At(at).parent : 0; };
    int place = parent;
    if (named(index, "profile") && named(parent, "plugins")) {
      place = above(parent);
    } else if (named(parent, "profile")) {
      place = named(above(parent), "plugins") ? above(above(parent)) : above(parent);
    } else if (named(parent, "plugins")) {
      place = above(parent);
    }
    return PlaceAt(place);
  }

  bool IsUsable(const ScannedDirectory& place, std::string_view below) const {
    const auto found = by_path_.find(JoinPath(place.path, below));
    // Excludes links that the scan did not follow: to a directory above, or to a missing target.
    if (!state_.remedies.LinkIn(JoinPath(state_.Absolute(place.path), below)).empty()) return false;
    // MayChange detects a file of that name.
    return found == by_path_.end() || (!At(found->second).is_link && At(found->second).error == 0);
  }

  // The absolute path of the `plugins/profile` in which new runs of this place are created.
  std::string ProfileDirectory(int place) {
    const ScannedDirectory& directory = At(place);
    std::string root = state_.Absolute(directory.path);
    if (!IsUsable(directory, "plugins") || !IsUsable(directory, "plugins/profile") ||
        !MayChange(JoinPath(root, "plugins/profile"))) {
      // `plugins` is a link, a file, or belongs to another user: xprof searches other directories beside it as well.
      if (beside_.count(place) == 0) beside_[place] = state_.remedies.Free(root, "profiles");
      root = beside_[place];
    }
    return JoinPath(root, "plugins/profile");
  }

  // ---- steps of a command

  void LinkAsRun(int index, Remedy* remedy) {
    const std::string runs = ProfileDirectory(PlaceFor(index));
    remedy->MakeDirectory(runs);
    remedy->Link(state_.Absolute(At(index).path), state_.remedies.Free(runs, NameFor(index)));
  }

  // Moves a directory's profiles into a new run.
  void MoveAsRun(int index, const std::string& name, Remedy* remedy) {
    const ScannedDirectory& directory = At(index);
    if (directory.is_link || directory.through_link) return LinkAsRun(index, remedy);
    const int place = PlaceFor(index);
    const std::string runs = ProfileDirectory(place);
    if (directory.device != At(place).device) {
      remedy->MakeDirectory(runs);
      remedy->Link(state_.Absolute(directory.path), state_.remedies.Free(runs, name));
      return;
    }
    MoveFiles(directory, state_.remedies.Free(runs, name), remedy);
  }

  void MoveFiles(const ScannedDirectory& directory, const std::string& target, Remedy* remedy) {
    remedy->MakeDirectory(target);
    const std::string from = state_.Absolute(directory.path);
    size_t moved = 0, gone = 0;
    const auto move = [&](const ScannedFile& file, const std::string& to) {
      MoveFile(from, file, to, remedy);
      if (!file.is_link) ++gone;
    };
    for (const ScannedProfile& profile : directory.profiles) {
      if (!IsProfile(profile) || state_.IsShown(profile)) continue;
      if (++moved > kMaxMoves) break;
      const std::string host = HostOf(profile.name);
      const std::string suffix = profile.name.ends_with(".xplane.riegeli") ? ".xplane.riegeli" : ".xplane.pb";
      move(profile, state_.remedies.Free(target, host.empty() ? HostFor(profile.name, "") : host, suffix));
    }
    for (const ScannedFile& file : directory.others) {
      if (IsProfile(file) && !state_.IsShown(file)) {
        move(file, state_.remedies.Free(target, HostFor(file.name, file.host), ".xplane.pb"));
      } else if (file.name.ends_with("summary.json")) {
        move(file, state_.remedies.Free(target, file.name));
      }
    }
    if (gone == directory.entries && !directory.path.empty() && !target.starts_with(StrCat(from, "/"))) {
      remedy->RemoveEmptyLevels(from);
    }
  }

  void MoveFile(const std::string& from, const ScannedFile& file, const std::string& to, Remedy* remedy) {
    if (file.is_link) {
      remedy->Link(JoinPath(from, file.name), to);  // a relative link would break if it were moved
    } else {
      remedy->Move(JoinPath(from, file.name), to);
    }
  }

  // Joins the names of the directories between the place and this one: `plugins/profile/2023/11/25` becomes 2023_11_25.
  std::string NameFor(int index) const {
    const ScannedDirectory& directory = At(index);
    const std::string& place = At(PlaceFor(index)).path;
    std::string_view below = directory.path;
    if (!place.empty() && IsWithin(below, place)) below.remove_prefix(std::min(below.size(), place.size() + 1));
    const std::string above = ParentOf(below);
    std::string name, last;
    for (std::string_view part : Split(above, '/')) {
      if (part.empty() || part == last || IsNear(part, "plugins") || IsNear(part, "profile")) continue;
      StrAppend(&name, PlainName(part), "_");
      last = part;
    }
    if (directory.name() != last) name += RunName(directory.path);
    if (name.ends_with('_')) name.pop_back();
    return name.size() <= kMaxRunName ? name : RunName(directory.path);
  }

  // The name of the run that a directory becomes.
  static std::string RunName(std::string_view path) {
    std::string name = PlainName(BaseName(path));
    if (!HostOf(name).empty()) name = HostOf(name);  // actions/upload-artifact makes one directory per file
    if (name.empty() || name == "plugins" || name == "profile") name = "run1";
    return name;
  }

  // ---- plugins/profile below a run

  // The path up to <outer> of <…>/plugins/profile/<outer>/…/plugins/profile/<run>.
  static std::string OuterRun(const std::string& path) {
    constexpr std::string_view kPlace = "plugins/profile/";
    const std::string whole = StrCat("/", path);
    const size_t first = whole.find(StrCat("/", kPlace));
    if (first == std::string::npos) return "";
    const size_t rest = first + 1 + kPlace.size();
    if (whole.find(StrCat("/", kPlace), rest - 1) == std::string::npos) return "";
    return path.substr(0, whole.find('/', rest) - 1);
  }

  void Nested() {
    std::map<std::string, std::vector<int>> inner;  // by the outer run that contains them
    for (size_t i = 0; i < state_.runs.size(); ++i) {
      const ScannedDirectory& run = At(state_.runs[i]);
      const std::string outer = OuterRun(run.path);
      if (outer.empty() || run.through_link || !state_.report.profile_runs[i].shown || run.profiles.empty()) continue;
      // If the outer run has its own profile, it is shown, and so are the inner runs.
      const auto found = by_path_.find(outer);
      if (found != by_path_.end() && CountProfiles(At(found->second)) == 0) inner[outer].push_back(state_.runs[i]);
    }
    for (const auto& [outer, runs] : inner) {
      Remedy remedy(&state_.remedies);
      size_t moved = 0;
      for (const int run : runs) {
        if (++moved > kMaxMoves) break;
        remedy.Move(state_.Absolute(At(run).path),
                    state_.remedies.Free(state_.Absolute(ParentOf(outer)), RunName(At(run).path)));
      }
      // Removes the levels between outer and inner runs if they are empty after the moves.
      std::string level = ParentOf(At(runs[0]).path);
      for (size_t count = moved; moved <= kMaxMoves && IsWithin(level, outer); count = 1, level = ParentOf(level)) {
        if (Entries(level) != count) break;
        remedy.RemoveEmpty(state_.Absolute(level));
      }
      state_.Warn("profile-nested", outer, "an empty run: `plugins/profile` is in it again",
                  remedy.Advice("move its runs up"), remedy.command());
    }
  }

  size_t Entries(const std::string& path) const {
    const auto found = by_path_.find(path);
    return found == by_path_.end() ? 0 : At(found->second).entries;
  }

  // ---- a directory that was meant to be plugins/profile

  void Misspelt() {
    for (size_t i = 1; i < scan_.directories.size(); ++i) {
      const ScannedDirectory& directory = At(static_cast<int>(i));
      if (directory.entries == 0 || state_.too_deep) continue;
      const ScannedDirectory& above = At(directory.parent);
      const std::string name(directory.name());
      const std::string parent = std::string(above.path.empty() ? BaseName(scan_.logdir) : above.name());
      if (!IsNear(parent, "plugins") || !IsNear(name, "profile") || (parent == "plugins" && name == "profile"))
        continue;
      std::vector<int> sources;
      if (state_.CountUnshown(directory) > 0 && !IsOtherWay(static_cast<int>(i)))
        sources.push_back(static_cast<int>(i));
      for (const int child : directory.children) {
        if (state_.CountUnshown(At(child)) > 0 && !IsShown(child) && !IsOtherWay(child)) sources.push_back(child);
      }
      if (sources.empty()) continue;
      for (const int source : sources) done_.insert(source);
      Remedy remedy(&state_.remedies);
      RenameOrMove(static_cast<int>(i), sources, &remedy);
      state_.Problem("profile-misspelt", directory.path, "is not read: TensorBoard reads `plugins/profile` alone",
                     remedy.Advice("rename it"), remedy.command());
    }
  }

  void RenameOrMove(int index, const std::vector<int>& sources, Remedy* remedy) {
    if (state_.LogdirIsHidden()) return remedy->Forbid();
    const ScannedDirectory& directory = At(index);
    const ScannedDirectory& above = At(directory.parent);
    const bool own = !directory.is_link && !directory.through_link && !above.is_link && CountProfiles(directory) == 0;
    if (own && !above.path.empty() && PlaceAt(above.parent) == above.parent) {
      const std::string right = JoinPath(JoinPath(state_.Absolute(At(above.parent).path), "plugins"), "profile");
      if (Entries(JoinPath(At(above.parent).path, "plugins/profile")) == 0 &&
          state_.remedies.LinkIn(ParentOf(right)).empty() &&
          state_.remedies.Free(ParentOf(right), "profile") == right && MayChange(ParentOf(right))) {
        remedy->MakeDirectory(ParentOf(right));
        remedy->Move(state_.Absolute(directory.path), right);
        renamed_.push_back(directory.path);
        return;
      }
    }
    size_t moved = 0;
    for (const int source : sources) {
      if (++moved <= kMaxMoves) MoveAsRun(source, source == index ? "run1" : NameFor(source), remedy);
    }
  }

  // ---- profiles elsewhere

  bool IsShown(int index) const { return shown_.count({At(index).device, At(index).inode}) != 0; }
  // True: a path through a link to a directory that is also below the logdir without the link.
  bool IsOtherWay(int index) const {
    const ScannedDirectory& directory = At(index);
    return (directory.is_link || directory.through_link) && real_.count({directory.device, directory.inode}) != 0;
  }

  void Misplaced() {
    for (size_t i = 0; i < scan_.directories.size(); ++i) {
      const int index = static_cast<int>(i);
      const ScannedDirectory& directory = At(index);
      const size_t profiles = state_.CountUnshown(directory);
      if (profiles == 0 || IsShown(index) || IsOtherWay(index) || IsOwnPlace(directory.path) || done_.count(index)) {
        continue;
      }
      if (state_.too_deep && IsInPlaceFromAbove(directory)) continue;
      // The rename changes its path, so the next check reports it.
      if (std::any_of(renamed_.begin(), renamed_.end(),
                      [&](const std::string& path) { return IsWithin(directory.path, path); })) {
        continue;
      }
      const std::string count = StrCat("holds ", profiles, profiles == 1 ? " profile" : " profiles");
      Remedy remedy(&state_.remedies);
      const std::string what = Place(index, &remedy);
      if (state_.LogdirIsHidden()) remedy.Forbid();
      state_.Problem("profile-misplaced", directory.path, StrCat(count, " ", what), remedy.Advice("move it into a run"),
                     remedy.command());
    }
  }

  // True: <…>/plugins/profile/<run> by its absolute path, so that the correct logdir shows it.
  bool IsInPlaceFromAbove(const ScannedDirectory& directory) const {
    return EndsWithPath(ParentOf(state_.Absolute(directory.path)), "plugins/profile");
  }

  // Adds the steps of the remedy, and returns why the profiles are not found.
  std::string Place(int index, Remedy* remedy) {
    const ScannedDirectory& directory = At(index);
    const std::string absolute = state_.Absolute(directory.path);
    const std::string parent(BaseName(ParentOf(absolute)));
    if (index > 0 && EndsWithPath(directory.path, "plugins/profile")) {
      MoveAsRun(index, "run1", remedy);
      return "itself: each run needs a directory";
    }
    if (const int run = EnclosingRun(index); run >= 0) {
      const bool one = directory.parent == run;
      BelowRun(index, run, remedy);
      return one ? "below a run: one level too deep" : "below a run: too deep";
    }
    const std::string name = index == 0 || !directory.events.empty() ? "run1" : NameFor(index);
    MoveAsRun(index, name, remedy);
    if (index > 0 && IsNear(parent, "plugins")) return "without the level `profile`: not read";
    return "outside of `plugins/profile`: not read";
  }

  // The run that this directory is in, or -1.
  int EnclosingRun(int index) const {
    int above = index > 0 ? At(index).parent : -1;
    while (above > 0 && !state_.IsRun(above)) above = At(above).parent;
    return above > 0 ? above : -1;
  }

  // Moves into the run itself if the run has no profile and no other directory's profiles go there; else into a run
  // beside it.
  void BelowRun(int index, int outer, Remedy* remedy) {
    const ScannedDirectory& directory = At(index);
    const ScannedDirectory& run = At(outer);
    size_t with_profiles = 0;
    for (const ScannedDirectory& other : scan_.directories) {
      with_profiles += IsWithin(other.path, run.path) && CountProfiles(other) > 0;
    }
    const bool linked = directory.is_link || directory.through_link;
    const bool alone = with_profiles == 1 && CountProfiles(run) == 0 && directory.device == run.device;
    if (alone && !linked && !IsPartOfDate(run.name())) {
      MoveFiles(directory, state_.Absolute(run.path), remedy);
    } else {
      MoveAsRun(index, NameFor(index), remedy);
    }
  }

  // True for `2023` or `2023_11`: a run of that name would have no time.
  static bool IsPartOfDate(std::string_view name) {
    return name.size() < 8 && name.find_first_not_of("0123456789-_") == std::string_view::npos;
  }

  CheckState& state_;
  const LogdirScan& scan_;
  std::set<std::pair<uint64_t, uint64_t>> shown_;  // directories of runs, through any path
  std::set<std::pair<uint64_t, uint64_t>> real_;   // directories that are reachable without a link
  std::map<std::string, int> by_path_;
  std::set<int> done_;
  std::vector<std::string> renamed_;
  std::map<int, std::string> beside_;
};

}  // namespace

void CheckPlaces(CheckState* state) { Places(state).Check(); }
void CheckHiddenRuns(CheckState* state) { Places(state).CheckHidden(); }

}  // namespace tbprof
