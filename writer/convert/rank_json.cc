// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/rank_json.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "wire/ranks.h"
#include "writer/base/json_values.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kPsPerSecond = 1e12;
constexpr size_t kMostPlaces = 6;
constexpr size_t kMaxReports = kMaxWorld;
constexpr size_t kMaxText = 300, kMaxTexts = 8;
constexpr double kMostSkewNs = 10e9;  // between the clocks of two machines
constexpr uint64_t kMostNs = uint64_t{1} << 62;

std::string_view StateName(RankState state) {
  switch (state) {
    case RankState::kRunning:
      return "running";
    case RankState::kEnded:
      return "ended";
    case RankState::kMissing:
      return "missing";
  }
  return "missing";
}

Json StepsJson(const RankReport& report) {
  if (!report.has_numbers || report.step_source.empty()) return nullptr;
  return {{"count", report.steps},
          {"irregular", report.irregular_steps},
          {"source", ValidUtf8(report.step_source)},
          {"confidence", report.step_confidence},
          {"median_s", KnownOrNull(report.median_step_ps >= 0, Seconds(report.median_step_ps))},
          {"last", KnownOrNull(report.last_step >= 0, report.last_step)},
          {"searched_from_s", KnownOrNull(report.searched_from_ps >= 0, Seconds(report.searched_from_ps))},
          {"searched_to_s", KnownOrNull(report.searched_to_ps >= 0, Seconds(report.searched_to_ps))}};
}

Json PlaceJson(const RankPlace& place) {
  return {{"file", KnownOrNull(!place.file.empty(), ValidUtf8(place.file))},
          {"line", KnownOrNull(place.line > 0, place.line)},
          {"function", ValidUtf8(place.function)}};
}

Json TextsJson(const std::vector<std::string>& texts) {
  Json json = Json::array();
  for (const std::string& text : texts) json.push_back(ValidUtf8(text));
  return json;
}

// The members of one object, with a default for members that are absent or of another type.
class Members {
 public:
  explicit Members(const Json& json) : json_(json) {}
  template <typename Number>
  Number Get(const char* name, Number otherwise) const {
    const auto found = json_.find(name);
    if (found == json_.end() || !found->is_number()) return otherwise;
    const double value = found->template get<double>();
    constexpr double kMost = std::min(9e18, static_cast<double>(std::numeric_limits<Number>::max()));
    return value >= 0 && value <= kMost ? static_cast<Number>(value) : otherwise;
  }
  int64_t Picoseconds(const char* name) const {
    const double seconds = Get(name, -1.0);
    return seconds < 0 ? -1 : static_cast<int64_t>(std::min(seconds, 9e6) * kPsPerSecond);
  }
  std::string Text(const char* name) const {
    const auto found = json_.find(name);
    return found != json_.end() && found->is_string()
               ? std::string(TruncateUtf8(found->get_ref<const std::string&>(), kMaxText))
               : "";
  }
  std::vector<std::string> Texts(const char* name) const {
    std::vector<std::string> texts;
    const auto found = json_.find(name);
    if (found == json_.end() || !found->is_array()) return texts;
    for (const Json& text : *found) {
      if (texts.size() == kMaxTexts || !text.is_string()) break;
      texts.emplace_back(TruncateUtf8(text.get_ref<const std::string&>(), kMaxText));
    }
    return texts;
  }
  bool Flag(const char* name) const {
    const auto found = json_.find(name);
    return found != json_.end() && found->is_boolean() && found->get<bool>();
  }
  const Json* Object(const char* name) const {
    const auto found = json_.find(name);
    return found != json_.end() && found->is_object() ? &*found : nullptr;
  }

 private:
  const Json& json_;
};

constexpr std::pair<VerdictBasis, std::string_view> kBases[] = {
    {VerdictBasis::kSteps, "steps"}, {VerdictBasis::kLoop, "loop"}, {VerdictBasis::kMainThread, "main_thread"}};

std::string_view BasisName(VerdictBasis basis) {
  for (const auto& row : kBases) {
    if (row.first == basis) return row.second;
  }
  return "main_thread";
}

// A tbprof that did not write it knew shares of steps alone.
VerdictBasis BasisNamed(std::string_view name, bool has_steps) {
  for (const auto& row : kBases) {
    if (row.second == name) return row.first;
  }
  return has_steps ? VerdictBasis::kSteps : VerdictBasis::kMainThread;
}

// A time since the opening of a window that was opened so much later; -1: not known.
int64_t Later(int64_t ps, int64_t later_ns) {
  int64_t sum;
  if (ps < 0 || __builtin_mul_overflow(later_ns, int64_t{1000}, &sum) || __builtin_add_overflow(sum, ps, &sum))
    return -1;
  return std::max<int64_t>(sum, 0);
}

RankReport ReportFrom(const Json& json, uint64_t start_unix_ns, uint64_t origin_unix_ns) {
  const Members members(json);
  RankReport report;
  report.of_other_launcher = true;
  report.rank = members.Get("rank", -1);
  report.local_rank = members.Get("local_rank", -1);
  const std::string state = members.Text("state");
  report.state = state == "ended" ? RankState::kEnded : state == "running" ? RankState::kRunning : RankState::kMissing;
  report.pid = members.Get("pid", 0);
  report.exit_code = std::min(members.Get("exit_code", -1), 255);
  report.exit_signal = std::min(members.Get("exit_signal", 0), 127);
  report.out_of_memory = members.Flag("out_of_memory");
  const auto later_ns = static_cast<int64_t>(start_unix_ns) - static_cast<int64_t>(origin_unix_ns);
  report.end_ps = Later(members.Picoseconds("end_s"), later_ns);
  report.earlier_failures = members.Get("earlier_failures", 0);
  report.earlier_failure = members.Text("earlier_failure");
  report.earlier_end_ps = Later(members.Picoseconds("earlier_end_s"), later_ns);
  report.host = members.Text("host");
  report.has_numbers = !report.host.empty();
  report.processes = members.Get("process_count", uint64_t{0});
  report.threads = members.Get("threads", uint64_t{0});
  report.records = members.Get("records", uint64_t{0});
  report.waited_ps = std::max<int64_t>(members.Picoseconds("wait_s"), 0);
  report.heap_peak_bytes = members.Get("heap_peak_bytes", int64_t{-1});
  report.memory = members.Texts("memory");
  report.memory_growth = members.Texts("memory_growth");
  report.own_cost_seconds = members.Get("own_cost_s", 0.0);
  if (const Json* steps = members.Object("steps")) {
    const Members of_steps(*steps);
    report.steps = of_steps.Get("count", uint64_t{0});
    report.irregular_steps = of_steps.Get("irregular", uint64_t{0});
    report.step_source = of_steps.Text("source");
    report.step_confidence = of_steps.Get("confidence", 0.0);
    report.median_step_ps = of_steps.Picoseconds("median_s");
    report.last_step = of_steps.Get("last", int64_t{-1});
    report.searched_from_ps = of_steps.Picoseconds("searched_from_s");
    report.searched_to_ps = of_steps.Picoseconds("searched_to_s");
  }
  report.step_change = members.Text("step_change");
  report.change_is_of_others = members.Flag("change_is_of_others");
  report.hangs = members.Texts("hangs");
  report.verdict = members.Text("verdict");
  report.cause = CauseNamed(members.Text("cause"));
  report.collectives_share = std::min(members.Get("collectives_share", -1.0), 1.0);
  report.share_basis = BasisNamed(members.Text("collectives_share_of"), report.median_step_ps >= 0);
  const auto places = json.find("places");
  for (size_t i = 0; places != json.end() && places->is_array() && i < std::min(places->size(), kMostPlaces); ++i) {
    if (!(*places)[i].is_object()) continue;
    const Members place((*places)[i]);
    report.places.push_back(
        {place.Text("file"), place.Get("line", -1), place.Text("function"), place.Get("share", 0.0)});
  }
  // Of a tbprof that knew the first of them alone.
  if (const Json* busiest = members.Object("busiest"); busiest != nullptr && report.places.empty()) {
    const Members place(*busiest);
    report.places.push_back({place.Text("file"), place.Get("line", -1), place.Text("function")});
  }
  const auto waits = json.find("wait_sites");
  for (size_t i = 0; waits != json.end() && waits->is_array() && i < std::min<size_t>(waits->size(), 5); ++i) {
    if (!(*waits)[i].is_object()) continue;
    const Members wait((*waits)[i]);
    report.waits.push_back({wait.Text("operation"), wait.Text("call_site"), wait.Get("calls", uint64_t{0}),
                            std::max<int64_t>(wait.Picoseconds("total_s"), 0),
                            std::max<int64_t>(wait.Picoseconds("longest_s"), 0)});
  }
  return report;
}

}  // namespace

Json RankReportJson(const RankReport& report) {
  Json waits = Json::array();
  for (const RankWait& wait : report.waits) {
    waits.push_back({{"operation", ValidUtf8(wait.operation)},
                     {"call_site", ValidUtf8(wait.call_site)},
                     {"calls", wait.calls},
                     {"total_s", Seconds(wait.total_ps)},
                     {"longest_s", Seconds(wait.longest_ps)}});
  }
  Json places = Json::array();
  for (const RankPlace& place : report.places) {
    places.push_back(PlaceJson(place));
    places.back()["share"] = std::clamp(place.share, 0.0, 1.0);
  }
  const bool numbers = report.has_numbers;
  return {{"rank", report.rank},
          {"local_rank", KnownOrNull(report.local_rank >= 0, report.local_rank)},
          {"state", StateName(report.state)},
          {"pid", KnownOrNull(report.pid > 0, report.pid)},
          {"exit_code", KnownOrNull(report.exit_code >= 0 && report.exit_signal == 0, report.exit_code)},
          {"exit_signal", KnownOrNull(report.exit_signal != 0, report.exit_signal)},
          {"out_of_memory", report.out_of_memory},
          {"end_s", KnownOrNull(report.end_ps >= 0, Seconds(report.end_ps))},
          {"earlier_failures", report.earlier_failures},
          {"earlier_failure", KnownOrNull(report.earlier_failures > 0, ValidUtf8(report.earlier_failure))},
          {"earlier_end_s", KnownOrNull(report.earlier_end_ps >= 0, Seconds(report.earlier_end_ps))},
          {"of_other_launcher", report.of_other_launcher},
          {"host", KnownOrNull(numbers, ValidUtf8(report.host))},
          {"process_count", KnownOrNull(numbers, report.processes)},
          {"threads", KnownOrNull(numbers, report.threads)},
          {"records", KnownOrNull(numbers, report.records)},
          {"steps", StepsJson(report)},
          {"step_change", KnownOrNull(!report.step_change.empty(), ValidUtf8(report.step_change))},
          {"change_is_of_others", KnownOrNull(!report.step_change.empty(), report.change_is_of_others)},
          {"hangs", TextsJson(report.hangs)},
          {"verdict", KnownOrNull(!report.verdict.empty(), ValidUtf8(report.verdict))},
          {"cause", KnownOrNull(report.cause != Cause::kUnknown, CauseName(report.cause))},
          {"collectives_share", KnownOrNull(report.collectives_share >= 0, report.collectives_share)},
          {"collectives_share_of", KnownOrNull(report.collectives_share >= 0, BasisName(report.share_basis))},
          {"busiest", report.places.empty() ? Json(nullptr) : PlaceJson(report.places.front())},
          {"places", std::move(places)},
          {"wait_s", KnownOrNull(numbers, Seconds(report.waited_ps))},
          {"wait_sites", KnownOrNull(numbers, std::move(waits))},
          {"heap_peak_bytes", KnownOrNull(report.heap_peak_bytes >= 0, report.heap_peak_bytes)},
          {"memory", TextsJson(report.memory)},
          {"memory_growth", TextsJson(report.memory_growth)},
          {"own_cost_s", KnownOrNull(numbers, report.own_cost_seconds)}};
}

std::vector<RankReport> RankReportsOfSummary(const std::string& summary, uint64_t origin_unix_ns,
                                             uint64_t run_start_unix_ns) {
  std::vector<RankReport> reports;
  const Json json = Json::parse(summary, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return reports;
  const auto by_rank = json.find("by_rank");
  const uint64_t start = Members(json).Get("start_unix_ns", origin_unix_ns);
  // The summary may be from an earlier run of the same name.
  const double end = static_cast<double>(start) + 1e9 * std::max(Members(json).Get("wall_s", 0.0), 0.0);
  if (end + kMostSkewNs < static_cast<double>(run_start_unix_ns)) return reports;
  if (by_rank != json.end() && by_rank->is_array()) {
    for (size_t i = 0; i < std::min<size_t>(by_rank->size(), kMaxReports); ++i) {
      if (!(*by_rank)[i].is_object()) continue;
      RankReport report = ReportFrom((*by_rank)[i], std::min(start, kMostNs), std::min(origin_unix_ns, kMostNs));
      const bool own = !Members((*by_rank)[i]).Flag("of_other_launcher");
      if (report.rank >= 0 && own && report.state != RankState::kMissing) reports.push_back(std::move(report));
    }
    return reports;
  }
  // A summary of an earlier tbprof has only the list of ranks.
  const auto ranks = json.find("ranks");
  if (ranks == json.end() || !ranks->is_array()) return reports;
  for (size_t i = 0; i < std::min<size_t>(ranks->size(), kMaxReports); ++i) {
    if (!(*ranks)[i].is_number_unsigned() || (*ranks)[i] > kMaxWorld) continue;
    RankReport report;
    report.rank = (*ranks)[i].get<int>();
    report.state = RankState::kRunning;
    report.of_other_launcher = true;
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace tbprof
