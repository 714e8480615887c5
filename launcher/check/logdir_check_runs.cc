// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "launcher/base/text.h"
#include "launcher/check/logdir_check_parts.h"
#include "launcher/check/logdir_paths.h"
#include "launcher/cli/options.h"
#include "writer/base/summary_format.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

using Json = nlohmann::json;

const uint64_t kLargeProfile = SessionOptions().max_profile_size;  // docs/xspace-mapping.md, "Size": opens within 10 s
constexpr uint64_t kMaxProfile = (uint64_t{1} << 31) - 1;          // protobuf's limit
constexpr size_t kMaxMessages = 5;                                 // of one profile
constexpr size_t kMaxBroken = 50;                                  // files that one command moves
constexpr size_t kMaxCaches = 8;                                   // named in one command
constexpr int64_t kFreshNs = 60'000'000'000;                       // younger files may still be written

const std::vector<std::string>& ToolsOfAnyProfile() {
  static const std::vector<std::string> tools = {"framework_op_stats", "hlo_stats",    "input_pipeline_analyzer",
                                                 "memory_profile",     "op_profile",   "overview_page",
                                                 "roofline_model",     "trace_viewer@"};
  return tools;
}

bool IsUtf8(std::string_view text) { return ValidUtf8Prefix(text) == text.size(); }

std::string Size(uint64_t bytes) { return HumanBytes(static_cast<double>(bytes)); }

class Runs {
 public:
  explicit Runs(CheckState* state) : state_(*state) {}

  void Check() {
    for (size_t i = 0; i < state_.runs.size(); ++i) Run(At(state_.runs[i]), state_.report.profile_runs[i]);
  }

 private:
  const ScannedDirectory& At(int index) const { return state_.At(index); }

  void Run(const ScannedDirectory& directory, ProfileRun& run) {
    const bool pattern = PatternEnd(state_.Absolute(run.path)) != std::string::npos;
    if (pattern) {
      Rename(run, PatternEnd(state_.Absolute(run.path)), "`[` in its path hides its hosts from xprof");
    } else if (run.shown && !IsUtf8(directory.name()) && CountProfiles(directory) > 0) {
      Rename(run, HiddenEnd(state_.Absolute(run.path)), "its name is no UTF-8: no tool of it opens");
    }
    if (!pattern && run.shown && !run.shown_old) {
      state_.Note("old-plugins", run.path, "not listed by xprof before 2.20.3: no events file", "pip install -U xprof");
    }
    if (directory.error != 0) return;  // reported as directory-unreadable
    std::set<std::string> hosts;
    size_t readable = 0;
    bool with_steps = false, without_steps = false, unread = false;
    for (const ScannedProfile& profile : directory.profiles) {
      const std::string host = HostOf(profile.name);
      if (host.empty()) {
        NoHost(directory, profile);
        continue;
      }
      hosts.insert(host);
      run.bytes += profile.size;
      if (!Profile(run, profile, host)) continue;
      ++readable;
      // One host with steps is enough.
      const StepMarkers found = profile.skimmed ? profile.facts.steps : StepMarkers::kUnknown;
      with_steps = with_steps || found == StepMarkers::kFound;
      without_steps = without_steps || (found == StepMarkers::kNone && profile.facts.has_events);
      unread = unread || (found == StepMarkers::kUnknown && (!profile.skimmed || profile.facts.has_events));
    }
    if (!pattern) run.hosts.assign(hosts.begin(), hosts.end());
    if (hosts.empty()) NoProfile(directory);
    Unlisted(directory, hosts.empty(), readable > 0);
    Tools(directory, run);
    Rights(directory, run);
    Caches(directory, run);
    for (const ScannedFile& file : directory.others) {
      if (file.name.ends_with("summary.json")) Summary(JoinPath(run.path, file.name), file.text);
    }
    if (!with_steps && unread) {
      state_.Note("run-steps-unknown", run.path, "unknown whether it has steps: that was not read");
    } else if (!with_steps && without_steps) {
      state_.Warn("run-no-steps", run.path, "no step markers: the overview is empty", "mark steps, or use tbprof run");
    }
    if (readable > 0 && directory.writable) Broken(directory, run.tools_without_cache);
  }

  void Rename(const ProfileRun& run, size_t end, std::string what) {
    if (state_.LogdirIsHidden()) return;  // reported once, for the logdir
    const std::string part = state_.Absolute(run.path).substr(0, end);
    if (!state_.named.insert(part).second) return;
    Remedy remedy(&state_.remedies);
    remedy.Move(part, state_.remedies.Free(ParentOf(part), PlainName(BaseName(part))));
    state_.Problem("path-pattern", run.path, std::move(what), remedy.Advice("rename when no program writes"),
                   remedy.command());
  }

  void NoHost(const ScannedDirectory& directory, const ScannedProfile& profile) {
    const std::string path = JoinPath(directory.path, profile.name);
    const bool hidden = profile.name.starts_with('.');
    if (hidden && profile.content == FileContent::kAppleDouble) {
      // xprof reads each such file for the list of tools, and lists no tools if one cannot be read.
      Remedy remedy(&state_.remedies);
      Aside(directory.path, profile.name, &remedy);
      state_.named.insert(path);
      state_.Problem("profile-name", path, "of macOS, no profile: it hides the run's tools",
                     remedy.Advice("move it aside"), remedy.command());
    } else if (!profile.skimmed || !profile.facts.parsed || profile.facts.planes == 0) {
      state_.Problem(
          "profile-name", path,
          hidden ? "begins with a dot, and is no whole profile" : "has no host in its name, and is no whole profile",
          "record again");
    } else if (state_.IsShown(profile)) {
      state_.Note("leftover", path, "another name of a profile that is shown");
    } else {
      Rename(directory, profile.name, HostFor(profile.name, "localhost"),
             hidden ? "begins with a dot: xprof does not list it" : "has no host in its name: no tool opens it");
    }
  }

  void Rename(const ScannedDirectory& directory, const std::string& name, std::string_view host, std::string what) {
    const std::string path = JoinPath(directory.path, name);
    state_.named.insert(path);
    Remedy remedy(&state_.remedies);
    remedy.Move(state_.Absolute(path), state_.remedies.Free(state_.Absolute(directory.path), host, ".xplane.pb"));
    state_.Problem("profile-name", path, std::move(what), remedy.Advice("rename it"), remedy.command());
  }

  // True: the profile can be shown.
  bool Profile(const ProfileRun& run, const ScannedProfile& profile, const std::string& host) {
    const std::string path = JoinPath(run.path, profile.name);
    if (IsOddHost(host)) {
      Remedy remedy(&state_.remedies);
      const std::string suffix = profile.name.ends_with(".riegeli") ? ".xplane.riegeli" : ".xplane.pb";
      remedy.Move(state_.Absolute(path), state_.remedies.Free(state_.Absolute(run.path), "host1", suffix));
      if (IsUtf8(host)) {
        state_.Warn("host-name", path, "a host name that xprof misreads", remedy.Advice("rename it"), remedy.command());
      } else {
        state_.named.insert(path);
        state_.Problem("host-name", path, "is no UTF-8: no tool of the run opens", remedy.Advice("rename it"),
                       remedy.command());
      }
    }
    if (profile.error != 0) {
      Unreadable(path, profile, profile.error);
      return false;
    }
    if (!profile.regular) {
      state_.Problem("profile-unreadable", path, "is listed as a host, but is no file", "rename it");
      return false;
    }
    if (!profile.skimmed) return true;
    const std::string age = Age(profile.mtime_ns, state_.now_ns);
    const bool fresh = profile.mtime_ns > state_.now_ns - kFreshNs;
    if (profile.size == 0) {
      state_.Problem("profile-empty", path, StrCat("is empty, ", age, " old: its pages are blank"),
                     fresh ? "wait until it is written" : "record again");
      return false;
    }
    if (!profile.facts.parsed || profile.damage != FileDamage::kNone) {
      Unparsed(path, profile, fresh);
      return false;
    }
    if (profile.size > kMaxProfile) {
      state_.Problem("profile-too-large", path, StrCat("has ", Size(profile.size), ", protobuf's limit is 2 GiB"),
                     "capture a shorter time");
      return false;
    }
    if (profile.size > kLargeProfile) {
      state_.Warn("profile-large", path,
                  StrCat("has ", Size(profile.size), ": over ", Size(kLargeProfile), " a page takes over 10 s"),
                  "capture a shorter time");
    }
    if (!profile.facts.has_events && !profile.facts.cut) {
      state_.Warn("profile-no-events", path, "holds no event: its pages are blank", "record while it works");
    }
    Messages(path, profile.facts);
    return true;
  }

  void Unreadable(const std::string& path, const ScannedProfile& profile, int error) {
    if (LeadsNowhere(profile)) {
      state_.Problem("profile-unreadable", path, "a link that leads nowhere", "link it anew, or copy the file");
      return;
    }
    Remedy remedy(&state_.remedies);
    AllowReading(state_.Absolute(path), error, &remedy);
    state_.Problem("profile-unreadable", path, StrCat("cannot be read: ", strerror(error)),
                   remedy.possible() ? "allow it" : "ask its owner", remedy.command());
  }

  // True: the NULs may be data that the writer has not written yet.
  static bool MayFill(FileDamage damage) { return damage == FileDamage::kNuls || damage == FileDamage::kNulPart; }

  void Unparsed(const std::string& path, const ScannedProfile& profile, bool fresh) {
    const XspaceFacts& facts = profile.facts;
    if (facts.error != 0) {
      Unreadable(path, profile, facts.error);
    } else if (const FileText text = TextOf(profile.content); !text.what.empty()) {
      state_.Problem("profile-unparsable", path, std::string(text.what), std::string(text.fix));
    } else if (const FileText damage = TextOf(profile.damage);
               !damage.what.empty() && !(fresh && MayFill(profile.damage))) {
      state_.Problem("profile-damaged", path, std::string(damage.what), std::string(damage.fix));
    } else if (facts.truncated) {
      state_.Problem("profile-truncated", path, StrCat("is cut off after ", Size(profile.size), ": not shown"),
                     fresh ? "wait until it is written" : "record again; was the disk full?");
    } else {
      state_.Problem("profile-unparsable", path, StrCat("is no profile: ", facts.cause),
                     fresh ? "wait until it is written" : "record or copy again");
    }
  }

  void Messages(const std::string& path, const XspaceFacts& facts) {
    const auto each = [&](const std::vector<std::string>& texts, uint64_t count, FindingLevel level,
                          std::string_view id) {
      for (size_t i = 0; i < std::min(texts.size(), kMaxMessages); ++i) state_.Add(level, id, path, texts[i]);
      if (count > kMaxMessages) state_.Add(level, id, path, StrCat(count - kMaxMessages, " more messages are in it"));
    };
    each(facts.errors, facts.error_count, FindingLevel::kWarning, "profile-errors");
    each(facts.warnings, facts.warning_count, FindingLevel::kNote, "profile-warnings");
  }

  // Reports profiles under names that xprof does not list.
  void Unlisted(const ScannedDirectory& directory, bool alone, bool readable) {
    for (const ScannedFile& file : directory.others) {
      const std::string path = JoinPath(directory.path, file.name);
      if (file.content != FileContent::kProfile || state_.named.count(path) != 0 || state_.IsShown(file)) continue;
      const bool fresh = file.mtime_ns > state_.now_ns - kFreshNs;
      if (fresh && file.name.ends_with(".tmp")) {
        state_.Note("leftover", path, "is being written: TensorBoard does not look at it yet");
      } else if (alone) {
        Rename(directory, file.name, HostFor(file.name, file.host), "a profile that is not read under this name");
      } else {
        // Beside other profiles it may be a copy of one of them: as a further host of the run it would be added to
        // their numbers.
        Remedy remedy(&state_.remedies);
        const std::string runs = ParentOf(state_.Absolute(directory.path));
        const std::string run = state_.remedies.Free(runs, PlainName(BaseName(directory.path)));
        const std::string host = HostFor(file.name, file.host);
        remedy.MakeDirectory(run);
        remedy.Move(state_.Absolute(path), state_.remedies.Free(run, host, ".xplane.pb"));
        state_.Add(readable ? FindingLevel::kNote : FindingLevel::kProblem, readable ? "leftover" : "profile-name",
                   path, "a profile that is not read under this name", remedy.Advice("make it a run"),
                   remedy.command());
      }
    }
  }

  void NoProfile(const ScannedDirectory& directory) {
    for (const ScannedFile& file : directory.others) {
      const std::string path = JoinPath(directory.path, file.name);
      const std::string lower = LowerCase(file.name);
      if (file.content == FileContent::kProfile) return;  // reported by Unlisted
      if (lower.find("xplane") == std::string::npos) continue;
      if (file.content == FileContent::kAppleDouble) continue;
      const bool archive = IsArchiveName(file.name) || file.content == FileContent::kTar;
      if (CompressionOf(file.content) != nullptr && !archive) return;  // reported by CheckFiles
      state_.named.insert(path);
      if (archive || file.content == FileContent::kZip) {
        state_.Problem("profile-name", path, "an archive: only `*.xplane.pb` is read",
                       "unpack it, not as root, into a new directory");
      } else if (lower.ends_with(".tmp")) {
        state_.Problem("profile-name", path, "is unfinished: its writer was stopped or is at work",
                       "wait, or record again");
      } else {
        state_.Problem("profile-name", path, "is no profile by its content", "record or copy again");
      }
      return;
    }
    if (HoldsProfileBelow(directory)) return;  // profile-misplaced, profile-nested
    for (const ScannedProfile& profile : directory.profiles) {
      if (HostOf(profile.name).empty()) return;  // profile-name
    }
    state_.Problem("run-without-profile", directory.path,
                   HoldsOldFormat(directory) ? "a run of an old format: nothing is shown"
                   : directory.entries == 0  ? "a run that is empty: nothing is shown"
                                             : "a run without a profile: nothing is shown",
                   "record again");
  }

  bool HoldsProfileBelow(const ScannedDirectory& directory) const {
    return std::any_of(directory.children.begin(), directory.children.end(),
                       [&](int child) { return CountProfiles(At(child)) > 0 || HoldsProfileBelow(At(child)); });
  }

  static bool HoldsOldFormat(const ScannedDirectory& directory) {
    for (const ScannedFile& file : directory.others) {
      for (std::string_view end : {".trace", ".tracetable", ".trace.json.gz", ".overview_page.pb", ".kernel_stats.pb",
                                   ".input_pipeline.pb", ".tensorflow_stats.pb"}) {
        if (file.name.ends_with(end)) return true;
      }
    }
    return false;
  }

  static bool BreaksTools(const ScannedProfile& profile) {
    if (profile.name.find('\n') != std::string::npos) return false;
    return profile.error != 0 || (profile.skimmed && !profile.facts.parsed);
  }

  // Moves broken files to a run of their own: there they keep their names, here they break the tools of other hosts.
  void Broken(const ScannedDirectory& directory, bool has_tools) {
    Remedy remedy(&state_.remedies);
    std::string first;
    size_t broken = 0;
    bool fresh = false, missing = false;
    const std::string here = state_.Absolute(directory.path);
    const std::string target =
        state_.remedies.Free(ParentOf(here), StrCat(PlainName(BaseName(directory.path)), "_broken"));
    for (const ScannedProfile& profile : directory.profiles) {
      if (!BreaksTools(profile) || state_.named.count(JoinPath(directory.path, profile.name)) != 0) continue;
      if (++broken > kMaxBroken) break;
      if (first.empty()) first = profile.name;
      fresh = fresh || profile.mtime_ns > state_.now_ns - kFreshNs;
      missing = missing || (profile.error != 0 && !LeadsNowhere(profile));
      remedy.MakeDirectory(target);
      remedy.Move(JoinPath(here, profile.name), JoinPath(target, profile.name));
    }
    if (broken == 0) return;  // reported with another remedy
    const std::string_view id = has_tools ? "run-pages-fail" : "run-no-tools";
    const std::string what =
        StrCat(has_tools ? "pages of all hosts fail: `" : "lists no tool: `", first, "` cannot be read");
    if (missing) {
      state_.Problem(id, directory.path, what, "make it readable, or take it away");
    } else if (fresh) {
      state_.Problem(id, directory.path, what, "wait until it is written");
    } else {
      state_.Problem(id, directory.path, what, remedy.Advice("move it to another run"), remedy.command());
    }
  }

  // Computes the list of tools as xprof does: from its cache if that is valid.
  void Tools(const ScannedDirectory& directory, ProfileRun& run) {
    // xprof keeps the cache of its demonstration data elsewhere.
    const bool own_cache = !EndsWithPath(ParentOf(state_.Absolute(run.path)), "demo/plugins/profile");
    for (const ScannedFile& file : directory.others) {
      if (file.name != ".cached_tools.json" || !own_cache) continue;
      const Json cache = Json::parse(file.text, nullptr, false);
      if (!cache.is_object() || cache.value("version", Json()) != Json(1)) continue;
      Json states = Json::object();
      for (const ScannedProfile& profile : directory.profiles) {
        if (PatternEnd(state_.Absolute(run.path)) != std::string::npos) break;  // xprof finds no files
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
    // The first profile in directory order decides, as in Python's directory listing.
    const auto listed = std::find_if(directory.profiles.begin(), directory.profiles.end(),
                                     [](const ScannedProfile& p) { return p.name.find('\n') == std::string::npos; });
    // xprof fails at any path that is not UTF-8, at any position in that order.
    const bool fails = !IsUtf8(state_.Absolute(run.path)) ||
                       std::any_of(directory.profiles.begin(), directory.profiles.end(), [](const ScannedProfile& p) {
                         return p.name.find('\n') == std::string::npos && !IsUtf8(p.name);
                       });
    if (listed != directory.profiles.end() && !fails) {
      const ScannedProfile& first = *listed;
      bool marked = false;
      for (const ScannedFile& file : directory.others) marked = marked || file.name.ends_with(".hlo_proto.pb");
      // xprof reads all profiles before it writes this mark, and lists no tools if one of them cannot be read. If the
      // mark exists, xprof reads only the first profile.
      const bool opens = marked ? !BreaksTools(first)
                                : std::none_of(directory.profiles.begin(), directory.profiles.end(), BreaksTools);
      if (opens && (marked || directory.writable)) {
        fresh = ToolsOfAnyProfile();
        if (first.facts.has_gpu) fresh.push_back("kernel_stats");
        if (first.facts.has_hlo) fresh.insert(fresh.end(), {"graph_viewer", "memory_viewer"});
        if (first.facts.has_megascale) fresh.push_back("megascale_stats");
        if (first.facts.has_counters)
          fresh.insert(fresh.end(), {"kernel_utilization", "perf_counters", "utilization_viewer"});
        std::sort(fresh.begin(), fresh.end());
      }
    }
    run.tools_without_cache = !fresh.empty();
    if (!run.tools_from_cache) {
      run.tools = std::move(fresh);
    } else if (run.tools.empty() && !fresh.empty()) {
      Remedy remedy(&state_.remedies);
      Aside(run.path, ".cached_tools.json", &remedy);
      state_.Problem("cache-empty", run.path, "the cached list of tools is empty: none is shown",
                     remedy.Advice("move the cache aside"), remedy.command());
    }
  }

  // Moves a cache to a name that xprof does not look for.
  void Aside(const std::string& directory, const std::string& name, Remedy* remedy) {
    const std::string from = state_.Absolute(JoinPath(directory, name));
    remedy->Move(from, state_.remedies.Free(state_.Absolute(directory), name, ".old"));
  }

  void Rights(const ScannedDirectory& directory, const ProfileRun& run) {
    if (directory.writable || run.hosts.empty()) return;
    bool marked = false, viewed = false;
    for (const ScannedFile& file : directory.others) {
      marked = marked || file.name.ends_with(".hlo_proto.pb");
      viewed = viewed || file.name.ends_with(".SSTABLE");
    }
    Remedy remedy(&state_.remedies);
    const std::string word = ShellWord(state_.Absolute(run.path));
    if (directory.owned && !directory.read_only && !word.empty()) {
      remedy.KeepOffLinks(state_.Absolute(run.path));
      remedy.Run(ParentOf(state_.Absolute(run.path)), StrCat("chmod u+rwx -- ", word));
    }
    const std::string fix = remedy.possible() ? "allow it" : "view a copy of yours";
    if (!marked && !run.tools_from_cache) {
      state_.Problem("run-not-writable", run.path, "you may not write in it: xprof lists no tool", fix,
                     remedy.command());
    } else if (!viewed) {
      state_.Warn("run-not-writable", run.path, "you may not write in it: the trace viewer is empty", fix,
                  remedy.command());
    }
  }

  // xprof caches results beside the profiles, regardless of their content: a host that was added later, or a file that
  // was written again, is not in them.
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
    Remedy remedy(&state_.remedies);
    for (size_t i = 0; i < std::min(stale.size(), kMaxCaches); ++i) Aside(run.path, stale[i], &remedy);
    state_.Warn("cache-stale", run.path,
                StrCat(stale.size(), stale.size() == 1 ? " cached result is" : " cached results are",
                       " older than a profile: old pages"),
                remedy.Advice("move the cache aside"), remedy.command());
  }

  void Summary(const std::string& path, const std::string& text) {
    const Json summary = Json::parse(text, nullptr, false);
    // Old summaries have `schema` instead of `schema_version`.
    const bool is_ours = summary.is_object() && (summary.contains("schema_version") || summary.contains("schema"));
    if (!is_ours || !summary.contains("records")) return;
    const Json& records = summary["records"];
    if (!records.is_object()) return;
    const Json dropped = records.value("dropped", Json());
    if (dropped.is_object()) {
      for (const auto& [cause, count] : dropped.items()) {
        if (!count.is_number_unsigned() || count.get<uint64_t>() == 0) continue;
        // The summaries of a launcher's ranks all have the counts of its records.
        std::string what = StrCat(count.get<uint64_t>(), " records were lost: ", cause);
        if (drops_.insert(StrCat(ParentOf(path), what)).second) {
          state_.Warn("profile-drops", path, std::move(what), "larger --buffer-size");
        }
      }
    }
    const auto number = [&](const char* name) {
      const Json value = records.value(name, Json());
      return value.is_number_unsigned() ? value.get<uint64_t>() : 0;
    };
    if (number("corrupt") > 0)
      state_.Warn("profile-drops", path, StrCat(number("corrupt"), " records were corrupt and are left out"));
    if (number("over_budget") > 0) {
      state_.Note("profile-budget", path, StrCat(number("over_budget"), " events not drawn: the profile was full"),
                  "--max-profile-size");
    }
  }

  CheckState& state_;
  std::set<std::string> drops_;  // run and text
};

}  // namespace

void CheckRuns(CheckState* state) { Runs(state).Check(); }

}  // namespace tbprof
