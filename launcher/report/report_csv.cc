// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "launcher/base/text.h"
#include "launcher/report/report_output.h"

namespace tbprof {
namespace {

struct CsvRow {
  std::string_view section;
  std::string process = {}, name = {}, file = {};
  std::optional<int64_t> line = {};
  std::optional<uint64_t> calls = {};
  std::optional<double> total_s = {}, share = {}, bytes = {};
  std::optional<int64_t> rank = {};  // std::nullopt: the report's rank
};

// RFC 4180: a field with a comma, quote or line break is quoted.
std::string Quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + "\"";
}

class Writer {
 public:
  explicit Writer(const Report& report) : report_(report) {}

  void Add(const CsvRow& row) {
    const std::optional<int64_t> rank = row.rank.has_value() ? row.rank : report_.rank;
    StrAppend(&text_, row.section, ",", rank.has_value() ? std::to_string(*rank) : "", ",", Quoted(row.process), ",",
              Quoted(row.name), ",", Quoted(row.file), ",", row.line.has_value() ? std::to_string(*row.line) : "", ",",
              row.calls.has_value() ? std::to_string(*row.calls) : "", ",", Number(row.total_s), ",", Number(row.share),
              ",", Number(row.bytes), "\r\n");
  }

  std::string Take() { return std::move(text_); }

 private:
  static std::string Number(std::optional<double> value) {
    return value.has_value() ? absl::StrFormat("%.9g", *value) : "";
  }

  const Report& report_;
  std::string text_ = "section,rank,process,name,file,line,calls,total_s,share,bytes\r\n";
};

void AddVerdict(const Report& report, Writer* out) {
  const VerdictAnswer& verdict = report.verdict;
  if (verdict.known) {
    const VerdictPlace* const first = verdict.where.empty() ? nullptr : &verdict.where[0];
    out->Add({.section = "verdict",
              .process = report.process,
              .name = verdict.text,
              .file = first != nullptr ? first->file : "",
              .line = first != nullptr ? first->line : std::nullopt,
              .share = verdict.share});
  }
  for (const VerdictPlace& place : verdict.where) {
    out->Add({.section = place.role == "waited_for" ? "waited_for" : "spends",
              .process = place.pid.has_value() ? std::to_string(*place.pid) : "",
              .name = StrCat(place.function, place.doing.empty() ? "" : StrCat(" in ", place.doing)),
              .file = place.file,
              .line = place.line,
              .share = place.share});
  }
  for (const VerdictPart& part : verdict.parts) {
    out->Add({.section = "split",
              .process = report.process,
              .name = part.name,
              .total_s = part.seconds,
              .share = part.share});
  }
  if (report.steps.known) {
    out->Add({.section = "steps",
              .process = report.process,
              .name = report.steps.searched_from_s.has_value() ? "median of a part of the time" : "median",
              .calls = report.steps.count,
              .total_s = report.steps.median_s});
  }
  if (const ChangeAnswer& change = report.steps.change; !change.text.empty()) {
    out->Add({.section = "steps",
              .process = report.process,
              .name = "before the change",
              .calls = change.steps_before,
              .total_s = change.before_s});
    out->Add({.section = "steps",
              .process = report.process,
              .name = "after the change",
              .file = change.file,
              .line = change.line,
              .calls = change.steps_after,
              .total_s = change.after_s});
  }
}

void AddLines(std::string_view section, const std::string& process, const std::vector<PythonRow>& rows, Writer* out) {
  for (const PythonRow& row : rows) {
    out->Add({.section = section,
              .process = process,
              .name = row.function,
              .file = row.file,
              .line = row.line,
              .calls = row.samples,
              .total_s = row.self_s,
              .share = row.share});
  }
}

void AddThreads(const Report& report, Writer* out) {
  for (const PythonThreads& threads : report.python) {
    AddLines("python", ThreadsText(threads), threads.rows, out);
  }
  for (const NativeThreads& threads : report.native) {
    for (const NativeRow& row : threads.rows) {
      out->Add({.section = "native",
                .process = ThreadsText(threads),
                .name = row.function,
                .file = row.module,
                .calls = row.samples,
                .total_s = row.self_s,
                .share = row.share});
    }
  }
}

void AddMemory(const Report& report, Writer* out) {
  for (const std::string& text : report.memory.text) {
    out->Add({.section = "memory", .process = report.process, .name = text});
  }
  for (const NamedBytes& total : report.memory.totals) {
    out->Add({.section = "memory", .process = report.process, .name = total.name, .bytes = total.bytes});
  }
  for (const ProcessMemory& row : report.memory.processes) {
    const std::string process = StrCat(row.process, " (", row.pid, ")");
    out->Add({.section = "memory",
              .process = process,
              .name = "allocated",
              .calls = row.allocations,
              .bytes = row.allocated_bytes});
    if (row.live_bytes) out->Add({.section = "memory", .process = process, .name = "live", .bytes = row.live_bytes});
    if (row.peak_bytes) out->Add({.section = "memory", .process = process, .name = "peak", .bytes = row.peak_bytes});
  }
  for (const AllocationRow& row : report.memory.allocations) {
    out->Add({.section = "allocations",
              .process = report.process,
              .name = row.place,
              .calls = row.samples,
              .bytes = row.bytes});
  }
}

}  // namespace

std::string ReportAsCsv(const Report& report) {
  Writer out(report);
  AddVerdict(report, &out);
  AddThreads(report, &out);
  for (const WaitRow& row : report.waits) {
    out.Add({.section = row.idle_pool.empty() ? "waits" : "idle_pools",
             .process = report.process,
             .name = row.python.empty() ? row.operation : StrCat(row.operation, " in ", row.python),
             .file = row.call_site,
             .calls = row.calls,
             .total_s = row.total_s});
  }
  for (const GilAnswer& gil : report.gil) {
    AddLines("gil", StrCat(gil.process, " (", gil.pid, ")"), gil.rows, &out);
  }
  for (const GpuAnswer& gpu : report.gpus) {
    const std::string device = StrCat("GPU ", gpu.number);
    out.Add({.section = "gpus",
             .process = device,
             .name = gpu.name,
             .calls = gpu.kernels,
             .total_s = gpu.busy_s,
             .share = gpu.busy_share,
             .bytes = static_cast<double>(gpu.peak_bytes)});
    for (const KernelRow& row : gpu.top_kernels) {
      out.Add({.section = "kernels",
               .process = device,
               .name = row.name,
               .calls = row.calls,
               .total_s = row.total_s,
               .share = gpu.kernel_s > 0 ? std::optional(row.total_s / gpu.kernel_s) : std::nullopt});
    }
    for (const KernelRow& row : gpu.copies) {
      const std::optional<double> bytes =
          row.bytes.has_value() ? std::optional(static_cast<double>(*row.bytes)) : std::nullopt;
      out.Add({.section = "copies",
               .process = device,
               .name = row.name,
               .calls = row.calls,
               .total_s = row.total_s,
               .bytes = bytes});
    }
  }
  AddMemory(report, &out);
  for (const RankAnswer& rank : report.ranks) {
    out.Add({.section = "ranks",
             .process = rank.host,
             .name = rank.verdict,
             .calls = rank.steps,
             .total_s = rank.median_s,
             .rank = rank.rank});
  }
  if (report.profile.has_value()) {
    for (const PlaneAnswer& plane : report.profile->planes) {
      out.Add({.section = "planes", .process = report.host, .name = plane.name, .calls = plane.events});
      for (const KernelRow& row : plane.top) {
        out.Add(
            {.section = "events", .process = plane.name, .name = row.name, .calls = row.calls, .total_s = row.total_s});
      }
    }
  }
  for (const auto* texts : {&report.missing, &report.errors, &report.warnings, &report.not_recorded}) {
    for (const std::string& text : *texts) out.Add({.section = "warnings", .process = report.process, .name = text});
  }
  return out.Take();
}

}  // namespace tbprof
