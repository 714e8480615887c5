// SPDX-License-Identifier: Apache-2.0
#include "launcher/capture/fetched_summary.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "launcher/base/text.h"
#include "launcher/report/report_output.h"
#include "launcher/report/report_reader.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

using Json = nlohmann::ordered_json;

// Counts what a text has, without keeping it: objects of nlohmann's ordered JSON find a key by a search from its first.
class SizeCheck : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return AddValue(); }
  bool boolean(bool) override { return AddValue(); }
  bool number_integer(number_integer_t) override { return AddValue(); }
  bool number_unsigned(number_unsigned_t) override { return AddValue(); }
  bool number_float(number_float_t, const string_t&) override { return AddValue(); }
  bool string(string_t&) override { return AddValue(); }
  bool binary(binary_t&) override { return AddValue(); }
  bool start_object(std::size_t) override {
    keys_.push_back(0);
    return AddValue();
  }
  bool key(string_t&) override { return ++keys_.back() <= kMostKeys; }
  bool end_object() override {
    keys_.pop_back();
    return true;
  }
  bool start_array(std::size_t) override { return AddValue(); }
  bool end_array() override { return true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  static constexpr size_t kMostKeys = 1000, kMostValues = 4'000'000;
  bool AddValue() { return ++values_ <= kMostValues && keys_.size() < kMostKeys; }

  std::vector<size_t> keys_;  // of each open object
  size_t values_ = 0;
};

// What the launcher has found when it read its own copy of the file back; null if this file is another one.
Json VerifiedOf(const Json& files, std::string_view name, uint64_t bytes) {
  constexpr size_t kMostFiles = 10'000;
  if (!files.is_array() || files.size() > kMostFiles) return nullptr;
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
  SizeCheck size;
  if (!nlohmann::json::sax_parse(text, &size)) return absl::DataLossError("it is no summary, or has too many values");
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::DataLossError("no JSON object");
  const Json given = json.value("files", Json());
  Json files = Json::array();
  for (const PublishedFile& file : place.files) {
    const std::string_view name = BaseName(file.path);
    if (!name.starts_with(StrCat(place.stem, "."))) continue;
    files.push_back(
        {{"path", ValidUtf8(file.path)}, {"bytes", file.bytes}, {"verified", VerifiedOf(given, name, file.bytes)}});
  }
  json["run"] = ValidUtf8(place.run);
  json["logdir"] = ValidUtf8(place.logdir);
  json["files"] = std::move(files);
  FetchedSummary out;
  out.json = json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  out.lines = LeadLines(*report);
  std::string evidence;
  for (const std::string& fact : report->verdict.facts) StrAppend(&evidence, evidence.empty() ? "" : "; ", fact);
  if (!evidence.empty()) out.lines.push_back(StrCat("evidence: ", evidence));
  return out;
}

}  // namespace tbprof
