// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/report_reader.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/base/text.h"
#include "launcher/report/bounded_json.h"
#include "launcher/report/report_answers.h"
#include "launcher/report/xspace_totals.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kProfileEnding = ".xplane.pb";
constexpr size_t kMostSummaries = 4096;
// Limit for faults in a report, one line each; further ones are usually the same.
constexpr size_t kMostFaults = 8;
constexpr std::string_view kOfProfileAlone =
    "not written by tbprof, or its summary.json is missing: verdict, Python lines, native functions, waits, GPUs, "
    "memory and ranks are not known";
constexpr std::string_view kNoSummary =
    "its summary.json is missing: of the verdict the sentence alone; no Python lines, native functions, waits, GPUs, "
    "memory, ranks";

absl::StatusOr<Json> ReadSummary(const std::string& path) {
  const absl::StatusOr<OpenedFile> file = OpenRegularFile(path);
  if (!file.ok()) return file.status();
  return ReadBoundedJson(file->fd.get(), path);
}

std::string StemOf(std::string_view profile) {
  std::string_view name = BaseName(profile);
  if (name.ends_with(kProfileEnding)) name.remove_suffix(kProfileEnding.size());
  return PrintableUtf8(name);
}

// For a rank without its own summary: the data about it in another rank's summary.
absl::StatusOr<Report> ReportOfSection(const Json& summary, const std::string& path, int64_t rank) {
  Report report;
  if (const absl::Status status = ReadAnswers(summary, path, &report); !status.ok()) return status;
  if (report.rank == rank) return report;
  std::string fault;
  const Fields root(summary, "$", &fault);
  for (const Fields& section : root.Objects("by_rank")) {
    if (section.Integer("rank") != rank) continue;
    Report of_rank;
    of_rank.file = report.file;
    of_rank.run = report.run;
    of_rank.window = report.window;
    of_rank.command = report.command;
    of_rank.tbprof_version = report.tbprof_version;
    of_rank.complete = report.complete;
    of_rank.wall_s = report.wall_s;
    of_rank.rank = rank;
    of_rank.host = section.Text("host");
    of_rank.process = StrCat("process ", section.Integer("pid").value_or(0));
    of_rank.end = EndText(section.Integer("exit_code"), section.Integer("exit_signal"));
    const Fields steps = section.Object("steps");
    of_rank.steps.known = steps.present();
    of_rank.steps.unknown_because = steps.present() ? "" : "none were recognised, or they are not known";
    of_rank.steps.count = steps.Count("count");
    of_rank.steps.irregular = steps.Count("irregular");
    of_rank.steps.source = steps.Text("source");
    of_rank.steps.confidence = steps.Number("confidence");
    of_rank.steps.median_s = steps.Number("median_s");
    of_rank.steps.searched_from_s = steps.Number("searched_from_s");
    of_rank.steps.searched_to_s = steps.Number("searched_to_s");
    of_rank.waits = ReadWaits(section);
    of_rank.verdict = ReadVerdictOfRank(section);
    if (const std::optional<double> peak = section.Number("heap_peak_bytes")) {
      of_rank.memory.totals.push_back({"heap_peak", *peak});
      for (const char* const name : {"memory_growth", "memory"}) {
        for (std::string& text : section.Texts(name)) of_rank.memory.text.push_back(std::move(text));
      }
    }
    of_rank.missing.push_back(StrCat("rank ", rank,
                                     ": split of the step, Python lines, native functions, GPUs and allocations: ",
                                     "its launcher's summary has those of rank ", report.rank.value_or(-1), " alone"));
    if (!fault.empty()) return absl::DataLossError(StrCat(PrintableUtf8(path), ": ", fault));
    return of_rank;
  }
  return absl::NotFoundError(StrCat(PrintableUtf8(path), ": no rank ", rank, " in it"));
}

bool IsSame(const RankAnswer& a, const RankAnswer& b) {
  return a.rank.has_value() || b.rank.has_value() ? a.rank == b.rank : a.host == b.host;
}

// Adds each rank once: its own summary takes precedence over data in another launcher's summary.
void AddRanks(std::vector<RankAnswer> found, std::vector<RankAnswer>* ranks) {
  for (RankAnswer& answer : found) {
    const auto known = std::ranges::find_if(*ranks, [&](const RankAnswer& other) { return IsSame(answer, other); });
    if (known == ranks->end()) {
      ranks->push_back(std::move(answer));
    } else if (known->summary.empty() && !answer.summary.empty()) {
      *known = std::move(answer);
    }
  }
  std::ranges::stable_sort(
      *ranks, {}, [](const RankAnswer& answer) { return std::pair(answer.rank.value_or(INT64_MAX), answer.host); });
}

// The rank that the terminal showed. Where each launcher has a summary of its own, the first of the slowest: ranks that
// work in step differ by noise.
const RankAnswer* ShownRank(const std::vector<RankAnswer>& ranks) {
  const RankAnswer* shown = nullptr;
  for (const RankAnswer& rank : ranks) {
    if (rank.summary.empty()) continue;
    if (IsMainSummary(rank.summary)) return &rank;
    if (shown == nullptr || IsSlowerRank(rank.median_s.value_or(0), shown->median_s.value_or(0))) shown = &rank;
  }
  return shown;
}

absl::StatusOr<Report> ReportOfProfile(const std::string& path) {
  const absl::StatusOr<OpenedFile> file = OpenRegularFile(path);
  if (!file.ok()) return file.status();
  Report report;
  const absl::Status status = ReadXspaceTotals(file->fd.get(), file->size, path, &report);
  if (!status.ok()) return status;
  if (report.host.empty()) report.host = StemOf(path);
  report.missing.push_back(StrCat(PrintableUtf8(path), ": ", report.verdict.known ? kNoSummary : kOfProfileAlone));
  return report;
}

std::string RankList(const std::vector<RankAnswer>& ranks) {
  std::string text;
  for (const RankAnswer& rank : ranks) {
    if (!rank.rank.has_value()) continue;
    if (text.size() > 200) return text + ", …";
    StrAppend(&text, text.empty() ? "" : ", ", *rank.rank);
  }
  return text.empty() ? "none" : text;
}

// The ranks and faults of all summaries of a source.
struct Overview {
  std::vector<RankAnswer> ranks;
  std::vector<std::string> faults;
};

Overview ReadOverview(const ReportSource& source) {
  Overview overview;
  for (size_t i = 0; i < std::min(source.summaries.size(), kMostSummaries); ++i) {
    const std::string& path = source.summaries[i];
    const absl::StatusOr<Json> summary = ReadSummary(path);
    absl::StatusOr<std::vector<RankAnswer>> ranks = absl::UnknownError("");
    if (summary.ok()) {
      ranks = ReadRanks(*summary, path);
    } else {
      ranks = summary.status();
    }
    if (ranks.ok()) {
      AddRanks(*std::move(ranks), &overview.ranks);
    } else if (overview.faults.size() < kMostFaults) {
      overview.faults.emplace_back(ranks.status().message());
    }
  }
  return overview;
}

absl::StatusOr<Report> ReportOfRank(const RankAnswer& rank, const Overview& overview) {
  std::string path = rank.summary;
  for (const RankAnswer& other : overview.ranks) {
    if (!path.empty()) break;
    // A launcher with several ranks writes one summary, which names all of them.
    const absl::StatusOr<Json> summary = other.summary.empty() ? absl::NotFoundError("") : ReadSummary(other.summary);
    if (!summary.ok()) continue;
    absl::StatusOr<Report> report = ReportOfSection(*summary, other.summary, rank.rank.value_or(-1));
    if (report.ok()) return report;
  }
  const absl::StatusOr<Json> summary = ReadSummary(path);
  if (!summary.ok()) return summary.status();
  Report report;
  if (const absl::Status status = ReadAnswers(*summary, path, &report); !status.ok()) return status;
  return report;
}

// The rank of the named profile; nullptr: no summary belongs to the profile.
const RankAnswer* RankOfProfile(const Overview& overview, const std::string& profile) {
  const std::string stem = StemOf(profile);
  const auto found = std::ranges::find(overview.ranks, stem, &RankAnswer::host);
  return found == overview.ranks.end() ? nullptr : &*found;
}

// Adds the hosts of the run that have a profile but no summary.
void AddOtherHosts(const ReportSource& source, Report* report) {
  for (const std::string& profile : source.profiles) {
    const std::string stem = StemOf(profile);
    if (std::ranges::find(report->ranks, stem, &RankAnswer::host) != report->ranks.end()) continue;
    RankAnswer answer;
    answer.host = stem;
    answer.state = "no summary";
    report->ranks.push_back(std::move(answer));
    if (report->missing.size() < kMostFaults) {
      report->missing.push_back(StrCat(PrintableUtf8(profile), ": ", kOfProfileAlone));
    }
  }
}

void Finish(const ReportSource& source, Overview overview, Report* report) {
  report->kind = source.kind;
  report->path = PrintableUtf8(source.path);
  report->missing.insert(report->missing.end(), overview.faults.begin(), overview.faults.end());
  if (!report->profile.has_value()) {
    for (RankAnswer& rank : overview.ranks) rank.summary = PrintableUtf8(rank.summary);
    report->ranks = std::move(overview.ranks);
    AddOtherHosts(source, report);
    if (report->ranks.size() == 1) report->ranks.clear();  // the report is about this rank
  }
  if (report->run.empty()) report->run = PrintableUtf8(BaseName(source.run));
}

}  // namespace

absl::StatusOr<Report> ReadReport(const ReportSource& source, std::optional<int64_t> rank) {
  Overview overview = ReadOverview(source);
  const RankAnswer* chosen = ShownRank(overview.ranks);
  if (source.kind == SourceKind::kProfile) {
    chosen = RankOfProfile(overview, source.profiles[0]);
    // A renamed profile belongs to the summary with the same stem.
    if (chosen == nullptr && overview.ranks.size() == 1 && overview.ranks[0].summary.ends_with(".summary.json")) {
      chosen = &overview.ranks[0];
    }
  }
  if (rank.has_value()) {
    const auto named = std::ranges::find(overview.ranks, rank, &RankAnswer::rank);
    if (named == overview.ranks.end()) {
      return absl::NotFoundError(
          StrCat(PrintableUtf8(source.path), ": no rank ", *rank, "; ranks in it: ", RankList(overview.ranks)));
    }
    chosen = &*named;
  }
  absl::StatusOr<Report> report = absl::NotFoundError("");
  if (chosen != nullptr) {
    report = ReportOfRank(*chosen, overview);
  } else if (!source.profiles.empty()) {
    report = ReportOfProfile(source.profiles[0]);
  } else {
    return absl::DataLossError(overview.faults.empty() ? StrCat(PrintableUtf8(source.path), ": no summary in it")
                                                       : overview.faults[0]);
  }
  if (report.ok()) Finish(source, std::move(overview), &*report);
  return report;
}

absl::StatusOr<Report> ReportOfText(const std::string& summary, const ReportSource& source,
                                    std::optional<int64_t> rank) {
  const absl::StatusOr<Json> json = ParseBoundedJson(summary, source.path);
  if (!json.ok()) return json.status();
  Overview overview;
  absl::StatusOr<std::vector<RankAnswer>> ranks = ReadRanks(*json, source.path);
  if (!ranks.ok()) return ranks.status();
  AddRanks(*std::move(ranks), &overview.ranks);
  Report report;
  if (rank.has_value()) {
    absl::StatusOr<Report> of_rank = ReportOfSection(*json, source.path, *rank);
    if (!of_rank.ok()) return of_rank.status();
    report = *std::move(of_rank);
  } else if (const absl::Status status = ReadAnswers(*json, source.path, &report); !status.ok()) {
    return status;
  }
  Finish(source, std::move(overview), &report);
  return report;
}

}  // namespace tbprof
