// SPDX-License-Identifier: Apache-2.0
//
// Writes every field of docs/gate.schema.json in each comparison; null: unknown.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "launcher/base/text.h"
#include "launcher/base/version.h"
#include "launcher/gate/gate_output.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

using Json = nlohmann::ordered_json;

// Limits for lists that a summary can make long; the `..._left_out` fields count the rows beyond them.
constexpr size_t kMostRuns = 1000, kMostBlame = 1000, kMostQuantities = 1000, kMostTexts = 1000;

Json OrNull(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }
Json OrNull(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
template <typename Value>
Json OrNull(const std::optional<Value>& value) {
  if constexpr (std::is_same_v<Value, double>) {
    return value.has_value() ? OrNull(*value) : Json(nullptr);
  } else {
    return value.has_value() ? Json(*value) : Json(nullptr);
  }
}

std::string_view UnitName(Unit unit) { return unit == Unit::kSeconds ? "s" : unit == Unit::kBytes ? "bytes" : "count"; }

size_t LeftOut(size_t size, size_t most) { return size > most ? size - most : 0; }

// `is_whole`: the run stands for one step, which it has not.
Json RunJson(const RunNumbers& run, bool is_whole) {
  const RunIdentity& identity = run.identity;
  return {{"path", run.path},
          {"start_unix_ns", run.start_unix_ns > 0 ? Json(run.start_unix_ns) : Json(nullptr)},
          {"command", OrNull(identity.command)},
          {"window", OrNull(identity.window)},
          {"host", OrNull(identity.host)},
          {"cpu_model", OrNull(identity.cpu_model)},
          {"cpus", identity.cpus > 0 ? Json(identity.cpus) : Json(nullptr)},
          {"devices", identity.devices},
          {"python", OrNull(identity.python)},
          {"tbprof_version", OrNull(identity.tbprof_version)},
          {"steps_source", OrNull(identity.steps_source)},
          {"world_size", OrNull(identity.world_size)},
          {"unfit", OrNull(run.unfit)},
          {"no_times", OrNull(run.no_times)},
          {"steps", run.steps > 0 && !is_whole ? Json(run.steps) : Json(nullptr)},
          {"median_step_s", run.median_step_s > 0 && !is_whole ? OrNull(run.median_step_s) : Json(nullptr)},
          {"memory_peak_bytes", OrNull(run.memory_peak_bytes)},
          {"wall_s", OrNull(run.wall_s)}};
}

Json SideJson(const Side& side, bool are_whole) {
  Json runs = Json::array();
  for (size_t i = 0; i < std::min(side.runs.size(), kMostRuns); ++i) runs.push_back(RunJson(side.runs[i], are_whole));
  return {{"run_count", side.runs.size()},
          {"runs", std::move(runs)},
          {"runs_left_out", LeftOut(side.runs.size(), kMostRuns)}};
}

Json QuantityJson(const QuantityResult& quantity) {
  return {{"name", quantity.name},
          {"unit", UnitName(quantity.unit)},
          {"exact", quantity.exact},
          {"base", OrNull(quantity.base)},
          {"new", OrNull(quantity.now)},
          {"base_runs", quantity.base_runs},
          {"new_runs", quantity.now_runs},
          {"change", OrNull(quantity.change)},
          {"low", OrNull(quantity.low)},
          {"high", OrNull(quantity.high)},
          {"answer", AnswerName(quantity.answer)},
          {"reason", OrNull(quantity.reason)},
          {"more_runs", OrNull(quantity.more_runs)}};
}

Json BlameJson(const BlameRow& row) {
  return {{"kind", AmountKindName(row.kind)},
          {"name", row.name},
          {"unit", UnitName(UnitOf(row.kind))},
          {"base", row.base_listed ? OrNull(row.base) : Json(nullptr)},
          {"new", row.now_listed ? OrNull(row.now) : Json(nullptr)},
          {"share", OrNull(row.share)},
          {"significant", row.significant}};
}

template <typename Row, typename Make>
Json ArrayOf(const std::vector<Row>& rows, size_t most, Make make) {
  Json out = Json::array();
  for (size_t i = 0; i < std::min(rows.size(), most); ++i) out.push_back(make(rows[i]));
  return out;
}

}  // namespace

std::string ComparisonAsJson(const Comparison& comparison) {
  Json out = {{"gate_schema_version", kGateSchemaVersion},
              {"tbprof_version", Version()},
              {"answer", AnswerName(comparison.answer)},
              {"text", AnswerLine(comparison)},
              {"reason", OrNull(comparison.reason)},
              {"next", OrNull(NextLine(comparison))},
              {"margin", OrNull(comparison.margin)},
              {"confidence", OrNull(comparison.confidence)},
              {"base", SideJson(comparison.base, comparison.whole_runs)},
              {"new", SideJson(comparison.now, comparison.whole_runs)},
              {"one_process", comparison.one_process}};
  out["quantities"] = ArrayOf(comparison.quantities, kMostQuantities, QuantityJson);
  out["quantities_left_out"] = LeftOut(comparison.quantities.size(), kMostQuantities);
  out["difference_s"] = OrNull(comparison.difference_s);
  out["unexplained_s"] = OrNull(comparison.unexplained_s);
  out["blame"] = ArrayOf(comparison.blame, kMostBlame, BlameJson);
  out["blame_left_out"] = LeftOut(comparison.blame.size(), kMostBlame);
  out["shares"] = ArrayOf(comparison.shares, kMostBlame, [](const ShareRow& row) {
    return Json{
        {"kind", AmountKindName(row.kind)}, {"name", row.name}, {"base", OrNull(row.base)}, {"new", OrNull(row.now)}};
  });
  out["shares_left_out"] = LeftOut(comparison.shares.size(), kMostBlame);
  out["waits_for"] = comparison.waits_for_rank.has_value() ? Json{{"rank", *comparison.waits_for_rank},
                                                                  {"text", OrNull(PrintableUtf8(comparison.waits_for))}}
                                                           : Json(nullptr);
  out["gate"] = comparison.gate.has_value() ? Json(GateStateName(*comparison.gate)) : Json(nullptr);
  out["rules"] = ArrayOf(comparison.rules, kMostTexts, [](const RuleResult& rule) {
    return Json{{"rule", rule.rule}, {"state", RuleStateName(rule.state)}, {"text", OrNull(rule.text)}};
  });
  out["warnings"] = ArrayOf(comparison.warnings, kMostTexts, [](const std::string& text) { return Json(text); });
  return out.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tbprof
