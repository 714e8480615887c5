// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "launcher/base/text.h"
#include "launcher/check/logdir_check.h"
#include "writer/base/summary_format.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr int kSchema = 2;
constexpr size_t kMaxShownRuns = 20;
constexpr size_t kMaxShownHosts = 6;
// Limit per kind of finding: many runs often have the same fault.
constexpr size_t kMaxShownAlike = 10;
constexpr size_t kColumns = 100;
// A log directory without problems does not guarantee that the next recording works.
constexpr std::string_view kDoctorHint = "      what could prevent the next recording: tbprof doctor -- COMMAND";
constexpr size_t kLevelColumns = 6;
constexpr size_t kLeastWhere = 16;

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

OrderedJson Texts(const std::vector<std::string>& texts) {
  OrderedJson array = OrderedJson::array();
  for (const std::string& text : texts) array.push_back(ValidUtf8(text));
  return array;
}

// Keeps the end of a path: its last names matter more than its first.
std::string LastColumns(const std::string& path, size_t columns) {
  size_t have = Utf8Columns(path), at = 0;
  if (have <= columns) return path;
  for (; have > columns - 1; --have) {
    do ++at;
    while (at < path.size() && (static_cast<uint8_t>(path[at]) & 0xC0) == 0x80);
  }
  return StrCat("…", path.substr(at));
}

// One line of at most kColumns: place, observation, remedy. Texts that do not fit are printed in full below it.
std::string FindingText(const LogdirFinding& finding) {
  const std::string where = PrintableUtf8(finding.where), fix = PrintableUtf8(finding.fix);
  std::string what = PrintableUtf8(finding.what);
  const size_t fix_columns = fix.empty() ? 0 : 2 + Utf8Columns(fix);
  const size_t least = std::min(Utf8Columns(where), kLeastWhere);
  const std::string whole = what;
  what = FitColumns(what, kColumns - kLevelColumns - 2 - least - fix_columns);
  const size_t left = kColumns - kLevelColumns - 2 - fix_columns - Utf8Columns(what);
  const std::string shown = LastColumns(where, left);
  std::string text = StrCat(LevelName(finding.level), "  ", shown, ": ", what, fix.empty() ? "" : "; ", fix, "\n");
  if (shown != where && finding.command.empty()) StrAppend(&text, "      in: ", where, "\n");
  if (what != whole) StrAppend(&text, "      whole: ", whole, "\n");
  if (!finding.command.empty()) StrAppend(&text, "      run: ", finding.command, "\n");
  return text;
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
  for (const LogdirFinding& finding : report.findings) ++total[finding.id];
  for (const LogdirFinding& finding : report.findings) {
    const size_t number = ++alike[finding.id];
    if (number <= kMaxShownAlike) {
      StrAppend(&text, FindingText(finding));
    } else if (number == kMaxShownAlike + 1) {
      StrAppend(&text, LevelName(finding.level), "  and ", total[finding.id] - kMaxShownAlike, " more of this kind (",
                finding.id, "; all of them: --json)\n");
    }
  }
  StrAppend(&text, ResultName(report), "  ", Counted(report.Count(FindingLevel::kProblem), "problem"), ", ",
            Counted(report.Count(FindingLevel::kWarning), "warning"), ", ",
            Counted(report.Count(FindingLevel::kNote), "note"), "\n");
  if (report.Worst() == FindingLevel::kNote) StrAppend(&text, kDoctorHint, "\n");
  return text;
}

std::string ReportJson(const LogdirReport& report) {
  OrderedJson out;
  out["schema"] = kSchema;
  out["logdir"] = ValidUtf8(report.logdir);
  out["result"] = LowerCase(ResultName(report));
  out["exit_status"] = report.ExitStatus();
  OrderedJson runs = OrderedJson::array();
  OrderedJson old_runs = OrderedJson::array();
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
  OrderedJson events = OrderedJson::array();
  for (const EventsRun& run : report.events_runs) {
    events.push_back({{"name", ValidUtf8(run.name)},
                      {"listed", run.listed},
                      {"files", run.files},
                      {"tags", run.tags},
                      {"values", run.values},
                      {"lowest_step", run.has_steps ? OrderedJson(run.lowest_step) : OrderedJson()},
                      {"highest_step", run.has_steps ? OrderedJson(run.highest_step) : OrderedJson()}});
  }
  out["events"] = {{"runs", std::move(events)}};
  OrderedJson findings = OrderedJson::array();
  for (const LogdirFinding& finding : report.findings) {
    findings.push_back(
        {{"level", LowerCase(LevelName(finding.level))},
         {"id", std::string(finding.id)},
         {"where", ValidUtf8(finding.where)},
         {"what", ValidUtf8(finding.what)},
         {"fix", finding.fix.empty() ? OrderedJson() : OrderedJson(ValidUtf8(finding.fix))},
         {"command", finding.command.empty() ? OrderedJson() : OrderedJson(ValidUtf8(finding.command))}});
  }
  out["findings"] = std::move(findings);
  out["next"] = report.Worst() == FindingLevel::kNote ? OrderedJson("tbprof doctor") : OrderedJson();
  out["scan"] = {{"directories", report.directories},
                 {"entries", report.entries},
                 {"events_files", report.events_files},
                 {"event_bytes_read", report.event_bytes_read}};
  return out.dump(2) + "\n";
}

}  // namespace tbprof
