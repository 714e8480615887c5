// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "launcher/logdir_check.h"
#include "launcher/text.h"
#include "writer/summary_format.h"
#include "writer/utf8.h"

namespace tbprof {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchema = 1;
constexpr size_t kMaxShownRuns = 20;
constexpr size_t kMaxShownHosts = 6;
// Of the same kind; a thousand runs have a thousand times the same trouble.
constexpr size_t kMaxShownAlike = 10;

std::string_view LevelName(FindingLevel level) {
  switch (level) {
    case FindingLevel::kProblem:
      return "FAIL";
    case FindingLevel::kWarning:
      return "WARN";
    case FindingLevel::kNote:
      break;
  }
  return "NOTE";
}

std::string_view ResultName(const LogdirReport& report) {
  const FindingLevel worst = report.Worst();
  return worst == FindingLevel::kNote ? "PASS" : LevelName(worst);
}

std::string Listed(const std::vector<std::string>& words, size_t limit) {
  std::string text;
  for (size_t i = 0; i < std::min(words.size(), limit); ++i) {
    StrAppend(&text, i == 0 ? "" : ", ", PrintableUtf8(words[i]));
  }
  if (words.size() > limit) StrAppend(&text, ", … (", words.size(), ")");
  return text.empty() ? "none" : text;
}

Json Texts(const std::vector<std::string>& texts) {
  Json array = Json::array();
  for (const std::string& text : texts) array.push_back(ValidUtf8(text));
  return array;
}

}  // namespace

std::string ReportText(const LogdirReport& report) {
  std::string text = StrCat(PrintableUtf8(report.logdir), ": ", Counted(report.directories, "directory"), ", ",
                            Counted(report.events_files, "events file"), " (",
                            HumanBytes(static_cast<double>(report.event_bytes_read)), " read)\n");
  size_t shown = 0, listed = 0;
  for (const ProfileRun& run : report.profile_runs) shown += run.shown;
  StrAppend(&text, "Profile page: ", Counted(shown, "run"), "\n");
  for (const ProfileRun& run : report.profile_runs) {
    if (!run.shown) continue;
    if (++listed > kMaxShownRuns) continue;
    StrAppend(&text, "  ", PrintableUtf8(run.name), "  hosts: ", Listed(run.hosts, kMaxShownHosts),
              "  tools: ", Listed(run.tools, 100), "\n");
  }
  if (listed > kMaxShownRuns) StrAppend(&text, "  and ", listed - kMaxShownRuns, " more (all of them: --json)\n");
  size_t events_runs = 0;
  for (const EventsRun& run : report.events_runs) events_runs += run.listed;
  StrAppend(&text, "Scalars and other pages: ", Counted(events_runs, "run"), "\n");
  listed = 0;
  for (const EventsRun& run : report.events_runs) {
    if (!run.listed || ++listed > kMaxShownRuns) continue;
    StrAppend(&text, "  ", PrintableUtf8(run.name), "  ");
    if (run.values == 0) {
      text += "no values\n";
    } else {
      StrAppend(&text, Counted(run.tags, "tag"), ", ", Counted(run.values, "value"), ", steps ", run.lowest_step,
                " to ", run.highest_step, "\n");
    }
  }
  if (listed > kMaxShownRuns) StrAppend(&text, "  and ", listed - kMaxShownRuns, " more (all of them: --json)\n");

  std::map<std::string_view, size_t> alike;
  std::map<std::string_view, size_t> total;
  for (const Finding& finding : report.findings) ++total[finding.id];
  for (const Finding& finding : report.findings) {
    const size_t number = ++alike[finding.id];
    if (number <= kMaxShownAlike) {
      StrAppend(&text, LevelName(finding.level), "  ", PrintableUtf8(finding.where), ": ", PrintableUtf8(finding.what),
                finding.fix.empty() ? "" : "; fix: ", PrintableUtf8(finding.fix), "\n");
    } else if (number == kMaxShownAlike + 1) {
      StrAppend(&text, LevelName(finding.level), "  and ", total[finding.id] - kMaxShownAlike, " more of this kind (",
                finding.id, "; all of them: --json)\n");
    }
  }
  StrAppend(&text, ResultName(report), "  ", Counted(report.Count(FindingLevel::kProblem), "problem"), ", ",
            Counted(report.Count(FindingLevel::kWarning), "warning"), ", ",
            Counted(report.Count(FindingLevel::kNote), "note"), "\n");
  return text;
}

std::string ReportJson(const LogdirReport& report) {
  Json out;
  out["schema"] = kSchema;
  out["logdir"] = ValidUtf8(report.logdir);
  out["result"] = LowerCase(ResultName(report));
  out["exit_status"] = report.ExitStatus();
  Json runs = Json::array();
  Json old_runs = Json::array();
  bool active = false;
  for (const ProfileRun& run : report.profile_runs) {
    if (run.shown_old) old_runs.push_back(ValidUtf8(run.name));
    if (!run.shown) continue;
    active = true;
    runs.push_back({{"name", ValidUtf8(run.name)},
                    {"path", ValidUtf8(run.path)},
                    {"hosts", Texts(run.hosts)},
                    {"tools", Texts(run.tools)},
                    {"tools_from_cache", run.tools_from_cache},
                    {"bytes", run.bytes}});
  }
  out["profile"] = {{"active", active}, {"plugin_fails", report.plugin_fails}, {"runs", std::move(runs)}};
  out["profile_before_2_20_3"] = {{"runs", std::move(old_runs)}};
  Json events = Json::array();
  for (const EventsRun& run : report.events_runs) {
    events.push_back({{"name", ValidUtf8(run.name)},
                      {"listed", run.listed},
                      {"files", run.files},
                      {"tags", run.tags},
                      {"values", run.values},
                      {"lowest_step", run.has_steps ? Json(run.lowest_step) : Json()},
                      {"highest_step", run.has_steps ? Json(run.highest_step) : Json()}});
  }
  out["events"] = {{"runs", std::move(events)}};
  Json findings = Json::array();
  for (const Finding& finding : report.findings) {
    findings.push_back({{"level", LowerCase(LevelName(finding.level))},
                        {"id", std::string(finding.id)},
                        {"where", ValidUtf8(finding.where)},
                        {"what", ValidUtf8(finding.what)},
                        {"fix", finding.fix.empty() ? Json() : Json(ValidUtf8(finding.fix))}});
  }
  out["findings"] = std::move(findings);
  out["scan"] = {{"directories", report.directories},
                 {"entries", report.entries},
                 {"events_files", report.events_files},
                 {"event_bytes_read", report.event_bytes_read}};
  return out.dump(2) + "\n";
}

}  // namespace tbprof
