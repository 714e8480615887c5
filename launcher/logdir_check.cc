// SPDX-License-Identifier: Apache-2.0
#include "launcher/logdir_check.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "launcher/options.h"
#include "launcher/text.h"
#include "writer/summary_format.h"
#include "writer/utf8.h"

namespace tbprof {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kLargeProfile = kDefaultMaxProfileSize;  // docs/xspace-mapping.md, "Size": what opens in 10 s
constexpr uint64_t kMaxProfile = (uint64_t{1} << 31) - 1;   // protobuf's limit
// A directory that TensorBoard walks through again every few seconds.
constexpr size_t kManyEntries = 100'000;
constexpr size_t kMaxMessages = 5;  // of one profile

const std::vector<std::string>& ToolsOfAnyProfile() {
  static const std::vector<std::string> tools = {"framework_op_stats", "hlo_stats",    "input_pipeline_analyzer",
                                                 "memory_profile",     "op_profile",   "overview_page",
                                                 "roofline_model",     "trace_viewer@"};
  return tools;
}

bool Near(std::string_view word, std::string_view name) {
  if (word.size() > name.size() + 4) return false;  // most directories, without measuring
  return LowerCase(word) == name || !NearestName(LowerCase(word), {std::string(name)}).empty();
}

std::string Parent(std::string_view path) {
  const size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? std::string_view() : path.substr(0, slash));
}

std::string Name(std::string_view path) {
  const size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

bool IsPath(std::string_view path, std::string_view end) {
  return path == end || (path.ends_with(end) && path[path.size() - end.size() - 1] == '/');
}

// The end of the first component with a closed `[…]`, which Python's glob takes for a class of characters: such a path
// fits other names than its own. npos if there is none.
size_t PatternEnd(std::string_view path) {
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view component = path.substr(begin, end - begin);
    for (size_t open = component.find('['); open != std::string_view::npos; open = component.find('[', open + 1)) {
      size_t at = open + 1;
      if (at < component.size() && component[at] == '!') ++at;
      if (component.find(']', at + 1) != std::string_view::npos) return end;  // a `]` at once belongs to the class
    }
    begin = end + 1;
  }
  return std::string_view::npos;
}

// As the plugin's pattern takes it: everything before the last dot of the suffix. Empty: no host.
std::string HostOf(std::string_view name) {
  // Its pattern does not match across a line's end; the whole name is the host then.
  if (name.find('\n') != std::string_view::npos) return std::string(name);
  for (std::string_view suffix : {".xplane.pb", ".xplane.riegeli"}) {
    if (name.ends_with(suffix)) return std::string(name.substr(0, name.size() - suffix.size()));
  }
  return "";
}

class Checker {
 public:
  Checker(const LogdirScan& scan, int64_t now_ns) : scan_(scan), now_ns_(now_ns) {}

  LogdirReport Check() {
    report_.logdir = scan_.logdir;
    report_.directories = scan_.directories.size();
    report_.entries = scan_.entries;
    report_.event_bytes_read = scan_.event_bytes_read;
    if (scan_.error != 0) {
      Unopened();
      return std::move(report_);
    }
    FindRuns();
    Logdir();
    for (size_t i = 0; i < runs_.size(); ++i) Run(runs_[i], report_.profile_runs[i]);
    Misspelt();
    Misplaced();
    Leftovers();
    Unreadable();
    CheckEvents(scan_, now_ns_, &report_);
    if (report_.profile_runs.empty() && report_.events_runs.empty() && report_.Count(FindingLevel::kProblem) == 0) {
      Problem("logdir-empty", "", "holds no profile and no events file; TensorBoard says that no dashboard is active",
              StrCat("tbprof run --logdir=", ShellWord(scan_.logdir), " -- COMMAND"));
    } else if (report_.profile_runs.empty() && report_.Count(FindingLevel::kProblem) == 0) {
      Note("no-profile", "", "holds no profile; TensorBoard lists Profile among the inactive pages",
           StrCat("tbprof run --logdir=", ShellWord(scan_.logdir), " -- COMMAND"));
    }
    std::stable_sort(report_.findings.begin(), report_.findings.end(),
                     [](const Finding& a, const Finding& b) { return a.level > b.level; });
    std::sort(report_.profile_runs.begin(), report_.profile_runs.end(),
              [](const ProfileRun& a, const ProfileRun& b) { return a.name > b.name; });
    return std::move(report_);
  }

 private:
  void Add(FindingLevel level, std::string_view id, std::string_view where, std::string what, std::string fix) {
    report_.findings.push_back({level, id, where.empty() ? "." : std::string(where), std::move(what), std::move(fix)});
  }
  void Problem(std::string_view id, std::string_view where, std::string what, std::string fix = "") {
    Add(FindingLevel::kProblem, id, where, std::move(what), std::move(fix));
  }
  void Warn(std::string_view id, std::string_view where, std::string what, std::string fix = "") {
    Add(FindingLevel::kWarning, id, where, std::move(what), std::move(fix));
  }
  void Note(std::string_view id, std::string_view where, std::string what, std::string fix = "") {
    Add(FindingLevel::kNote, id, where, std::move(what), std::move(fix));
  }

  std::string Absolute(std::string_view path) const {
    if (path.empty()) return scan_.logdir;
    return StrCat(scan_.logdir == "/" ? "" : scan_.logdir, "/", path);
  }
  std::string Word(std::string_view path) const { return ShellWord(Absolute(path)); }
  const ScannedDirectory& At(int index) const { return scan_.directories[index]; }
  static std::string Join(std::string_view directory, std::string_view name) {
    return directory.empty() ? std::string(name) : StrCat(directory, "/", name);
  }

  void Unopened() {
    if (scan_.error == ENOENT) {
      const std::string near = NearestName(Name(scan_.logdir), scan_.siblings);
      Problem("logdir-missing", "", "does not exist; TensorBoard starts all the same and shows nothing",
              near.empty() ? std::string("give the directory that was written to, by its absolute path")
                           : StrCat("tensorboard --logdir ", ShellWord(Join(Parent(scan_.logdir), near))));
    } else if (scan_.error == ENOTDIR) {
      // The directory that holds plugins/, where the file is a profile in its place.
      std::string directory = Parent(scan_.logdir);
      if (IsPath(Parent(directory), "plugins/profile")) directory = Parent(Parent(Parent(directory)));
      Problem("logdir-not-directory", "", "is a file; TensorBoard takes a directory",
              StrCat("tensorboard --logdir ", ShellWord(directory.empty() ? "/" : directory)));
    } else {
      Problem("logdir-unreadable", "", StrCat("cannot be opened: ", strerror(scan_.error)),
              "run TensorBoard and tbprof check as a user who may read it");
    }
  }

  // Directories <…>/plugins/profile/<run>, and who finds them.
  void FindRuns() {
    std::set<std::string> old_places = {""};
    for (const ScannedDirectory& directory : scan_.directories) {
      bool readable = false;
      for (const ScannedEvents& events : directory.events) readable = readable || events.facts.has_time;
      if (!readable) continue;
      old_places.insert(directory.path);
      if (directory.name() == "train" || directory.name() == "validation") old_places.insert(Parent(directory.path));
    }
    const bool pattern = PatternEnd(scan_.logdir) != std::string::npos;
    std::set<std::pair<uint64_t, uint64_t>> shown;  // a further way to one of them, by a link, loses nothing
    for (const ScannedDirectory& profile : scan_.directories) {
      if (profile.name() != "profile" || profile.parent < 0) continue;
      const ScannedDirectory& plugins = At(profile.parent);
      if (plugins.path.empty()) {
        // The plugin looks for the parent of `plugins`, which is outside of the logdir.
        if (Name(scan_.logdir) == "plugins" && !profile.through_link) report_.plugin_fails = true;
        continue;
      }
      if (plugins.name() != "plugins") continue;
      const ScannedDirectory& place = At(plugins.parent);
      for (const int child : profile.children) {
        ProfileRun run;
        run.path = At(child).path;
        run.name = Join(place.path, At(child).name());
        run.shown_old = old_places.count(place.path) != 0;
        run.shown = place.path.empty() || (!profile.through_link && !pattern);
        const std::pair<uint64_t, uint64_t> identity(At(child).device, At(child).inode);
        if (!run.shown && profile.through_link && shown.count(identity) != 0) continue;
        if (run.shown) shown.insert(identity);
        report_.profile_runs.push_back(std::move(run));
        runs_.push_back(child);
      }
    }
    if (report_.plugin_fails) {
      for (ProfileRun& run : report_.profile_runs) run.shown = false;
    }
  }

  // One level too deep, or far above.
  void Logdir() {
    const std::string name = Name(scan_.logdir);
    const std::string parent = Parent(scan_.logdir);
    std::string place;
    std::string_view what;
    if (name == "plugins" && report_.plugin_fails) {
      place = parent;
      what = "is the directory `plugins` itself; xprof fails at it and lists no run";
    } else if (name == "profile" && Name(parent) == "plugins") {
      place = Parent(parent);
      what = "is the directory `plugins/profile` itself; no run is found below it";
    } else if (IsPath(parent, "plugins/profile") && !At(0).profiles.empty()) {
      place = Parent(Parent(parent));
      what = "is a run; TensorBoard takes the directory that holds `plugins`";
    } else {
      TooHigh();
      return;
    }
    too_deep_ = true;
    Problem("logdir-too-deep", "", std::string(what),
            StrCat("tensorboard --logdir ", ShellWord(place.empty() ? "/" : place)));
  }

  void TooHigh() {
    if (scan_.entries > kManyEntries) {
      Warn("logdir-large", "",
           StrCat("holds over ", kManyEntries, " files; TensorBoard walks through all of them again and again"),
           "give TensorBoard the directory of the training alone");
    }
    std::set<std::string> places;
    for (const ProfileRun& run : report_.profile_runs) {
      if (run.shown) places.insert(Parent(Parent(Parent(run.path))));
    }
    if (places.size() != 1 || places.begin()->empty()) return;
    for (const ScannedDirectory& directory : scan_.directories) {
      if (!directory.events.empty() && directory.path != *places.begin() &&
          !directory.path.starts_with(StrCat(*places.begin(), "/"))) {
        return;  // other runs are to be seen beside it
      }
    }
    const size_t levels = 1 + std::count(places.begin()->begin(), places.begin()->end(), '/');
    Note("logdir-too-high", "",
         StrCat("is ", levels, levels == 1 ? " level" : " levels", " above the profiles: runs are listed as `",
                *places.begin(), "/…`"),
         StrCat("tensorboard --logdir ", Word(*places.begin())));
  }

  void Run(int index, ProfileRun& run) {
    const ScannedDirectory& directory = At(index);
    const std::string place = Parent(Parent(Parent(run.path)));
    const size_t pattern = PatternEnd(Absolute(run.path));
    if (pattern != std::string::npos) {
      const std::string part = Absolute(run.path).substr(0, pattern);
      if (patterns_.insert(part).second) {
        Problem("path-pattern", run.path,
                StrCat("has `[` in its path, which xprof takes for a pattern: ",
                       run.shown ? "it lists the run without a host" : "it does not list the run"),
                StrCat("mv ", ShellWord(part), " ",
                       ShellWord(Join(Parent(part), Replace(Replace(Name(part), '[', '('), ']', ')')))));
      }
    } else if (!run.shown && !report_.plugin_fails) {
      Problem("profile-behind-link", run.path, "is behind a symbolic link, which xprof does not follow",
              StrCat("tensorboard --logdir ", Word(place)));
    } else if (run.shown && !run.shown_old) {
      Note(
          "old-plugins", run.path,
          StrCat("has no events file in ", place.empty() ? "." : place, ": plugins before xprof 2.20.3 do not list it"),
          "pip install -U xprof");
    }
    if (directory.error != 0) return;  // said as directory-unreadable
    std::set<std::string> hosts;
    size_t readable = 0;
    for (const ScannedProfile& profile : directory.profiles) {
      const std::string host = HostOf(profile.name);
      if (host.empty()) {
        Problem("profile-name", Join(run.path, profile.name), "has no host in its name, so no tool can open it",
                StrCat("mv ", Word(Join(run.path, profile.name)), " ", Word(Join(run.path, "localhost.xplane.pb"))));
        continue;
      }
      hosts.insert(host);
      run.bytes += profile.size;
      readable += Profile(run, profile, host);
    }
    if (pattern == std::string::npos) run.hosts.assign(hosts.begin(), hosts.end());
    if (hosts.empty()) NoProfile(directory);
    Tools(directory, run);
    Rights(directory, run);
    Caches(directory, run);
    for (const ScannedFile& file : directory.others) {
      if (file.name.ends_with("summary.json")) Summary(Join(run.path, file.name), file.text);
    }
    if (readable > 0 && run.tools.empty() && !run.tools_from_cache && directory.writable) {
      Problem("run-no-tools", run.path,
              "lists no tool: xprof derives them from its first profile, which cannot be read",
              "remove or repair that file");
    }
  }

  // True: it can be shown.
  bool Profile(const ProfileRun& run, const ScannedProfile& profile, const std::string& host) {
    const std::string path = Join(run.path, profile.name);
    bool odd = host == "ALL_HOSTS" || host == "NO_HOST" || host == "NO_MODULE" || ValidUtf8(host) != host;
    for (const char c : host)
      odd = odd || std::strchr(",:\"'<>&?#%*\\", c) != nullptr || static_cast<unsigned char>(c) < 0x20;
    if (odd) {
      Warn("host-name", path, "has a host name that xprof misreads in a request: no `,` `:` or reserved word works",
           StrCat("mv ", Word(path), " ", Word(Join(run.path, "host1.xplane.pb"))));
    }
    if (profile.error != 0) {
      Problem("profile-unreadable", path, StrCat("cannot be read: ", strerror(profile.error)),
              profile.error == EACCES ? StrCat("chmod a+r ", Word(path)) : "");
      return false;
    }
    if (!profile.regular) {
      Problem("profile-unreadable", path, "is listed as a host, but is no file",
              StrCat("mv ", Word(path), " ", Word(Join(run.path, StrCat(host, ".other")))));
      return false;
    }
    if (!profile.skimmed) return true;
    const std::string age = Age(profile.mtime_ns, now_ns_);
    const bool fresh = now_ns_ - profile.mtime_ns < 60'000'000'000;
    if (profile.size == 0) {
      Problem("profile-empty", path, StrCat("is empty (", age, " old): the host is listed, every page of it is blank"),
              fresh ? "wait until it is written" : StrCat("record again, then rm ", Word(path)));
      return false;
    }
    const XspaceFacts& facts = profile.facts;
    if (!facts.parsed) {
      if (facts.error != 0) {
        Problem("profile-unreadable", path, StrCat("cannot be read: ", strerror(facts.error)));
      } else if (facts.truncated) {
        Problem("profile-truncated", path,
                StrCat("is cut off after ", HumanBytes(static_cast<double>(profile.size)), " (", age,
                       " old): ", facts.cause),
                fresh ? "wait until it is written" : "record again; was the disk full, or the writer killed?");
      } else {
        Problem("profile-unparsable", path, StrCat("is no profile: ", facts.cause),
                "record again, or copy the file again in binary mode");
      }
      return false;
    }
    if (profile.size > kMaxProfile) {
      Problem("profile-too-large", path,
              StrCat("has ", HumanBytes(static_cast<double>(profile.size)), "; protobuf reads at most 2 GiB"),
              "capture a shorter time");
      return false;
    }
    if (profile.size > kLargeProfile) {
      Warn("profile-large", path,
           StrCat("has ", HumanBytes(static_cast<double>(profile.size)), "; over ",
                  HumanBytes(static_cast<double>(kLargeProfile)),
                  " a page takes more than 10 s and TensorBoard many times the file's size in memory"),
           "capture a shorter time, or fewer families (--trace)");
    }
    if (!facts.has_events && !facts.cut) {
      Warn("profile-no-events", path, "holds no event: every page of it is blank",
           "record again while the program works");
    }
    Messages(path, facts);
    return true;
  }

  void Messages(const std::string& path, const XspaceFacts& facts) {
    const auto each = [&](const std::vector<std::string>& texts, uint64_t count, FindingLevel level,
                          std::string_view id) {
      for (size_t i = 0; i < std::min(texts.size(), kMaxMessages); ++i) Add(level, id, path, texts[i], "");
      if (count > kMaxMessages) Add(level, id, path, StrCat(count - kMaxMessages, " more messages are in it"), "");
    };
    each(facts.errors, facts.error_count, FindingLevel::kWarning, "profile-errors");
    each(facts.warnings, facts.warning_count, FindingLevel::kNote, "profile-warnings");
  }

  void NoProfile(const ScannedDirectory& directory) {
    for (const ScannedFile& file : directory.others) {
      const std::string lower = LowerCase(file.name);
      if (lower.find("xplane") == std::string::npos) continue;
      const std::string path = Join(directory.path, file.name);
      const std::string host = file.name.substr(0, lower.find("xplane"));
      const std::string right = StrCat(host.empty() || host == "." ? "localhost." : host, "xplane.pb");
      if (lower.ends_with(".gz")) {
        Problem("profile-name", path, "is compressed; only `*.xplane.pb` is read", StrCat("gunzip ", Word(path)));
      } else if (lower.ends_with(".tmp")) {
        Problem("profile-name", path, "is unfinished: its writer was stopped, or is at work",
                "wait for the writer, or record again");
      } else {
        Problem("profile-name", path, "has a name that is not read; only `*.xplane.pb` is, in small letters",
                StrCat("mv ", Word(path), " ", Word(Join(directory.path, right))));
      }
      return;
    }
    for (const int child : directory.children) {
      if (!At(child).profiles.empty()) return;  // said as profile-misplaced
    }
    for (const ScannedProfile& profile : directory.profiles) {
      if (HostOf(profile.name).empty()) return;  // said as profile-name
    }
    bool old_format = false;
    for (const ScannedFile& file : directory.others) {
      for (std::string_view end : {".trace", ".tracetable", ".trace.json.gz", ".overview_page.pb", ".kernel_stats.pb",
                                   ".input_pipeline.pb", ".tensorflow_stats.pb"}) {
        old_format = old_format || file.name.ends_with(end);
      }
    }
    Problem("run-without-profile", directory.path,
            old_format ? "is listed as a run, but holds files of an old format alone, no `*.xplane.pb`"
                       : "is listed as a run, but holds no `*.xplane.pb`: no host, no tool",
            directory.entries == 0 ? StrCat("rmdir ", Word(directory.path))
                                   : StrCat("record again, then rm -r ", Word(directory.path)));
  }

  // What xprof would answer; its cache first.
  void Tools(const ScannedDirectory& directory, ProfileRun& run) {
    // Demonstration data have their cache elsewhere.
    const bool own_cache = !IsPath(Parent(Absolute(run.path)), "demo/plugins/profile");
    for (const ScannedFile& file : directory.others) {
      if (file.name != ".cached_tools.json" || !own_cache) continue;
      const Json cache = Json::parse(file.text, nullptr, false);
      if (!cache.is_object() || cache.value("version", Json()) != Json(1)) continue;
      Json states = Json::object();
      for (const ScannedProfile& profile : directory.profiles) {
        if (PatternEnd(Absolute(run.path)) != std::string::npos) break;  // it finds none
        if (profile.name.ends_with(".xplane.pb") || profile.name.ends_with(".xplane.riegeli")) {
          states[ValidUtf8(profile.name)] = StrCat(profile.mtime_ns / 1'000'000'000, "-", profile.size);
        }
      }
      if (cache.value("files", Json()) != states || !cache.contains("tools") || !cache["tools"].is_array()) continue;
      for (const Json& tool : cache["tools"]) {
        if (tool.is_string()) run.tools.push_back(tool.get<std::string>());
      }
      std::sort(run.tools.begin(), run.tools.end());
      run.tools_from_cache = true;
    }
    std::vector<std::string> fresh;
    // The directory's own order decides, as it does in Python's listing.
    const auto listed = std::find_if(directory.profiles.begin(), directory.profiles.end(),
                                     [](const ScannedProfile& p) { return p.name.find('\n') == std::string::npos; });
    if (listed != directory.profiles.end()) {
      const ScannedProfile& first = *listed;
      const bool opens = first.error == 0 && (!first.skimmed || first.facts.parsed);
      bool can_mark = directory.writable;
      for (const ScannedFile& file : directory.others) can_mark = can_mark || file.name.ends_with(".hlo_proto.pb");
      if (opens && can_mark) {
        fresh = ToolsOfAnyProfile();
        if (first.facts.has_gpu) fresh.push_back("kernel_stats");
        if (first.facts.has_hlo) fresh.insert(fresh.end(), {"graph_viewer", "memory_viewer"});
        if (first.facts.has_megascale) fresh.push_back("megascale_stats");
        if (first.facts.has_counters)
          fresh.insert(fresh.end(), {"kernel_utilization", "perf_counters", "utilization_viewer"});
        std::sort(fresh.begin(), fresh.end());
      }
    }
    if (!run.tools_from_cache) {
      run.tools = std::move(fresh);
    } else if (run.tools.empty() && !fresh.empty()) {
      Problem("cache-empty", run.path, "has a cached list of tools that is empty: xprof failed here once",
              StrCat("rm ", Word(Join(run.path, ".cached_tools.json"))));
    }
  }

  void Rights(const ScannedDirectory& directory, const ProfileRun& run) {
    if (directory.writable || run.hosts.empty()) return;
    bool marked = false, viewed = false;
    for (const ScannedFile& file : directory.others) {
      marked = marked || file.name.ends_with(".hlo_proto.pb");
      viewed = viewed || file.name.ends_with(".SSTABLE");
    }
    const std::string fix = StrCat("chmod a+rwx ", Word(run.path));
    if (!marked && !run.tools_from_cache) {
      Problem("run-not-writable", run.path,
              "is not writable for this user: xprof wants to write caches there and "
              "lists no tool",
              fix);
    } else if (!viewed) {
      Warn("run-not-writable", run.path,
           "is not writable for this user: the trace viewer wants to write its tables "
           "there and shows nothing",
           fix);
    }
  }

  // Results are kept beside the profiles, and not by content: a host that came later, or a file written anew, is not in
  // them.
  void Caches(const ScannedDirectory& directory, const ProfileRun& run) {
    std::vector<std::string> stale;
    for (const ScannedFile& file : directory.others) {
      if (file.name.ends_with(".hlo_proto.pb")) continue;
      bool is_cache = false;
      for (std::string_view end :
           {".op_stats_v2.pb", ".op_stats.pb", ".SSTABLE", ".smart_suggestion.pb", ".dcn_collective_stats.pb"}) {
        is_cache = is_cache || file.name.ends_with(end);
      }
      if (!is_cache) continue;
      const bool for_all = file.name.starts_with("ALL_HOSTS.") || file.name.starts_with("NO_HOST.");
      for (const ScannedProfile& profile : directory.profiles) {
        const std::string host = HostOf(profile.name);
        if (host.empty() || profile.mtime_ns <= file.mtime_ns) continue;
        if (!for_all && !file.name.starts_with(StrCat(host, "."))) continue;
        stale.push_back(file.name);
        break;
      }
    }
    if (stale.empty()) return;
    std::string words;
    for (size_t i = 0; i < std::min<size_t>(stale.size(), 8); ++i)
      StrAppend(&words, " ", Word(Join(run.path, stale[i])));
    Warn("cache-stale", run.path,
         StrCat("holds ", stale.size(), stale.size() == 1 ? " cached result" : " cached results",
                " older than a profile: pages show what was there before"),
         StrCat("rm", words, stale.size() > 8 ? " …" : ""));
  }

  void Summary(const std::string& path, const std::string& text) {
    const Json summary = Json::parse(text, nullptr, false);
    if (!summary.is_object() || !summary.contains("schema") || !summary.contains("records")) return;
    const Json& records = summary["records"];
    if (!records.is_object()) return;
    const Json dropped = records.value("dropped", Json());
    if (dropped.is_object()) {
      for (const auto& [cause, count] : dropped.items()) {
        if (!count.is_number_unsigned() || count.get<uint64_t>() == 0) continue;
        Warn("profile-drops", path, StrCat(count.get<uint64_t>(), " records were lost: ", cause),
             "record again with a larger --buffer-size, or fewer families (--trace)");
      }
    }
    const auto number = [&](const char* name) {
      const Json value = records.value(name, Json());
      return value.is_number_unsigned() ? value.get<uint64_t>() : 0;
    };
    if (number("corrupt") > 0)
      Warn("profile-drops", path, StrCat(number("corrupt"), " records were corrupt and are left out"));
    if (number("over_budget") > 0) {
      Note("profile-budget", path,
           StrCat(number("over_budget"), " events are counted but not drawn: the profile was full"),
           "capture a shorter time, or raise --max-profile-size");
    }
  }

  // A directory that was meant to be plugins/profile.
  void Misspelt() {
    for (const ScannedDirectory& directory : scan_.directories) {
      if (directory.parent < 0 || directory.entries == 0) continue;
      const ScannedDirectory& above = At(directory.parent);
      const std::string name(directory.name());
      const std::string parent = above.path.empty() ? Name(scan_.logdir) : std::string(above.name());
      if (!Near(parent, "plugins") || !Near(name, "profile") || (parent == "plugins" && name == "profile")) continue;
      if (!HoldsProfile(directory)) continue;
      misspelt_.push_back(directory.path);
      if (above.path.empty()) {
        Problem("profile-misspelt", directory.path,
                StrCat("would have to be `plugins/profile`, below the directory that TensorBoard is given"),
                StrCat("mkdir -p ", Word("plugins"), " && mv ", Word(directory.path), " ", Word("plugins/profile")));
        continue;
      }
      const std::string place = Parent(above.path);
      const std::string right = Join(place, "plugins/profile");
      std::string fix;
      if (Exists(right)) {
        fix = StrCat("mv ", Word(directory.path), "/* ", Word(right), "/");
      } else if (parent == "plugins") {
        fix = StrCat("mv ", Word(directory.path), " ", Word(right));
      } else {
        fix = StrCat("mkdir -p ", Word(Join(place, "plugins")), " && mv ", Word(directory.path), " ", Word(right));
      }
      Problem("profile-misspelt", directory.path,
              StrCat("is not looked at: TensorBoard reads `plugins/profile`, not `", parent, "/", name, "`"), fix);
    }
  }

  bool HoldsProfile(const ScannedDirectory& directory) const {
    if (!directory.profiles.empty() || !directory.others.empty()) return true;
    for (const int child : directory.children) {
      if (!At(child).profiles.empty() || !At(child).others.empty()) return true;
    }
    return false;
  }

  bool Exists(const std::string& path) const {
    for (const ScannedDirectory& directory : scan_.directories) {
      if (directory.path == path) return true;
    }
    return false;
  }

  // Profiles in no run.
  void Misplaced() {
    std::set<int> runs(runs_.begin(), runs_.end());
    for (size_t i = 0; i < scan_.directories.size(); ++i) {
      const ScannedDirectory& directory = scan_.directories[i];
      if (directory.profiles.empty() || runs.count(static_cast<int>(i)) != 0 || IsOwn(directory.path)) continue;
      if (i == 0 && too_deep_) continue;
      bool said = false;
      for (const std::string& place : misspelt_) {
        said = said || directory.path == place || directory.path.starts_with(StrCat(place, "/"));
      }
      if (said) continue;
      const std::string absolute = Absolute(directory.path);
      const std::string name = directory.path.empty() ? Name(scan_.logdir) : std::string(directory.name());
      const std::string parent = Name(Parent(absolute));
      const std::string files = StrCat(Word(directory.path), "/*.xplane.*");
      const std::string count =
          StrCat(directory.profiles.size(), directory.profiles.size() == 1 ? " profile" : " profiles");
      const std::string up = Parent(directory.path);
      if (name == "profile" && parent == "plugins") {
        Problem("profile-misplaced", directory.path, StrCat("holds ", count, " itself; each run needs a directory"),
                StrCat("mkdir ", Word(Join(directory.path, "run1")), " && mv ", files, " ",
                       Word(Join(directory.path, "run1")), "/"));
      } else if (directory.parent >= 0 && runs.count(directory.parent) != 0) {
        Problem("profile-misplaced", directory.path, StrCat("holds ", count, " one level too deep, below a run"),
                StrCat("mv ", files, " ", Word(up), "/"));
      } else if (!directory.path.empty() && Near(parent, "profile")) {
        const std::string right = Join(Parent(up), "plugins");
        Problem("profile-misplaced", directory.path,
                StrCat("holds ", count, ", but `", parent, "` is not below `plugins`"),
                StrCat("mkdir -p ", Word(right), " && mv ", Word(up), " ", Word(Join(right, "profile"))));
      } else if (!directory.path.empty() && Near(parent, "plugins")) {
        const std::string right = Join(Join(Parent(up), "plugins"), "profile");
        Problem("profile-misplaced", directory.path, StrCat("holds ", count, ", but the level `profile` is missing"),
                StrCat("mkdir -p ", Word(right), " && mv ", Word(directory.path), " ", Word(right), "/"));
      } else {
        const std::string right = Join(directory.path, "plugins/profile/run1");
        Problem("profile-misplaced", directory.path, StrCat("holds ", count, " that no run is made of"),
                StrCat("mkdir -p ", Word(right), " && mv ", files, " ", Word(right), "/"));
      }
    }
  }

  static bool IsOwn(std::string_view path) { return path == ".tbprof" || path.starts_with(".tbprof/"); }

  void Leftovers() {
    std::set<std::string> traces;
    for (const ScannedDirectory& directory : scan_.directories) {
      for (const ScannedFile& file : directory.others) {
        if (IsOwn(directory.path)) {
          if (!file.name.ends_with(".spool")) continue;
          const std::string path = Join(directory.path, file.name);
          if (file.locked) {
            Note("spool", path, "is being recorded or converted by a tbprof");
          } else {
            Warn("spool", path, "holds records that were not converted: tbprof was killed, or told to keep them",
                 StrCat("tbprof recover --logdir=", ShellWord(scan_.logdir), " ", Word(path)));
          }
        } else if (file.name.find(".pt.trace.json") != std::string::npos && traces.insert(directory.path).second) {
          Warn("foreign-trace", Join(directory.path, file.name),
               "is a trace of torch.profiler (Chrome format), which xprof does not read",
               "open it at ui.perfetto.dev, or record with tbprof run");
        }
      }
      if (Parent(directory.path) == ".tbprof/staging") {
        if (directory.locked) {
          Note("staging", directory.path, "is a profile being written by a tbprof");
        } else {
          Warn("staging", directory.path, "was left by a tbprof that was killed while it wrote a profile",
               StrCat("tbprof recover --logdir=", ShellWord(scan_.logdir)));
        }
      }
      if (!InProfile(directory)) continue;
      for (const ScannedFile& file : directory.others) {
        if (file.name.ends_with(".tmp") && !directory.profiles.empty()) {
          Note("leftover", Join(directory.path, file.name), "is an unfinished file; TensorBoard does not look at it",
               StrCat("rm ", Word(Join(directory.path, file.name))));
        }
      }
    }
  }

  bool InProfile(const ScannedDirectory& directory) const { return IsPath(Parent(directory.path), "plugins/profile"); }

  void Unreadable() {
    for (const ScannedDirectory& directory : scan_.directories) {
      if (directory.error == 0 || directory.error == ENOENT) continue;  // gone meanwhile
      Problem("directory-unreadable", directory.path, StrCat("cannot be listed: ", strerror(directory.error)),
              directory.error == EACCES ? StrCat("chmod a+rx ", Word(directory.path)) : "");
    }
    if (scan_.entries_cut || scan_.depth_cut) {
      Warn("scan-cut", "",
           scan_.entries_cut ? StrCat("was looked at up to ", scan_.entries, " entries; the rest was left out")
                             : std::string("is nested deeper than was looked at"),
           "give the directory of the training alone");
    }
    if (scan_.link_loops > 0) {
      Warn("link-loop", "",
           StrCat("holds ", scan_.link_loops, scan_.link_loops == 1 ? " link" : " links",
                  " to a directory above; TensorBoard's slower loader follows them for ever"),
           StrCat("find ", ShellWord(scan_.logdir), " -type l -xtype d"));
    }
  }

  const LogdirScan& scan_;
  int64_t now_ns_;
  LogdirReport report_;
  std::vector<int> runs_;  // directories; in the order of report_.profile_runs
  std::vector<std::string> misspelt_;
  std::set<std::string> patterns_;
  bool too_deep_ = false;
};

}  // namespace

FindingLevel LogdirReport::Worst() const {
  FindingLevel worst = FindingLevel::kNote;
  for (const Finding& finding : findings) worst = std::max(worst, finding.level);
  return worst;
}

int LogdirReport::ExitStatus() const { return static_cast<int>(Worst()); }

size_t LogdirReport::Count(FindingLevel level) const {
  return static_cast<size_t>(
      std::count_if(findings.begin(), findings.end(), [&](const Finding& f) { return f.level == level; }));
}

std::string ShellWord(std::string_view bytes) {
  if (PrintableUtf8(bytes) == bytes) return ShellQuoted(bytes);
  std::string word = "$'";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\'' || c == '\\') {
      word += '\\';
      word += c;
    } else if (byte >= 0x20 && byte < 0x7F) {
      word += c;
    } else {
      constexpr char kDigits[] = "0123456789abcdef";
      word += "\\x";
      word += kDigits[byte >> 4];
      word += kDigits[byte & 15];
    }
  }
  word += '\'';
  return word;
}

std::string Age(int64_t then_ns, int64_t now_ns) {
  const int64_t seconds = std::max<int64_t>(0, (now_ns - then_ns) / 1'000'000'000);
  if (seconds < 120) return StrCat(seconds, " s");
  if (seconds < 7200) return StrCat(seconds / 60, " min");
  if (seconds < 2 * 86400) return StrCat(seconds / 3600, " h");
  return StrCat(seconds / 86400, " days");
}

LogdirReport CheckLogdir(const LogdirScan& scan, int64_t now_ns) { return Checker(scan, now_ns).Check(); }

}  // namespace tbprof
