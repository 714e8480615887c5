// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "launcher/base/text.h"
#include "launcher/base/wrapped_lines.h"
#include "launcher/report/report_output.h"
#include "writer/base/summary_format.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

constexpr size_t kRows = 6;
constexpr size_t kMostGroups = 3;
constexpr size_t kMostPlanes = 4;
constexpr size_t kMostNotes = 6;
// The lines `next:` and `blocker:` may be long, with the essential part at their end.
constexpr size_t kMostLinesOfLead = 2;

struct Table {
  std::vector<std::string> lines;  // the first is its heading
  size_t left_out = 0;
};

std::string Row(const std::string& numbers, std::string_view name) {
  const size_t used = Utf8Columns(numbers);
  return StrCat(numbers, FitColumns(name, kReportColumns > used + 1 ? kReportColumns - used : 1, /*keep_end=*/false));
}

void AddWrapped(std::string_view text, size_t most, std::vector<std::string>* lines) {
  for (std::string& line : WrappedLines(text, kReportColumns, most)) lines->push_back(std::move(line));
}

void AddLine(std::string_view text, Table* table) { table->lines.push_back(FitColumns(text, kReportColumns)); }

// The heading is wrapped, because it must not be truncated.
void AddHeading(std::string_view text, Table* table) { AddWrapped(text, 2, &table->lines); }

Table LeadTable(const Report& report) {
  Table table;
  for (const std::string& line : LeadLines(report)) AddWrapped(line, kMostLinesOfLead, &table.lines);
  for (const std::string& fact : report.verdict.facts)
    AddWrapped(StrCat("evidence: ", fact), kMostLinesOfLead, &table.lines);
  AddWrapped(WindowLine(report), kMostLinesOfLead, &table.lines);
  AddLine(
      StrCat(SourceKindName(report.kind), ": ", report.path,
             report.file == report.path || report.file.empty() ? "" : StrCat(", details of ", BaseName(report.file))),
      &table);
  for (const std::string& text : report.missing) AddWrapped(text, kMostLinesOfLead, &table.lines);
  for (const std::string& text : report.errors) AddWrapped(StrCat("error: ", text), kMostLinesOfLead, &table.lines);
  if (report.complete == false) AddLine("incomplete: recovered, or records are missing", &table);
  return table;
}

Table PythonTable(const Report& report) {
  Table table;
  for (size_t i = 0; i < std::min(kMostGroups, report.python.size()); ++i) {
    const PythonThreads& threads = report.python[i];
    if (threads.rows.empty() || threads.idle) continue;
    const bool first = table.lines.empty();
    AddHeading(
        StrCat("Python lines (", RankPrefix(report), ThreadsText(threads), ": ", HumanCount(threads.samples),
               " samples, on a CPU for ", Percent(threads.seconds > 0 ? threads.on_cpu_s / threads.seconds : 0), ")"),
        &table);
    // The verdict is about the first group.
    const size_t most = first ? kRows : 2;
    if (first) AddLine("      self      time    on CPU  line", &table);
    for (size_t row = 0; row < threads.rows.size(); ++row) {
      if (row >= most) {
        table.left_out += threads.rows.size() - row;
        break;
      }
      const PythonRow& line = threads.rows[row];
      table.lines.push_back(Row(absl::StrFormat("%10s%10s%10s  ", Percent(line.share), HumanSeconds(line.self_s),
                                                HumanSeconds(line.on_cpu_s)),
                                PythonPlace(line)));
    }
  }
  if (const std::string idle = IdleThreadsText(report); !idle.empty()) {
    AddLine(StrCat("      ", RankPrefix(report), idle), &table);
  }
  return table;
}

Table NativeTable(const Report& report) {
  Table table;
  for (size_t i = 0; i < std::min<size_t>(2, report.native.size()); ++i) {
    const NativeThreads& threads = report.native[i];
    if (threads.rows.empty()) continue;
    const bool first = table.lines.empty();
    AddHeading(StrCat("native functions (", RankPrefix(report), ThreadsText(threads), ": ",
                      HumanSeconds(threads.seconds), " of CPU time)"),
               &table);
    const size_t most = first ? kRows - 1 : 2;
    size_t shown = 0;
    for (const NativeRow& function : threads.rows) {
      if (function.self_s <= 0) continue;
      if (++shown > most) {
        ++table.left_out;
        continue;
      }
      table.lines.push_back(Row(absl::StrFormat("%10s%10s  ", Percent(function.share), HumanSeconds(function.self_s)),
                                NativeName(function)));
    }
    std::string callers;
    for (const NativeRow& function : threads.callers) {
      StrAppend(&callers, callers.empty() ? "" : ", ", Percent(function.share), " ", NativeName(function));
    }
    // With Python, most of these are the interpreter's.
    const bool has_python =
        std::ranges::find(report.python, threads.process, &PythonThreads::process) != report.python.end();
    if (first && !has_python && !callers.empty()) AddLine(StrCat("      with what they call: ", callers), &table);
  }
  return table;
}

Table WaitTable(const Report& report) {
  Table table;
  size_t shown = 0;
  for (const WaitRow& wait : report.waits) {
    if (!wait.idle_pool.empty()) continue;
    if (table.lines.empty()) {
      AddHeading(StrCat("waits (", RankPrefix(report), "all threads of ",
                        report.process.empty() ? "the program" : report.process, ", whole profile)"),
                 &table);
      AddLine("     total   longest     calls  where", &table);
    }
    if (++shown > kRows) {
      ++table.left_out;
      continue;
    }
    table.lines.push_back(Row(absl::StrFormat("%10s%10s%10s  ", HumanSeconds(wait.total_s),
                                              HumanSeconds(wait.longest_s), HumanCount(wait.calls)),
                              WaitPlace(wait)));
  }
  if (const std::string idle = IdlePoolsText(report); !idle.empty()) {
    AddLine(StrCat(table.lines.empty() ? "waits: " : "      ", RankPrefix(report), "idle pools: ", idle,
                   " (threads that wait for work)"),
            &table);
  }
  return table;
}

Table GilTable(const Report& report) {
  Table table;
  size_t shown = 0;
  for (const GilAnswer& gil : report.gil) {
    if (!gil.is_shared() || shown == 2) continue;
    AddHeading(StrCat("Python lines that held the GIL (", RankPrefix(report), gil.process, " ", gil.pid, ", ",
                      gil.thread_count, " threads, whole profile: ", HumanCount(gil.samples), " samples)"),
               &table);
    const size_t most = shown++ == 0 ? kRows - 1 : 2;
    for (size_t row = 0; row < gil.rows.size(); ++row) {
      if (row >= most) {
        table.left_out += gil.rows.size() - row;
        break;
      }
      const PythonRow& line = gil.rows[row];
      table.lines.push_back(
          Row(absl::StrFormat("%10s%10s  ", Percent(line.share), HumanSeconds(line.self_s)), PythonPlace(line)));
    }
  }
  return table;
}

Table GpuTable(const Report& report) {
  Table table;
  for (const GpuAnswer& gpu : report.gpus) {
    std::string text = StrCat(RankPrefix(report), "GPU ", gpu.number, gpu.name.empty() ? "" : " ", gpu.name, ": ",
                              Percent(gpu.busy_share), " busy");
    if (gpu.busy_share_in_steps.has_value()) StrAppend(&text, " (", Percent(*gpu.busy_share_in_steps), " in steps)");
    StrAppend(&text, ", ", HumanCount(gpu.kernels), " kernels for ", HumanSeconds(gpu.kernel_s));
    if (gpu.collective_s > 0) StrAppend(&text, " (NCCL ", HumanSeconds(gpu.collective_s), ")");
    AddHeading(StrCat(text, "; whole profile"), &table);
    if (report.gpus.size() > 2) continue;
    const size_t most = report.gpus.size() > 1 ? 2 : kRows - 1;
    for (size_t i = 0; i < gpu.top_kernels.size(); ++i) {
      if (i >= most) {
        table.left_out += gpu.top_kernels.size() - i;
        break;
      }
      const KernelRow& kernel = gpu.top_kernels[i];
      table.lines.push_back(
          Row(absl::StrFormat("%10s%10s  ", HumanSeconds(kernel.total_s), HumanCount(kernel.calls)), kernel.name));
    }
    for (size_t i = 0; i < std::min<size_t>(2, gpu.copies.size()); ++i) {
      const KernelRow& copy = gpu.copies[i];
      table.lines.push_back(
          Row(absl::StrFormat("%10s%10s  ", HumanSeconds(copy.total_s), HumanCount(copy.calls)),
              StrCat("copy ", copy.name, ", ", AsHumanBytes(static_cast<double>(copy.bytes.value_or(0))))));
    }
  }
  return table;
}

Table MemoryTable(const Report& report) {
  Table table;
  const MemoryAnswer& memory = report.memory;
  for (const std::string& text : memory.text) AddWrapped(StrCat("memory: ", text), kMostLinesOfLead, &table.lines);
  std::string totals;
  for (const NamedBytes& total : memory.totals) {
    StrAppend(&totals, totals.empty() ? "" : ", ", total.name, " ", AsHumanBytes(total.bytes));
  }
  if (!totals.empty()) AddHeading(StrCat("memory (", RankPrefix(report), "whole profile): ", totals), &table);
  for (size_t i = 0; i < std::min<size_t>(2, memory.processes.size()); ++i) {
    const ProcessMemory& process = memory.processes[i];
    std::string text = StrCat("heap (", RankPrefix(report), process.process, " ", process.pid,
                              "): ", AsHumanBytes(process.allocated_bytes), " allocated in all");
    if (process.live_bytes.has_value()) StrAppend(&text, ", ", AsHumanBytes(*process.live_bytes), " live at the end");
    if (process.peak_bytes.has_value()) StrAppend(&text, ", peak ", AsHumanBytes(*process.peak_bytes));
    AddLine(text, &table);
  }
  if (memory.processes.size() > 2) table.left_out += memory.processes.size() - 2;
  for (size_t i = 0; i < memory.allocations.size(); ++i) {
    if (i == 0) AddLine("  estimate  allocated at (all processes, whether released or not)", &table);
    if (i >= kRows - 1) {
      table.left_out += memory.allocations.size() - i;
      break;
    }
    table.lines.push_back(
        Row(absl::StrFormat("%10s  ", AsHumanBytes(memory.allocations[i].bytes)), memory.allocations[i].place));
  }
  return table;
}

Table RankTable(const Report& report) {
  Table table;
  for (const RankAnswer& rank : report.ranks) {
    if (table.lines.empty()) AddLine("ranks (the details above: `--rank=N` for another one)", &table);
    if (table.lines.size() > 2 * kRows) {
      ++table.left_out;
    } else {
      AddLine(StrCat("      ", RankLine(rank)), &table);
    }
  }
  return table;
}

Table ProfileTable(const Report& report) {
  Table table;
  if (!report.profile.has_value()) return table;
  const ProfileAnswer& profile = *report.profile;
  AddLine(StrCat(profile.plane_count, " planes, ", profile.lines, " lines, ", profile.events,
                 " events (times: whole profile, nested events counted in both)"),
          &table);
  size_t shown = 0;
  for (const PlaneAnswer& plane : profile.planes) {
    if (++shown > 2 * kMostPlanes) {
      ++table.left_out;
      continue;
    }
    AddLine(StrCat(plane.name, ": ", plane.lines, " lines, ", plane.events, " events"), &table);
    for (size_t i = 0; i < plane.top.size(); ++i) {
      if (i >= kRows - 1 || shown > kMostPlanes) {
        table.left_out += plane.top.size() - i;
        break;
      }
      table.lines.push_back(
          Row(absl::StrFormat("%10s%10s  ", HumanSeconds(plane.top[i].total_s), HumanCount(plane.top[i].calls)),
              plane.top[i].name));
    }
  }
  return table;
}

Table NoteTable(const Report& report) {
  Table table;
  std::vector<std::pair<std::string_view, std::string>> notes;
  for (const std::string& text : report.warnings) notes.emplace_back("warning: ", text);
  for (const std::string& text : report.not_recorded) notes.emplace_back("", text);
  for (const auto& [level, text] : notes) {
    if (table.lines.size() >= kMostNotes) {
      ++table.left_out;
    } else {
      AddWrapped(StrCat(level, text), 2, &table.lines);
    }
  }
  return table;
}

}  // namespace

std::string ReportAsText(const Report& report) {
  std::vector<Table> tables = {LeadTable(report),   ProfileTable(report), PythonTable(report), GilTable(report),
                               NativeTable(report), WaitTable(report),    GpuTable(report),    MemoryTable(report),
                               RankTable(report),   NoteTable(report)};
  const auto lines = [&] {
    size_t count = 1;  // the last line
    for (const Table& table : tables) count += table.lines.size();
    return count;
  };
  // The longest table loses rows first; the lead stays.
  while (lines() > kReportLines) {
    const auto longest = std::max_element(tables.begin() + 1, tables.end(), [](const Table& a, const Table& b) {
      return a.lines.size() < b.lines.size();
    });
    if (longest->lines.empty()) break;
    longest->lines.pop_back();
    ++longest->left_out;
  }
  std::string text;
  size_t left_out = 0, count = 1;
  for (const Table& table : tables) {
    for (const std::string& line : table.lines) {
      if (++count <= kReportLines) StrAppend(&text, line, "\n");
    }
    left_out += table.left_out;
  }
  if (left_out > 0) StrAppend(&text, left_out, " more rows: --json, --csv\n");
  return text;
}

}  // namespace tbprof
