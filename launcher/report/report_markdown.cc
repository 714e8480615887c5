// SPDX-License-Identifier: Apache-2.0
//
// Compact Markdown within a number of tokens. A token counts as 3 bytes: no usual tokenizer makes more tokens of such
// text.
#include <algorithm>
#include <utility>

#include "launcher/base/text.h"
#include "launcher/report/markdown_page.h"
#include "launcher/report/report_output.h"
#include "writer/base/summary_format.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

constexpr size_t kBytesPerToken = 3;
constexpr size_t kMostRows = 30;
constexpr size_t kMostNameBytes = 200;

using Part = MarkdownPart;  // a part without a title is the lead, which is never cut

std::string Code(std::string_view name) { return MarkdownCode(name, kMostNameBytes); }

std::string Plain(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("\\`*[<|").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

std::string PlaceText(const VerdictPlace& place) {
  std::string text = place.file.empty()
                         ? Code(place.function)
                         : StrCat(Code(StrCat(place.file, place.line.has_value() ? StrCat(":", *place.line) : "")), " ",
                                  Code(place.function));
  if (place.share.has_value()) StrAppend(&text, " ", Percent(*place.share));
  StrAppend(&text, place.doing.empty() ? ", runs" : StrCat(", in ", Code(place.doing)));
  if (place.pid.has_value()) StrAppend(&text, ", process ", *place.pid);
  if (!place.thread.empty()) StrAppend(&text, ", thread ", Code(place.thread));
  for (const std::string& caller : place.callers) StrAppend(&text, ", from ", Code(caller));
  return text;
}

Part LeadPart(const Report& report) {
  Part part{100, "", StrCat("# tbprof report: ", Code(BaseName(report.path)), "\n"), {}};
  const std::vector<std::string> lead = LeadLines(report);
  for (size_t i = 0; i < lead.size(); ++i) {
    if (lead[i].starts_with("split: ")) continue;  // printed as a table below
    part.header += StrCat(i == 0 ? "**" : "", Plain(lead[i]), i == 0 ? "**" : "", "  \n");
  }
  part.header += StrCat(Plain(WindowLine(report)), "\n");
  if (report.complete == false) part.header += "Incomplete: recovered, or records are missing.\n";
  return part;
}

Part EvidencePart(const Report& report) {
  Part part{90, "Evidence", "", {}};
  for (const VerdictPlace& place : report.verdict.where) {
    part.rows.push_back(StrCat("- ", place.role == "waited_for" ? "waited for: " : "spends: ", PlaceText(place)));
  }
  for (const std::string& fact : report.verdict.facts) part.rows.push_back(StrCat("- ", Plain(fact)));
  for (const std::string& error : report.errors) part.rows.push_back(StrCat("- error: ", Plain(error)));
  return part;
}

Part SplitPart(const Report& report) {
  Part part{80, "Split", "| part | share | time |\n|---|---|---|\n", {}};
  for (const VerdictPart& row : report.verdict.parts) {
    part.rows.push_back(StrCat("| ", Plain(row.title), " | ", Percent(row.share), " | ",
                               row.seconds.has_value() ? HumanSeconds(*row.seconds) : "", " |"));
  }
  return part;
}

// The main thread, and other threads that run.
std::vector<Part> PythonParts(const Report& report) {
  std::vector<Part> parts;
  for (const PythonThreads& threads : report.python) {
    if (threads.idle || threads.rows.empty() || parts.size() == 3) continue;
    Part part{parts.empty() ? 75 : 35,
              StrCat("Python lines: ", RankPrefix(report), Plain(ThreadsText(threads))),
              "| self | time | on CPU | line |\n|---|---|---|---|\n",
              {}};
    for (const PythonRow& row : threads.rows) {
      part.rows.push_back(StrCat(
          "| ", Percent(row.share), " | ", HumanSeconds(row.self_s), " | ", HumanSeconds(row.on_cpu_s), " | ",
          Code(StrCat(row.file, row.line.has_value() ? StrCat(":", *row.line) : "")), " ", Code(row.function), " |"));
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

std::vector<Part> NativeParts(const Report& report) {
  std::vector<Part> parts;
  for (const NativeThreads& threads : report.native) {
    if (threads.rows.empty() || parts.size() == 2) continue;
    Part part{parts.empty() ? 50 : 30,
              StrCat("Native functions: ", RankPrefix(report), Plain(ThreadsText(threads))),
              "| self | CPU time | function |\n|---|---|---|\n",
              {}};
    for (const NativeRow& row : threads.rows) {
      if (row.self_s <= 0) continue;
      part.rows.push_back(
          StrCat("| ", Percent(row.share), " | ", HumanSeconds(row.self_s), " | ", Code(NativeName(row)), " |"));
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

Part WaitPart(const Report& report) {
  Part part{60,
            StrCat("Waits: ", RankPrefix(report), "all threads of ",
                   report.process.empty() ? "the program" : Plain(report.process), ", whole profile"),
            "| total | longest | calls | where |\n|---|---|---|---|\n",
            {}};
  for (const WaitRow& row : report.waits) {
    if (!row.idle_pool.empty()) continue;
    part.rows.push_back(StrCat("| ", HumanSeconds(row.total_s), " | ", HumanSeconds(row.longest_s), " | ",
                               HumanCount(row.calls), " | ", Code(WaitPlace(row)), " |"));
  }
  return part;
}

Part GilPart(const Report& report) {
  Part part{58, "Python lines that held the GIL, whole profile", "| samples | time | line |\n|---|---|---|\n", {}};
  for (const GilAnswer& gil : report.gil) {
    if (!gil.is_shared()) continue;
    part.rows.push_back(StrCat("| | ", HumanSeconds(gil.held_s), " | ", RankPrefix(report), Code(gil.process), " ",
                               gil.pid, ", ", gil.thread_count, " threads |"));
    for (const PythonRow& row : gil.rows) {
      part.rows.push_back(StrCat("| ", Percent(row.share), " | ", HumanSeconds(row.self_s), " | ",
                                 Code(StrCat(row.file, row.line.has_value() ? StrCat(":", *row.line) : "")), " ",
                                 Code(row.function), " |"));
    }
    if (part.rows.size() >= 20) break;
  }
  return part;
}

Part GpuPart(const Report& report) {
  Part part{65, "GPUs, whole profile", "| time | calls | kernel or copy |\n|---|---|---|\n", {}};
  for (const GpuAnswer& gpu : report.gpus) {
    part.rows.push_back(StrCat(
        "| ", HumanSeconds(gpu.busy_s), " | ", HumanCount(gpu.kernels), " | ", RankPrefix(report), "GPU ", gpu.number,
        " ", Plain(gpu.name), ": busy ", Percent(gpu.busy_share),
        gpu.busy_share_in_steps.has_value() ? StrCat(", ", Percent(*gpu.busy_share_in_steps), " in steps") : "", " |"));
    for (const auto* rows : {&gpu.top_kernels, &gpu.copies}) {
      for (size_t i = 0; i < std::min<size_t>(rows->size(), 10); ++i) {
        const KernelRow& row = (*rows)[i];
        part.rows.push_back(
            StrCat("| ", HumanSeconds(row.total_s), " | ", HumanCount(row.calls), " | ", Code(row.name),
                   row.bytes.has_value() ? StrCat(" ", AsHumanBytes(static_cast<double>(*row.bytes))) : "", " |"));
      }
    }
  }
  return part;
}

Part MemoryPart(const Report& report) {
  Part part{40, StrCat("Memory: ", RankPrefix(report), "whole profile"), "", {}};
  for (const std::string& text : report.memory.text) part.rows.push_back(StrCat("- ", Plain(text)));
  for (const NamedBytes& total : report.memory.totals) {
    part.rows.push_back(StrCat("- ", Plain(total.name), ": ", AsHumanBytes(total.bytes)));
  }
  for (const ProcessMemory& row : report.memory.processes) {
    part.rows.push_back(StrCat("- heap of ", Code(row.process), " ", row.pid, ": ", AsHumanBytes(row.allocated_bytes),
                               " allocated",
                               row.live_bytes ? StrCat(", ", AsHumanBytes(*row.live_bytes), " live at the end") : "",
                               row.peak_bytes ? StrCat(", peak ", AsHumanBytes(*row.peak_bytes)) : ""));
    if (part.rows.size() >= report.memory.text.size() + 4) break;
  }
  for (const AllocationRow& row : report.memory.allocations) {
    part.rows.push_back(StrCat("- allocated at ", Code(row.place), ": about ", AsHumanBytes(row.bytes)));
  }
  return part;
}

Part ProfilePart(const Report& report) {
  Part part{70, "Events of the profile", "| time | calls | event |\n|---|---|---|\n", {}};
  if (!report.profile.has_value()) return part;
  for (const PlaneAnswer& plane : report.profile->planes) {
    part.rows.push_back(StrCat("| | ", HumanCount(plane.events), " | plane ", Code(plane.name), " |"));
    for (size_t i = 0; i < std::min<size_t>(plane.top.size(), 10); ++i) {
      const KernelRow& row = plane.top[i];
      part.rows.push_back(
          StrCat("| ", HumanSeconds(row.total_s), " | ", HumanCount(row.calls), " | ", Code(row.name), " |"));
    }
  }
  return part;
}

Part RankPart(const Report& report) {
  Part part{45, "Ranks", "", {}};
  for (const RankAnswer& rank : report.ranks) part.rows.push_back(StrCat("- ", Plain(RankLine(rank))));
  return part;
}

Part NotRecordedPart(const Report& report) {
  Part part{55, "Not recorded or not sure", "", {}};
  for (const auto* texts : {&report.missing, &report.verdict.limits, &report.not_recorded}) {
    for (const std::string& text : *texts) part.rows.push_back(StrCat("- ", Plain(text)));
  }
  if (const std::string idle = IdlePoolsText(report); !idle.empty()) {
    part.rows.push_back(StrCat("- left out above, idle pools: ", Plain(idle)));
  }
  if (const std::string idle = IdleThreadsText(report); !idle.empty()) {
    part.rows.push_back(StrCat("- left out above: ", idle));
  }
  return part;
}

Part WarningPart(const Report& report) {
  Part part{20, "Warnings", "", {}};
  for (const std::string& text : report.warnings) part.rows.push_back(StrCat("- ", Plain(text)));
  return part;
}

Part NextPart(const Report& report) {
  Part part{85, "Next steps", "", {}};
  if (!report.verdict.next.empty()) part.rows.push_back(StrCat("- ", Plain(report.verdict.next)));
  if (!report.verdict.unknown_because.empty() && !report.verdict.is_text_alone) {
    part.rows.push_back(StrCat("- the cause is not known: ", Plain(report.verdict.unknown_because)));
  }
  part.rows.push_back(StrCat("- all rows: `tbprof report --json ", Code(report.path).substr(1)));
  return part;
}

// Names the sections with cut rows, and the number of these rows.
std::string CutLine(const std::vector<Part>& parts, size_t tokens) {
  std::vector<std::pair<std::string_view, size_t>> cuts;
  for (const Part& part : parts) {
    if (part.cut_rows == 0) continue;
    const std::string_view title = std::string_view(part.title).substr(0, part.title.find(':'));
    if (cuts.empty() || cuts.back().first != title) cuts.emplace_back(title, 0);
    cuts.back().second += part.cut_rows;
  }
  std::string text;
  for (const auto& [title, rows] : cuts) StrAppend(&text, text.empty() ? "" : ", ", title, " ", rows);
  return text.empty() ? "" : StrCat("\nCut to ", tokens, " tokens (rows): ", text, "\n");
}

std::string Page(const std::vector<Part>& parts, size_t tokens) {
  std::string text;
  for (const Part& part : parts) {
    if (part.rows.empty() && !part.title.empty()) continue;
    if (!part.title.empty()) StrAppend(&text, "\n## ", part.title, "\n");
    text += part.header;
    for (const std::string& row : part.rows) StrAppend(&text, row, "\n");
  }
  return text + CutLine(parts, tokens);
}

}  // namespace

std::string ReportAsMarkdown(const Report& report, size_t tokens) {
  std::vector<Part> parts = {LeadPart(report), EvidencePart(report), SplitPart(report), ProfilePart(report)};
  for (Part& part : PythonParts(report)) parts.push_back(std::move(part));
  for (Part& part : NativeParts(report)) parts.push_back(std::move(part));
  for (Part& part :
       std::vector<Part>{GilPart(report), WaitPart(report), GpuPart(report), MemoryPart(report), RankPart(report),
                         NotRecordedPart(report), WarningPart(report), NextPart(report)}) {
    parts.push_back(std::move(part));
  }
  const size_t most = tokens * kBytesPerToken;
  const std::string text = FitMarkdown(std::move(parts), kMostRows, most,
                                       [tokens](const std::vector<Part>& cut) { return Page(cut, tokens); });
  if (text.size() <= most) return text;
  // Even the lead is longer than `tokens`.
  constexpr std::string_view kEnd = "…\nCut.\n";
  return StrCat(TruncateUtf8(text, most - std::min(most, kEnd.size())), kEnd);
}

}  // namespace tbprof
