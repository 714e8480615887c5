// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/summary.h"
#include "writer/base/json_values.h"
#include "writer/outputs/memory_text.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "writer/base/median.h"
#include "writer/base/saturating.h"
#include "writer/base/summary_format.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/convert/input_wait.h"
#include "writer/convert/rank_report.h"
#include "writer/outputs/python_line_totals.h"
#include "writer/outputs/summary_core.h"
#include "writer/outputs/summary_heap.h"
#include "writer/outputs/summary_lines.h"
#include "writer/outputs/summary_native.h"
#include "writer/outputs/summary_python_text.h"
#include "writer/outputs/summary_sections.h"
#include "writer/outputs/usage_sums.h"
#include "writer/steps/step_loops.h"

namespace tbprof {
namespace {

constexpr int kPrefixColumns = 8;  // `tbprof: `
constexpr size_t kNotes = 6;
constexpr size_t kErrorLines = 6;  // of one error or warning

}  // namespace

std::string_view EscapeOf(Style style) {
  switch (style) {
    case Style::kPlain:
    case Style::kColumns:
      return "";
    case Style::kHeading:
      return "\x1b[1m";
    case Style::kWarning:
      return "\x1b[33m";
    case Style::kError:
      return "\x1b[31m";
    case Style::kDim:
      return "\x1b[2m";
  }
  return "";
}

namespace {

// The shortest length that the budget of the file kept; empty if it kept all.
std::string ShortestDrawn(std::string_view what, int64_t shortest_ps, int64_t all_from_ps) {
  if (shortest_ps == 0) return "";
  std::string text = StrCat(what, HumanTime(shortest_ps));
  if (all_from_ps > shortest_ps) StrAppend(&text, " (of those under ", HumanTime(all_from_ps), ", an even part)");
  return text;
}

std::string EndText(const Timeline& timeline) {
  if (timeline.exit_signal != 0) {
    const char* name = sigabbrev_np(timeline.exit_signal);
    return name != nullptr ? StrCat("killed by SIG", name) : StrCat("killed by signal ", timeline.exit_signal);
  }
  if (timeline.exit_code >= 0) return StrCat("exit status ", timeline.exit_code);
  if (timeline.command_ended) return "ended, which closed the window";
  return timeline.Runs() ? "still running" : "ended while it was sampled";
}

std::string RankText(const RankReport& report, const std::string& value) {
  return StrCat("rank ", report.rank, ", ", value);
}

// `; waits for others: rank 0, 31 %; rank 1, 0.4 %`; empty: fewer than two ranks are known.
std::string WaitsForOthers(const RankSpeeds& speeds) {
  if (speeds.waits_most == nullptr) return "";
  const auto text = [](const RankReport& report) { return RankText(report, HumanPercent(report.collectives_share)); };
  return StrCat("; waits for others: ", text(*speeds.waits_most), "; ", text(*speeds.waits_least));
}

// The slowest and the fastest rank. Ranks that wait for each other in each step have equal steps: then the time in
// those waits shows which rank the others wait for. Empty: fewer than two ranks have steps.
std::string SpeedsText(const std::vector<RankReport>& reports) {
  constexpr double kAlike = 1.03;
  const RankSpeeds speeds = SpeedsOf(reports);
  if (speeds.slowest == nullptr) return "";
  const auto slowest_ps = static_cast<double>(speeds.slowest->median_step_ps);
  const bool alike = slowest_ps <= kAlike * static_cast<double>(speeds.fastest->median_step_ps);
  std::string text;
  if (!alike) {
    text = StrCat("slowest: rank ", speeds.slowest->rank, ", step median ", HumanTime(speeds.slowest->median_step_ps),
                  "; fastest: ", RankText(*speeds.fastest, HumanTime(speeds.fastest->median_step_ps)));
  } else {
    text = StrCat("ranks: alike, step median ", HumanTime(speeds.slowest->median_step_ps));
    text += WaitsForOthers(speeds);
  }
  if (static_cast<double>(speeds.most->steps) > kAlike * static_cast<double>(speeds.fewest->steps) + 2) {
    StrAppend(&text, "; steps: ", RankText(*speeds.fewest, StrCat(speeds.fewest->steps)), "; ",
              RankText(*speeds.most, StrCat(speeds.most->steps)));
  }
  if (speeds.without_steps > 0) {
    StrAppend(&text, "; ", Plural(speeds.without_steps, "rank", "ranks"), " without steps");
  }
  return text;
}

// Totals of all ranks, the slowest rank, and warnings about ranks. The rest of the block describes one rank.
void AddRanks(const Timeline& timeline, Section* out) {
  if (timeline.by_rank.size() < 2) {
    for (const std::string& text : timeline.rank_warnings) out->push_back({PrintableUtf8(text), Style::kWarning});
    return;
  }
  const RankTotals totals = TotalsOf(timeline.by_rank);
  const auto world =
      std::max<uint64_t>(timeline.by_rank.size(), static_cast<uint64_t>(std::max(timeline.world_size, 0)));
  out->push_back({StrCat(totals.ranks, " of ", world, " ranks: ", Plural(totals.processes, "process", "processes"),
                         ", ", Plural(totals.threads, "thread", "threads"),
                         timeline.attached ? ""
                                           : StrCat(", ", Plural(totals.records, "record", "records"), "; waits ",
                                                    HumanTime(totals.waited_ps), " (all threads)")),
                  Style::kHeading});
  if (const std::string speeds = SpeedsText(timeline.by_rank); !speeds.empty()) {
    out->push_back({speeds});
  } else if (totals.ranks > 1) {
    out->push_back({StrCat("slowest rank: not known (fewer than 2 ranks have steps)",
                           WaitsForOthers(SpeedsOf(timeline.by_rank)))});
  }
  for (const std::string& text : timeline.rank_warnings) out->push_back({PrintableUtf8(text), Style::kWarning});
  out->push_back(
      {StrCat("below: rank ", timeline.rank, " alone; the others: tbprof report --rank=N, hosts of the profile")});
}

// Whether the totals cover the whole run, as the command's CPU time does.
bool IsWholeRun(const Timeline& timeline) {
  const std::string& window = timeline.window;
  return window.empty() || window == "auto" || window == "all" || window == "end" || window.starts_with("last=");
}

}  // namespace

// `60 steps, median 52.1 ms, 2 more irregular (found by Optimizer.step)`; empty: no steps to report. If steps were
// searched only in a part of the time: `60 steps in 3.4 s of 40 s, median ...`.
std::string StepsText(const Timeline& timeline) {
  std::string steps;
  if (timeline.step_source == StepSource::kWholeCapture && !timeline.steps.empty()) {
    steps = StrCat("steps unknown", timeline.steps_unknown.empty() ? "" : ": ", PrintableUtf8(timeline.steps_unknown));
  } else if (!timeline.steps.empty()) {
    std::vector<int64_t> lengths;
    double sum_s = 0, irregular_s = 0;
    for (const Step& step : timeline.steps) {
      const int64_t length = step.end_ps - step.start_ps;
      if (step.is_regular) lengths.push_back(length);
      (step.is_regular ? sum_s : irregular_s) += Seconds(length);
    }
    const size_t others = timeline.steps.size() - lengths.size();
    steps = Plural(lengths.size(), "step", "steps");
    if (timeline.steps_in_detail) {
      const TimeSpan& searched = timeline.full_detail;
      StrAppend(&steps, " in ", HumanTime(searched.end_ps - searched.start_ps), " of ",
                HumanTime(timeline.duration_ps));
    }
    if (const auto count = static_cast<double>(lengths.size()); count > 0) {
      StrAppend(&steps, ", ", StepLengthText(Seconds(Median(lengths)), sum_s / count));
    }
    steps += IrregularText(others, irregular_s, sum_s);
    steps += " (";
    if (timeline.step_confidence > 0 && timeline.step_confidence < 1) {
      StrAppend(&steps, absl::StrFormat("confidence %.2f, ", timeline.step_confidence));
    }
    // A narrow line may cut the source, which comes last, but not the confidence.
    StrAppend(&steps, "found by ", PrintableUtf8(timeline.step_source_text), ")");
  }
  return steps;
}

// The system counts for a command only the children that it waited for: not those of a server that is ended by a
// signal, and none that another process has adopted.
bool IsFarMore(double of_threads, double of_command) { return of_threads > 1.2 * of_command + 0.2; }

Section HeadlineSection(const Timeline& timeline, size_t columns) {
  Section out;
  std::string text = timeline.window.starts_with("capture ") ? StrCat(timeline.window, ": ") : "";
  text += timeline.attached
              ? StrCat(HumanTime(timeline.duration_ps), " sampled, ", HumanSeconds(SumsOfThreads(timeline).cpu_s),
                       " of CPU by all threads", OfRank(timeline, " of rank "))
          : timeline.totals_ps > 0
              ? StrCat(HumanTime(timeline.totals_ps), " wall, shown are the last ", HumanTime(timeline.duration_ps))
              : StrCat(HumanTime(timeline.duration_ps), " wall");
  if (timeline.user_cpu_seconds >= 0 && timeline.system_cpu_seconds >= 0) {
    StrAppend(&text, ", ", HumanSeconds(timeline.user_cpu_seconds), " user + ",
              HumanSeconds(timeline.system_cpu_seconds), " system CPU",
              IsWholeRun(timeline) ? "" : " (of the whole run)");
    const double of_threads = SumsOfThreads(timeline).cpu_s;
    if (IsFarMore(of_threads, timeline.user_cpu_seconds + timeline.system_cpu_seconds)) {
      StrAppend(&text, " of what the command waited for, ", HumanSeconds(of_threads), " of all threads");
    }
  }
  StrAppend(&text, "; ", EndText(timeline));
  if (!timeline.complete) text += "; recovered from the spool";
  out.push_back({text, Style::kHeading});
  AddRanks(timeline, &out);
  text = StrCat(OfRank(timeline, "rank ", ": "), Plural(timeline.ProcessCount(), "process", "processes"), ", ",
                Plural(timeline.ThreadCount(), "thread", "threads"),
                timeline.attached ? "" : StrCat(", ", Plural(timeline.records, "record", "records")));
  const std::string steps = StepsText(timeline);
  // A narrow line would cut the steps, which come last.
  const bool fits = Utf8Columns(text) + 2 + Utf8Columns(steps) <= columns;
  if (!steps.empty() && fits) StrAppend(&text, "; ", steps);
  out.push_back({text});
  if (!steps.empty() && !fits) out.push_back({steps});
  for (const StepLoop& loop : timeline.step_loops) {
    out.push_back({StrCat("other loop: ", LoopText(loop), loop.may_be_step ? "; either may be the step" : "")});
  }
  if (const std::string input = InputWaitText(MeasureInputWait(timeline)); !input.empty()) {
    out.push_back({StrCat(OfRank(timeline, "rank ", ": "), input)});
  }
  return out;
}

namespace {

std::string ShownTypeName(const Timeline& timeline, uint16_t type) {
  return type < timeline.types.size() ? PrintableUtf8(timeline.types[type].name) : "?";
}

Section Waits(const Timeline& timeline, size_t columns) {
  Section out;
  if (timeline.wait_sites.empty()) return out;
  out.push_back({StrCat("waits      total   longest     calls  where (all threads", OfRank(timeline, " of rank "), ")"),
                 Style::kHeading});
  for (const CallSiteTotal& site : WaitSitesByPythonLine(timeline)) {
    if (out.size() > kTopRows) break;
    const std::string numbers = absl::StrFormat("      %10s%10s%10s  ", HumanTime(site.total_ps),
                                                HumanTime(site.longest_ps), HumanCount(site.calls));
    std::string where = ShownTypeName(timeline, site.type);
    if (site.python != 0) StrAppend(&where, " in ", PrintableUtf8(timeline.strings.Get(site.python)));
    if (site.site != 0) {
      StrAppend(&where, site.python != 0 ? ", via " : " in ", PrintableUtf8(timeline.strings.Get(site.site)));
    }
    const size_t room = columns > Utf8Columns(numbers) ? columns - Utf8Columns(numbers) : 1;
    out.push_back({StrCat(numbers, FitColumns(where, room, /*keep_end=*/site.python == 0))});
  }
  return out;
}

double WholePs(const Timeline& timeline) {
  return static_cast<double>(timeline.totals_ps > 0 ? timeline.totals_ps : timeline.duration_ps);
}

// The totals of a whole run do not describe the steps that are shown.
std::string InSteps(const Timeline& timeline, const GpuDevice& device) {
  if (timeline.totals_ps > 0 || device.busy_in_steps_share < 0) return "";
  return StrCat(" (", HumanPercent(device.busy_in_steps_share), " in steps)");
}

}  // namespace

// For each GPU a heading, its copies and waits, and its longest kernels.
Section GpuSection(const Timeline& timeline, size_t columns) {
  Section out;
  // With more than two GPUs, each has one line.
  const size_t kernel_rows = timeline.gpu_devices.size() > 2 ? 0 : timeline.gpu_devices.size() > 1 ? 2 : kTopRows;
  for (const GpuDevice& device : timeline.gpu_devices) {
    std::string text =
        StrCat(OfRank(timeline, "rank ", ", "), "GPU ", device.number, device.name.empty() ? "" : " ",
               PrintableUtf8(device.name), ": ", HumanPercent(static_cast<double>(device.busy_ps) / WholePs(timeline)),
               " busy", InSteps(timeline, device), ", ", Plural(device.kernels, "kernel", "kernels"), " for ",
               HumanTime(device.kernel_ps));
    if (device.collective_ps > 0) StrAppend(&text, " (NCCL ", HumanTime(device.collective_ps), ")");
    if (device.graphs > 0) StrAppend(&text, ", ", Plural(device.graphs, "graph", "graphs"));
    if (timeline.totals_ps > 0) text += ", in the whole run";
    out.push_back({text, Style::kHeading});
    if (timeline.gpu_devices.size() > 4) continue;
    text.clear();
    for (const GpuCopyTotal& copy : device.copy_totals) {
      const double seconds = Seconds(copy.total_ps);
      StrAppend(&text, text.empty() ? "" : ", ", copy.name, " ", HumanBytes(static_cast<double>(copy.bytes)), " in ",
                HumanTime(copy.total_ps));
      if (seconds > 0) StrAppend(&text, " (", HumanBytes(static_cast<double>(copy.bytes) / seconds), "/s)");
    }
    if (!text.empty()) out.push_back({StrCat("      ", text)});
    text.clear();
    for (const GpuUnifiedTotal& total : device.unified_totals) {
      constexpr std::string_view kPrefix = "unified memory ";
      const std::string_view name = total.name;
      const std::string part =
          StrCat(name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name, " ",
                 total.is_bytes ? HumanBytes(static_cast<double>(total.value)) : HumanCount(total.value),
                 total.total_ps > 0 ? StrCat(" in ", HumanTime(total.total_ps)) : "");
      if (!text.empty() && text.size() + part.size() + 8 > columns) {
        out.push_back({StrCat("      ", text)});
        text.clear();
      }
      StrAppend(&text, text.empty() ? kPrefix : ", ", part);
    }
    if (!text.empty()) out.push_back({StrCat("      ", text)});
    text.clear();
    if (device.waits > 0) {
      text = StrCat("host waited ", HumanTime(device.waited_ps), " in ",
                    Plural(device.waits, "synchronization", "synchronizations"));
    }
    if (device.peak_bytes > 0) {
      StrAppend(&text, text.empty() ? "" : ", ", "peak of cudaMalloc ",
                HumanBytes(static_cast<double>(device.peak_bytes)));
      if (device.memory_bytes > 0) StrAppend(&text, " of ", HumanBytes(static_cast<double>(device.memory_bytes)));
    }
    if (!text.empty()) out.push_back({StrCat("      ", text)});
    if (kernel_rows > 0 && !device.kernel_totals.empty()) {
      out.push_back({"           total      mean     calls  kernel (time on the device)"});
    }
    for (size_t i = 0; i < std::min(kernel_rows, device.kernel_totals.size()); ++i) {
      const GpuKernelTotal& kernel = device.kernel_totals[i];
      const int64_t mean = kernel.total_ps / static_cast<int64_t>(std::max<uint64_t>(kernel.calls, 1));
      const std::string numbers = absl::StrFormat("      %10s%10s%10s  ", HumanTime(kernel.total_ps), HumanTime(mean),
                                                  HumanCount(kernel.calls));
      const size_t used = Utf8Columns(numbers);
      out.push_back({StrCat(numbers, FitColumns(PrintableUtf8(timeline.strings.Get(kernel.name)),
                                                columns > used ? columns - used : 1, /*keep_end=*/false))});
    }
  }
  if (out.empty()) {
    const auto any = [&](GpuRecording recording) {
      return std::any_of(timeline.processes.begin(), timeline.processes.end(),
                         [&](const Process& process) { return process.gpu.recording == recording; });
    };
    if (any(GpuRecording::kPaused)) {
      out.push_back({"GPU  recorded with gaps, and nothing ran on it outside of them", Style::kHeading});
    } else if (any(GpuRecording::kRecorded)) {
      out.push_back({"GPU  recorded, and nothing ran on it in this window", Style::kHeading});
    }
  }
  return out;
}

namespace {

// Splits at the last blank that makes the first part fit into the columns. The second part is empty if the whole text
// fits, or if there is no such blank.
std::pair<std::string, std::string> SplitAtBlank(const std::string& text, size_t columns) {
  if (Utf8Columns(text) <= columns) return {text, ""};
  size_t best = std::string::npos;
  for (size_t at = text.find(' '); at != std::string::npos; at = text.find(' ', at + 1)) {
    if (Utf8Columns(text.substr(0, at)) > columns) break;
    best = at;
  }
  if (best == std::string::npos || best == 0) return {text, ""};
  return {text.substr(0, best), text.substr(best + 1)};
}

}  // namespace

Section NoteSection(const Timeline& timeline, size_t columns) {
  Section out;
  auto add = [&](std::string text, Style style) { out.push_back({std::move(text), style}); };
  for (const std::string& text : timeline.errors) add(StrCat("error: ", PrintableUtf8(text)), Style::kError);
  uint64_t dropped = 0;
  std::string causes;
  for (const DropCount& drop : timeline.drops) {
    if (drop.records == 0) continue;
    dropped += drop.records;
    StrAppend(&causes, causes.empty() ? "" : ", ", HumanCount(drop.records), " ", PrintableUtf8(drop.cause));
  }
  if (dropped > 0) add(StrCat("lost ", Plural(dropped, "record", "records"), ": ", causes), Style::kWarning);
  if (timeline.corrupt_records > 0) {
    add(StrCat(Plural(timeline.corrupt_records, "corrupt record", "corrupt records"), " left out"), Style::kWarning);
  }
  if (timeline.events_over_budget > 0) {
    add(StrCat(Plural(timeline.events_over_budget, "event is", "events are"),
               " in the totals but not drawn (--max-profile-size)",
               ShortestDrawn("; the shortest drawn takes ", timeline.shortest_shown_ps, timeline.all_shown_from_ps),
               ShortestDrawn(", on a GPU ", timeline.shortest_gpu_shown_ps, timeline.all_gpu_shown_from_ps),
               FullDetailText(timeline)),
        Style::kWarning);
  }
  // Workers of one program share one line.
  std::vector<std::pair<const Process*, size_t>> unseen;
  for (const Process& process : timeline.processes) {
    if (process.state == ProcessState::kRecorded) continue;
    const auto known = std::find_if(unseen.begin(), unseen.end(), [&](const auto& entry) {
      return entry.first->name == process.name && entry.first->state == process.state &&
             entry.first->reason == process.reason;
    });
    if (known == unseen.end()) {
      unseen.emplace_back(&process, 1);
    } else {
      ++known->second;
    }
  }
  for (const auto& [process, count] : unseen) {
    add(StrCat(PrintableUtf8(process->name), " (", process->pid,
               count > 1 ? StrCat(" and ", count - 1, " more") : std::string(), ") ",
               process->state == ProcessState::kRecordedWithoutAllocator ? "recorded without its allocator"
                                                                         : "not recorded",
               process->reason.empty() ? "" : ": ", PrintableUtf8(process->reason)),
        Style::kWarning);
  }
  for (const std::string& text : timeline.warnings) {
    std::string printable = PrintableUtf8(text);
    add(std::string(printable.starts_with("tbprof: ") ? printable.substr(8) : printable), Style::kWarning);
  }
  if (out.size() > kNotes) {
    const size_t more = out.size() - (kNotes - 1);
    out.resize(kNotes - 1);
    add(StrCat(more, " more notes are in summary.json"), Style::kWarning);
  }
  Section fitted;
  for (const Line& line : out) {
    // Names and reasons may take a second line. Errors and warnings get as many lines as their cause and remedy need,
    // up to kErrorLines.
    std::string rest = line.text;
    const size_t most = line.style == Style::kError || line.style == Style::kWarning ? kErrorLines : 2;
    for (size_t count = 1; !rest.empty(); ++count) {
      const std::string indented = count > 1 ? StrCat("      ", rest) : rest;
      if (count == most) {
        fitted.push_back({FitColumns(indented, columns), line.style});
        break;
      }
      // The indent contains blanks, but is not a place to break the line.
      auto [first, left] = SplitAtBlank(rest, count > 1 ? columns - 6 : columns);
      fitted.push_back({FitColumns(count > 1 ? StrCat("      ", first) : first, columns), line.style});
      rest = std::move(left);
    }
  }
  return fitted;
}

Section CostSection(const Timeline& timeline, const SummaryOptions& options) {
  Section out;
  uint64_t ranks = 0;
  double of_ranks = 0;
  for (const RankReport& report : timeline.by_rank) {
    if (!report.has_numbers || report.of_other_launcher) continue;
    ++ranks;
    of_ranks += report.own_cost_seconds;
  }
  const double cost = ranks > 1 ? of_ranks : timeline.own_cost_seconds;
  // The time that tbprof added to the user's wait for the command.
  if (options.seconds_before >= 0 && options.seconds_after >= 0) {
    out.push_back({StrCat("profile written ", HumanSeconds(options.seconds_after),
                          " after the command's end; tbprof's start took ", HumanSeconds(options.seconds_before))});
  }
  if (cost <= 0) return out;
  std::string text = StrCat("tbprof's own cost in the program", ranks > 1 ? StrCat(" (", ranks, " ranks)") : "",
                            ": about ", HumanSeconds(cost), " of CPU");
  const double cpu = std::max(timeline.user_cpu_seconds + timeline.system_cpu_seconds, SumsOfThreads(timeline).cpu_s);
  const bool known = timeline.user_cpu_seconds >= 0 && timeline.system_cpu_seconds >= 0 && IsWholeRun(timeline);
  if (known && cpu > cost) {
    StrAppend(&text, " (", HumanPercent(cost / cpu), " of the command's)");
  }
  out.insert(out.begin(), {text});
  return out;
}

Section FileSection(const std::vector<PublishedFile>& files) {
  Section out;
  for (const PublishedFile& file : files) {
    out.push_back({StrCat(PrintableUtf8(file.path), "  ", HumanBytes(static_cast<double>(file.bytes)),
                          file.verified.empty() ? "" : ", ", file.verified),
                   Style::kPlain, /*whole=*/true});
  }
  return out;
}

Section ViewSection(const Timeline& timeline, const std::vector<PublishedFile>& files, const SummaryOptions& options) {
  const bool has_profile = std::any_of(files.begin(), files.end(),
                                       [](const PublishedFile& file) { return file.path.ends_with(".xplane.pb"); });
  if (!has_profile) return {};
  const std::string run = PrintableUtf8(timeline.run);
  return {{StrCat("view: ", ShellQuoted(PrintableUtf8(options.viewer)), " --logdir ", ShellQuoted(options.logdir)),
           Style::kHeading, /*whole=*/true},
          {StrCat("      then http://localhost:6006/#profile", run.empty() ? "" : StrCat(", run ", run),
                  ", tool trace_viewer"),
           Style::kPlain, /*whole=*/true}};
}

std::vector<std::string> SummaryText(const Timeline& timeline, const std::vector<PublishedFile>& files,
                                     const SummaryOptions& options) {
  const size_t columns = static_cast<size_t>(std::max(options.width - kPrefixColumns, 20));
  Section native;
  for (const std::string& line : NativeText(timeline, columns)) native.push_back({line});
  Section crash = CoreSection(timeline, columns);
  for (Line& line : PythonLastStacksSection(timeline, columns)) crash.push_back(std::move(line));
  Section heaps;
  const MemoryText memory = MemoryOfRanks(timeline);
  for (const std::vector<std::string>& sentences : {memory.levels, memory.growth}) {
    for (const std::string& text : sentences) {
      heaps.push_back({FitColumns(StrCat(kMemoryLabel, text), columns, /*keep_end=*/false), Style::kHeading});
    }
  }
  for (Line& line : HeapSection(timeline, columns)) heaps.push_back(std::move(line));
  Section sections[] = {HeadlineSection(timeline, columns),
                        std::move(crash),
                        PythonSection(timeline, columns),
                        std::move(native),
                        Waits(timeline, columns),
                        GpuSection(timeline, columns),
                        std::move(heaps),
                        NoteSection(timeline, columns),
                        CostSection(timeline, options),
                        FileSection(files),
                        ViewSection(timeline, files, options)};
  Section &python = sections[2], &waits = sections[4], &gpus = sections[5], &heap = sections[6], &notes = sections[7],
          &listed = sections[9];
  auto lines = [&] {
    size_t count = 0;
    for (const Section& section : sections) count += section.size();
    return count;
  };
  // Lines that summary.json contains in full are cut first. The command to view the profile stays.
  const size_t limit = static_cast<size_t>(std::max(options.max_lines, 1));
  while (lines() > limit) {
    // If several tables are long, each keeps its first rows.
    struct Table {
      Section* section;
      size_t least;
    };
    const Table tables[] = {{&heap, 4},  {&waits, 3}, {&gpus, 2},   {&python, 6}, {&heap, 2},
                            {&waits, 2}, {&gpus, 2},  {&python, 2}, {&notes, 1},  {&listed, 1}};
    const auto longest = std::max_element(tables, tables + 4, [](const Table& a, const Table& b) {
      return a.section->size() + b.least < b.section->size() + a.least;
    });
    const Table* cut = longest->section->size() > longest->least ? longest : nullptr;
    for (const Table& table : tables) {
      if (cut == nullptr && table.section->size() > table.least) cut = &table;
    }
    Section* section = cut == nullptr ? nullptr : cut->section;
    if (section == nullptr) {
      section = std::max_element(std::begin(sections), std::end(sections) - 1,
                                 [](const Section& a, const Section& b) { return a.size() < b.size(); });
      if (section->empty()) section = &sections[10];
    }
    section->pop_back();
    if (!section->empty() && section->back().style == Style::kColumns) section->pop_back();
  }
  std::vector<std::string> out;
  for (const Section& section : sections) {
    for (const Line& line : section) {
      const std::string text = line.whole ? line.text : FitColumns(line.text, columns);
      const std::string_view escape = options.color ? EscapeOf(line.style) : "";
      out.push_back(escape.empty() ? text : StrCat(escape, text, "\x1b[0m"));
    }
  }
  return out;
}

}  // namespace tbprof
