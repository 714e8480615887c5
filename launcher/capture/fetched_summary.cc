// SPDX-License-Identifier: Apache-2.0
#include "launcher/capture/fetched_summary.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "launcher/base/text.h"
#include "launcher/report/report_output.h"
#include "launcher/report/report_reader.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

using Json = nlohmann::ordered_json;

// What the launcher has found when it read its own copy of the file back; null if this file is another one.
Json VerifiedOf(const Json& files, std::string_view name, uint64_t bytes) {
  if (!files.is_array()) return nullptr;
  for (const Json& file : files) {
    if (!file.is_object() || !file.contains("path") || !file["path"].is_string()) continue;
    if (BaseName(file["path"].get_ref<const std::string&>()) != name || file.value("bytes", Json()) != bytes) continue;
    return file.value("verified", Json());
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<FetchedSummary> RewriteSummary(const std::string& text, const SummaryPlace& place) {
  ReportSource source;
  source.kind = SourceKind::kSummary;
  source.path = source.run = place.run;
  // Also limits the depth, which the recursive functions below need.
  const absl::StatusOr<Report> report = ReportOfText(text, source, std::nullopt);
  if (!report.ok()) return report.status();
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::DataLossError("no JSON object");
  Json files = Json::array();
  for (const PublishedFile& file : place.files) {
    const std::string_view name = BaseName(file.path);
    if (!name.starts_with(StrCat(place.stem, "."))) continue;
    files.push_back({{"path", ValidUtf8(file.path)},
                     {"bytes", file.bytes},
                     {"verified", VerifiedOf(json.value("files", Json()), name, file.bytes)}});
  }
  json["run"] = ValidUtf8(place.run);
  json["logdir"] = ValidUtf8(place.logdir);
  json["files"] = std::move(files);
  FetchedSummary out;
  out.json = json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  out.lines = LeadLines(*report);
  // As in the end block of the launcher.
  std::string evidence;
  for (const std::string& fact : report->verdict.facts) StrAppend(&evidence, evidence.empty() ? "" : "; ", fact);
  if (!evidence.empty()) out.lines.push_back(StrCat("evidence: ", evidence));
  return out;
}

}  // namespace tbprof
