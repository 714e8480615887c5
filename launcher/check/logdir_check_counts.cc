// SPDX-License-Identifier: Apache-2.0
//
// Checks whether a profile of tbprof holds as many events of each kind as the profile's own counts and summary.json
// state.
#include <fcntl.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include <nlohmann/json.hpp>

#include "launcher/base/text.h"
#include "launcher/check/logdir_check_parts.h"
#include "launcher/check/logdir_paths.h"
#include "writer/base/scoped.h"
#include "writer/base/utf8.h"
#include "writer/outputs/xspace_counts.h"

namespace tbprof {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMostBytes = uint64_t{512} << 20;

// Rows of `conservation` whose events are on lines of threads.
constexpr std::string_view kOnThreads[] = {"thread_calls",  "lock_waits",    "sleeps",
                                           "io_calls",      "process_calls", "large_allocation_calls",
                                           "library_calls", "annotations",   "pytorch_operations",
                                           "cuda_calls",    "thread_starts"};

struct Row {
  uint64_t made = 0, published = 0, rest = 0;
  bool adds_up = true;  // true also if that is unknown
};

uint64_t NumberOf(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}

std::map<std::string, Row> RowsOf(const Json& rows) {
  std::map<std::string, Row> out;
  if (!rows.is_array()) return out;
  for (const Json& json : rows) {
    if (!json.is_object() || !json.contains("kind") || !json["kind"].is_string()) continue;
    Row row{NumberOf(json, "made"), NumberOf(json, "published"), 0, true};
    const Json rest = json.value("rest", Json());
    if (rest.is_array()) {
      for (const Json& cause : rest) row.rest += cause.is_object() ? NumberOf(cause, "count") : 0;
    }
    // If a process is killed, more events of these kinds may be read than its counters show.
    const std::string kind = json["kind"].get<std::string>();
    const bool may_exceed = kind == "records" || kind == "allocation_calls";
    row.adds_up = json.value("holds", Json()) != Json(true) || may_exceed || row.made == row.published + row.rest;
    out[kind] = row;
  }
  return out;
}

class Counts {
 public:
  explicit Counts(CheckState* state) : state_(*state) {}

  void Check() {
    for (const int index : state_.runs) {
      const ScannedDirectory& run = state_.At(index);
      for (const ScannedProfile& profile : run.profiles) {
        if (profile.skimmed && profile.facts.parsed && profile.size <= kMostBytes) Profile(run, profile);
      }
    }
  }

 private:
  void Profile(const ScannedDirectory& run, const ScannedProfile& profile) {
    const std::string path = JoinPath(run.path, profile.name);
    const ScopedFd file(open(state_.Absolute(path).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file.valid()) return;
    const XspaceCounts counts = CountXspace(file.get());
    if (!counts.parsed || counts.conservation.empty()) return;
    const std::map<std::string, Row> rows = RowsOf(Json::parse(counts.conservation, nullptr, false));
    if (rows.empty()) return Problem(path, "its counts cannot be read");
    for (const auto& [kind, row] : rows) {
      if (row.adds_up) continue;
      Problem(path, StrCat("counts of ", row.made, " ", PrintableUtf8(kind), " ", row.published, " were published and ",
                           row.rest, " left out, which does not add up"));
    }
    Compare(path, rows, counts);
    for (const ScannedFile& other : run.others) {
      if (IsSummaryOf(other.name, profile.name, run.profiles.size())) Summary(path, rows, other.text);
    }
  }

  // Events with one name may belong to several kinds: such kinds are compared as one group.
  void Compare(const std::string& path, const std::map<std::string, Row>& rows, const XspaceCounts& counts) {
    std::vector<std::pair<std::set<std::string>, uint64_t>> groups;
    for (const std::string_view kind : kOnThreads) groups.push_back({{std::string(kind)}, 0});
    for (const auto& [text, events] : counts.events) {
      std::pair<std::set<std::string>, uint64_t> merged{{}, events};
      std::istringstream kinds(text);
      for (std::string kind; std::getline(kinds, kind, ',');) merged.first.insert(kind);
      for (auto group = groups.begin(); group != groups.end();) {
        const bool meets =
            std::ranges::any_of(merged.first, [&](const auto& kind) { return group->first.contains(kind); });
        if (!meets) {
          ++group;
          continue;
        }
        merged.first.insert(group->first.begin(), group->first.end());
        merged.second += group->second;
        group = groups.erase(group);
      }
      groups.push_back(std::move(merged));
    }
    for (const auto& [kinds, events] : groups) {
      uint64_t published = 0, made = 0;
      std::string names;
      for (const std::string& kind : kinds) {
        StrAppend(&names, names.empty() ? "" : " and ", PrintableUtf8(kind));
        const auto row = rows.find(kind);
        if (row == rows.end()) continue;
        published += row->second.published;
        made += row->second.made;
      }
      if (events == published) continue;
      Problem(path, StrCat("holds ", events, " ", names, "; ", published, " of ", made, " were published"));
    }
  }

  static bool IsSummaryOf(std::string_view name, std::string_view profile, size_t profiles) {
    if (name == "summary.json") return profiles == 1;
    constexpr std::string_view kEnd = ".xplane.pb";
    if (!profile.ends_with(kEnd)) return false;
    return name == StrCat(profile.substr(0, profile.size() - kEnd.size()), ".summary.json");
  }

  void Summary(const std::string& path, const std::map<std::string, Row>& rows, const std::string& text) {
    const Json summary = Json::parse(text, nullptr, false);
    if (!summary.is_object() || !summary.contains("conservation")) return;
    const std::map<std::string, Row> others = RowsOf(summary["conservation"]);
    for (const auto& [kind, row] : rows) {
      const auto other = others.find(kind);
      const uint64_t published = other == others.end() ? 0 : other->second.published;
      const uint64_t made = other == others.end() ? 0 : other->second.made;
      if (published == row.published && made == row.made) continue;
      Problem(path, StrCat("counts ", row.published, " of ", row.made, " ", PrintableUtf8(kind),
                           " were published, its summary.json ", published, " of ", made));
    }
  }

  void Problem(const std::string& path, std::string what) {
    state_.Problem("profile-counts", path, std::move(what), "copy it again; else tbprof convert");
  }

  CheckState& state_;
};

}  // namespace

void CheckCounts(CheckState* state) { Counts(state).Check(); }

}  // namespace tbprof
