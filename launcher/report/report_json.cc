// SPDX-License-Identifier: Apache-2.0
//
// Writes every field of docs/report.schema.json in each report; null: unknown.
#include <nlohmann/json.hpp>

#include "launcher/base/text.h"
#include "launcher/report/report_output.h"

namespace tbprof {
namespace {

using OrderedJson = nlohmann::ordered_json;

template <typename Value>
OrderedJson OrNull(const std::optional<Value>& value) {
  return value.has_value() ? OrderedJson(*value) : OrderedJson(nullptr);
}
OrderedJson OrNull(const std::string& text) { return text.empty() ? OrderedJson(nullptr) : OrderedJson(text); }

OrderedJson PlaceJson(const VerdictPlace& place) {
  return {{"role", place.role},           {"file", OrNull(place.file)},
          {"line", OrNull(place.line)},   {"function", OrNull(place.function)},
          {"doing", OrNull(place.doing)}, {"share", OrNull(place.share)},
          {"pid", OrNull(place.pid)},     {"thread", OrNull(place.thread)},
          {"callers", place.callers}};
}

OrderedJson VerdictJson(const Report& report) {
  const VerdictAnswer& verdict = report.verdict;
  if (!verdict.known) return nullptr;
  OrderedJson where = OrderedJson::array(), parts = OrderedJson::array();
  for (const VerdictPlace& place : verdict.where) where.push_back(PlaceJson(place));
  for (const VerdictPart& part : verdict.parts) {
    parts.push_back({{"part", part.name}, {"title", part.title}, {"share", part.share}, {"s", OrNull(part.seconds)}});
  }
  std::vector<std::string> facts = verdict.facts;
  for (const std::string& text : verdict.hangs) facts.push_back(StrCat("hangs: ", text));
  return {{"text", verdict.text},
          {"cause", OrNull(verdict.cause)},
          {"problem", OrNull(verdict.problem)},
          {"share", OrNull(verdict.share)},
          {"blocker", verdict.blocker},
          {"next", OrNull(verdict.next)},
          {"unknown_because", OrNull(verdict.unknown_because)},
          {"where", std::move(where)},
          {"facts", std::move(facts)},
          {"basis", OrNull(verdict.basis)},
          {"split", std::move(parts)},
          {"limits", verdict.limits}};
}

OrderedJson ChangeJson(const ChangeAnswer& change) {
  if (change.text.empty()) return nullptr;
  return {{"text", change.text},
          {"kind", change.kind},
          {"slower", change.slower},
          {"at_s", change.at_s},
          {"until_s", OrNull(change.until_s)},
          {"step", change.step},
          {"before_s", change.before_s},
          {"after_s", change.after_s},
          {"steps_before", change.steps_before},
          {"steps_after", change.steps_after},
          {"part", OrNull(change.part)},
          {"part_s", OrNull(change.part_s)},
          {"file", OrNull(change.file)},
          {"line", OrNull(change.line)},
          {"function", OrNull(change.function)},
          {"line_s", OrNull(change.line_s)},
          {"line_part", OrNull(change.line_part)},
          {"line_part_s", OrNull(change.line_part_s)}};
}

OrderedJson StepsJson(const StepsAnswer& steps) {
  return {{"known", steps.known},
          {"unknown_because", OrNull(steps.unknown_because)},
          {"source", OrNull(steps.source)},
          {"count", OrNull(steps.count)},
          {"irregular", OrNull(steps.irregular)},
          {"irregular_s", OrNull(steps.irregular_s)},
          {"median_s", OrNull(steps.median_s)},
          {"mean_s", OrNull(steps.mean_s)},
          {"shortest_s", OrNull(steps.shortest_s)},
          {"longest_s", OrNull(steps.longest_s)},
          {"change", ChangeJson(steps.change)},
          {"confidence", OrNull(steps.confidence)},
          {"searched_from_s", OrNull(steps.searched_from_s)},
          {"searched_to_s", OrNull(steps.searched_to_s)},
          {"input_wait_share", OrNull(steps.input_wait_share)}};
}

std::string_view WindowName(RowsOf window) {
  switch (window) {
    case RowsOf::kProfile:
      return "profile";
    case RowsOf::kSteps:
      return "steps";
    case RowsOf::kIrregularSteps:
      return "irregular_steps";
  }
  return "profile";
}

template <typename Row>
OrderedJson ThreadsJson(const ThreadRows<Row>& threads) {
  return {{"process", threads.process},
          {"threads", threads.threads},
          {"main", threads.main},
          {"forked", threads.forked},
          {"only_wait", threads.idle},
          {"window", WindowName(threads.window)},
          {"thread_count", threads.thread_count},
          {"samples", threads.samples}};
}

OrderedJson PythonJson(const Report& report) {
  OrderedJson out = OrderedJson::array();
  for (const PythonThreads& threads : report.python) {
    OrderedJson group = ThreadsJson(threads), lines = OrderedJson::array();
    group["wall_s"] = threads.seconds;
    group["on_cpu_s"] = threads.on_cpu_s;
    for (const PythonRow& row : threads.rows) {
      lines.push_back({{"file", row.file},
                       {"line", OrNull(row.line)},
                       {"function", row.function},
                       {"samples", row.samples},
                       {"self_s", row.self_s},
                       {"on_cpu_s", row.on_cpu_s},
                       {"total_s", row.total_s},
                       {"share", row.share}});
    }
    group["lines"] = std::move(lines);
    out.push_back(std::move(group));
  }
  return out;
}

OrderedJson NativeJson(const Report& report) {
  OrderedJson out = OrderedJson::array();
  for (const NativeThreads& threads : report.native) {
    OrderedJson group = ThreadsJson(threads), functions = OrderedJson::array();
    group["cpu_s"] = threads.seconds;
    for (const NativeRow& row : threads.rows) {
      functions.push_back({{"function", row.function},
                           {"module", OrNull(row.module)},
                           {"samples", row.samples},
                           {"self_cpu_s", row.self_s},
                           {"total_cpu_s", row.total_s},
                           {"share", row.share}});
    }
    group["functions"] = std::move(functions);
    out.push_back(std::move(group));
  }
  return out;
}

OrderedJson KernelsJson(const std::vector<KernelRow>& rows) {
  OrderedJson out = OrderedJson::array();
  for (const KernelRow& row : rows) {
    out.push_back({{"name", row.name}, {"calls", row.calls}, {"total_s", row.total_s}, {"bytes", OrNull(row.bytes)}});
  }
  return out;
}

OrderedJson GpusJson(const Report& report) {
  OrderedJson out = OrderedJson::array();
  for (const GpuAnswer& gpu : report.gpus) {
    out.push_back({{"number", gpu.number},
                   {"name", OrNull(gpu.name)},
                   {"busy_s", gpu.busy_s},
                   {"busy_share", gpu.busy_share},
                   {"busy_share_in_steps", OrNull(gpu.busy_share_in_steps)},
                   {"kernels", gpu.kernels},
                   {"kernel_s", gpu.kernel_s},
                   {"collective_s", gpu.collective_s},
                   {"peak_bytes", gpu.peak_bytes},
                   {"top_kernels", KernelsJson(gpu.top_kernels)},
                   {"copies", KernelsJson(gpu.copies)}});
  }
  return out;
}

OrderedJson MemoryJson(const MemoryAnswer& memory) {
  OrderedJson totals = OrderedJson::array(), processes = OrderedJson::array(), allocations = OrderedJson::array();
  for (const NamedBytes& total : memory.totals) totals.push_back({{"name", total.name}, {"bytes", total.bytes}});
  for (const ProcessMemory& row : memory.processes) {
    processes.push_back({{"process", row.process},
                         {"pid", row.pid},
                         {"allocations", row.allocations},
                         {"allocated_bytes", row.allocated_bytes},
                         {"live_bytes", OrNull(row.live_bytes)},
                         {"peak_bytes", OrNull(row.peak_bytes)}});
  }
  for (const AllocationRow& row : memory.allocations) {
    allocations.push_back({{"place", row.place}, {"samples", row.samples}, {"bytes_estimate", row.bytes}});
  }
  return {{"text", memory.text},
          {"totals", std::move(totals)},
          {"processes", std::move(processes)},
          {"allocations", std::move(allocations)}};
}

OrderedJson RanksJson(const Report& report) {
  OrderedJson out = OrderedJson::array();
  for (const RankAnswer& rank : report.ranks) {
    out.push_back({{"rank", OrNull(rank.rank)},
                   {"host", OrNull(rank.host)},
                   {"state", OrNull(rank.state)},
                   {"end", OrNull(rank.end)},
                   {"verdict", OrNull(rank.verdict)},
                   {"steps", OrNull(rank.steps)},
                   {"median_s", OrNull(rank.median_s)},
                   {"searched_s", OrNull(rank.searched_s)},
                   {"wait_s", OrNull(rank.wait_s)},
                   {"summary", OrNull(rank.summary)}});
  }
  return out;
}

OrderedJson ProfileJson(const Report& report) {
  if (!report.profile.has_value()) return nullptr;
  OrderedJson planes = OrderedJson::array();
  for (const PlaneAnswer& plane : report.profile->planes) {
    planes.push_back({{"name", plane.name},
                      {"lines", plane.lines},
                      {"events", plane.events},
                      {"top_events", KernelsJson(plane.top)}});
  }
  return {{"plane_count", report.profile->plane_count},
          {"lines", report.profile->lines},
          {"events", report.profile->events},
          {"planes", std::move(planes)}};
}

OrderedJson WaitsJson(const Report& report) {
  OrderedJson waits = OrderedJson::array();
  for (const WaitRow& row : report.waits) {
    waits.push_back({{"operation", row.operation},
                     {"call_site", OrNull(row.call_site)},
                     {"python", OrNull(row.python)},
                     {"idle_pool", OrNull(row.idle_pool)},
                     {"calls", row.calls},
                     {"total_s", row.total_s},
                     {"longest_s", row.longest_s}});
  }
  return waits;
}

OrderedJson GilJson(const Report& report) {
  OrderedJson out = OrderedJson::array();
  for (const GilAnswer& gil : report.gil) {
    OrderedJson lines = OrderedJson::array();
    for (const PythonRow& row : gil.rows) {
      lines.push_back({{"file", row.file},
                       {"line", OrNull(row.line)},
                       {"function", row.function},
                       {"samples", row.samples},
                       {"held_s", row.self_s},
                       {"share", row.share}});
    }
    out.push_back({{"process", gil.process},
                   {"pid", gil.pid},
                   {"thread_count", gil.thread_count},
                   {"samples", gil.samples},
                   {"held_s", gil.held_s},
                   {"lines", std::move(lines)}});
  }
  return out;
}

}  // namespace

std::string ReportAsJson(const Report& report) {
  OrderedJson out = {
      {"report_schema_version", kReportSchemaVersion},
      {"source", {{"path", report.path}, {"kind", SourceKindName(report.kind)}, {"details_of", OrNull(report.file)}}},
      {"complete", OrNull(report.complete)},
      {"missing", report.missing},
      {"tbprof_version", OrNull(report.tbprof_version)},
      {"run", OrNull(report.run)},
      {"host", OrNull(report.host)},
      {"rank", OrNull(report.rank)},
      {"process", OrNull(report.process)},
      {"command", OrNull(report.command)},
      {"end", OrNull(report.end)},
      {"window", OrNull(report.window)},
      {"wall_s", OrNull(report.wall_s)},
      {"totals_wall_s", OrNull(report.totals_wall_s)}};
  out["verdict"] = VerdictJson(report);
  out["steps"] = StepsJson(report.steps);
  out["python"] = PythonJson(report);
  out["native"] = NativeJson(report);
  out["waits"] = WaitsJson(report);
  out["gil"] = GilJson(report);
  out["gpus"] = GpusJson(report);
  out["memory"] = MemoryJson(report.memory);
  out["ranks"] = RanksJson(report);
  out["profile"] = ProfileJson(report);
  out["errors"] = report.errors;
  out["warnings"] = report.warnings;
  out["not_recorded"] = report.not_recorded;
  out["notes"] = report.notes;
  return out.dump(2, ' ', /*ensure_ascii=*/false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace tbprof
