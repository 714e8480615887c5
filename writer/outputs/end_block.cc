// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/end_block.h"

#include <algorithm>
#include <utility>

#include "writer/convert/input_wait.h"
#include "writer/outputs/memory_text.h"
#include "writer/outputs/step_change_text.h"
#include "writer/outputs/summary_core.h"
#include "writer/outputs/summary_native.h"
#include "writer/outputs/summary_python_text.h"
#include "writer/outputs/summary_sections.h"
#include "writer/outputs/summary_verdict.h"
#include "writer/steps/step_loops.h"

namespace tbprof {
namespace {

constexpr int kPrefixColumns = 8;  // `tbprof: `
// The launcher adds two lines: where raw records are, and how to get a viewer.
constexpr size_t kMostLines = 14;
constexpr size_t kMostNotes = 7, kMostOfCrash = 5, kMostRanks = 5, kMostFiles = 5;
// A thread that waits for this share of its lifetime is idle.
constexpr double kIdle = 0.95;

// The command failed before there was much to judge: its own message is what matters, and tables of imports would push
// it off the screen.
bool HasFailedEarly(const Timeline& timeline) {
  constexpr int64_t kEarlyPs = 10'000'000'000'000;
  const bool has_steps = !timeline.steps.empty() && timeline.step_source != StepSource::kWholeCapture;
  return timeline.exit_code > 0 && timeline.verdict.cause == Cause::kUnknown && timeline.verdict.hangs.empty() &&
         !has_steps && timeline.duration_ps < kEarlyPs;
}

// Ranks at the same place are one line. The rank that is judged comes first, with its threads.
Section Hangs(const Timeline& timeline) {
  constexpr size_t kMostHangs = 5, kMostOfOwn = 3, kMostRankBytes = 60;
  std::vector<std::string> texts;
  const bool several = timeline.by_rank.size() > 1;
  const std::string own = several ? OfRank(timeline, "rank ", ": ") : "";
  for (const std::string& text : timeline.verdict.hangs) texts.push_back(StrCat(own, PrintableUtf8(text)));
  size_t left_out = texts.size() - std::min(texts.size(), several ? kMostOfOwn : kMostHangs);
  texts.resize(texts.size() - left_out);
  std::vector<std::pair<std::string, std::string>> others;  // place, ranks
  for (const RankReport& report : timeline.by_rank) {
    if (report.hangs.empty() || report.rank == timeline.rank) continue;
    std::string text = PrintableUtf8(report.hangs.front());
    const auto known = std::ranges::find(others, text, &std::pair<std::string, std::string>::first);
    if (known == others.end()) {
      others.emplace_back(std::move(text), StrCat(report.rank));
    } else {
      StrAppend(&known->second, ", ", report.rank);
    }
  }
  for (const auto& [text, ranks] : others) {
    if (texts.size() < kMostHangs) {
      texts.push_back(StrCat("rank ", TruncateUtf8(ranks, kMostRankBytes), ": ", text));
    } else {
      ++left_out;
    }
  }
  if (left_out > 0) StrAppend(&texts.back(), " (and ", left_out, " more: tbprof report)");
  Section out;
  for (const std::string& text : texts) out.push_back({StrCat("hangs: ", text), Style::kPlain, /*whole=*/true});
  return out;
}

Section Lead(const Timeline& timeline, size_t columns) {
  Section out;
  const std::string head = StrCat(OfRank(timeline, "rank ", ": "), "verdict: ");
  std::string verdict;
  // The cause comes after the loop's lines, and the third line may show the place as well: leaving one of them out is
  // better than a truncated cause or place.
  const bool keeps_place = BlockerLabel(timeline) != kWhereLabel;
  for (const VerdictDetails details : {VerdictDetails{}, VerdictDetails{.place = keeps_place},
                                       VerdictDetails{.place = keeps_place, .loop_lines = false}}) {
    verdict = StrCat(head, VerdictSentence(timeline, details));
    if (Utf8Columns(verdict) <= columns) break;
  }
  out.push_back({std::move(verdict), Style::kHeading});
  if (HasFailedEarly(timeline)) return out;
  const std::string steps = StepsText(timeline);
  // Names the option with which they become known.
  const bool whole = timeline.step_source == StepSource::kWholeCapture;
  out.push_back({steps.empty() ? "steps unknown: nothing was recorded" : steps, Style::kPlain, whole});
  if (std::string change = StepChangeOfRanks(timeline, columns); !change.empty()) out.push_back({std::move(change)});
  for (Line& line : Hangs(timeline)) out.push_back(std::move(line));
  out.push_back({StrCat(BlockerLabel(timeline), VerdictBlocker(timeline))});
  return out;
}

// Includes the number of threads that only wait: they would fill every table of waits.
std::string Counts(const Timeline& timeline) {
  size_t idle = 0;
  for (const Thread& thread : timeline.threads) {
    if (thread.is_line || thread.is_main) continue;
    const int64_t end = thread.end_ps > 0 ? std::min(thread.end_ps, timeline.duration_ps) : timeline.duration_ps;
    const int64_t there = end - std::max<int64_t>(thread.start_ps, 0);
    int64_t waited = 0, free_from = 0;
    const auto add = [&](const auto& event) {
      if (!IsWait(timeline.types[event.type].family) || event.start_ps < free_from) return;
      free_from = event.start_ps + event.duration_ps;
      waited += event.duration_ps;
    };
    std::ranges::for_each(thread.events, add);
    if (waited < there)
      std::ranges::for_each(thread.cut_waits, [&](const CutWait& wait) { waited += wait.duration_ps; });
    idle += static_cast<double>(waited) >= kIdle * static_cast<double>(std::max<int64_t>(there, 1));
  }
  return StrCat(OfRank(timeline, "rank ", ": "), Plural(timeline.ProcessCount(), "process", "processes"), ", ",
                Plural(timeline.ThreadCount(), "thread", "threads"),
                idle > 0 ? StrCat(" (", idle, " of them only ", idle == 1 ? "waits)" : "wait)") : "",
                timeline.attached ? "" : StrCat(", ", Plural(timeline.records, "record", "records")));
}

Line MemoryLine(const std::string& text, size_t columns) {
  return {FitColumns(StrCat(kMemoryLabel, text), columns, /*keep_end=*/false)};
}

void Append(Section* out, Section lines, size_t most) {
  for (size_t i = 0; i < std::min(lines.size(), most); ++i) out->push_back(std::move(lines[i]));
}

// Two lines at most: the second has what the first has no room for.
std::vector<std::string> EvidenceLines(const Timeline& timeline, size_t columns) {
  constexpr size_t kMostEvidence = 2;
  std::vector<std::string> lines;
  for (const std::string& fact : timeline.verdict.facts) {
    const bool fits = !lines.empty() && Utf8Columns(lines.back()) + 2 + Utf8Columns(fact) <= columns;
    if (fits || lines.size() == kMostEvidence) {
      StrAppend(&lines.back(), "; ", PrintableUtf8(fact));
    } else {
      lines.push_back(StrCat("evidence: ", PrintableUtf8(fact)));
    }
  }
  return lines;
}

// The profile, and what --also asked for: not the profiles of further ranks.
std::vector<PublishedFile> FilesToName(const std::vector<PublishedFile>& files) {
  std::vector<PublishedFile> named;
  for (const PublishedFile& file : files) {
    const bool is_usual = file.path.ends_with(".xplane.pb") || file.path.ends_with("summary.json");
    if (named.empty() || !is_usual) named.push_back(file);
  }
  return named;
}

// The last lines are cut first.
Section Details(const Timeline& timeline, const std::vector<PublishedFile>& files, const SummaryOptions& options,
                size_t columns) {
  Section out;
  Section headline = HeadlineSection(timeline, columns);
  Section crash = CoreSection(timeline, columns);
  for (Line& line : PythonLastStacksSection(timeline, columns)) crash.push_back(std::move(line));
  if (const std::string split = VerdictSplit(timeline); !split.empty()) out.push_back({StrCat("split: ", split)});
  for (std::string& line : EvidenceLines(timeline, columns)) out.push_back({std::move(line)});
  if (const std::string limits = VerdictLimits(timeline); !limits.empty()) out.push_back({StrCat("limits: ", limits)});
  for (const StepLoop& loop : timeline.step_loops) {
    if (loop.may_be_step) out.push_back({StrCat("other loop: ", LoopText(loop), "; either may be the step")});
  }
  const MemoryText memory = MemoryOfRanks(timeline);
  for (const std::string& text : memory.growth) out.push_back(MemoryLine(text, columns));
  out.push_back(std::move(headline.front()));
  Append(&out, FileSection(FilesToName(files)), kMostFiles);
  if (timeline.by_rank.size() > 1 || !timeline.rank_warnings.empty()) {
    for (size_t i = 1; i < std::min(headline.size(), kMostRanks + 1); ++i) out.push_back(std::move(headline[i]));
  }
  // A command that ended well has ended the processes that were killed, too.
  const bool ended_well = timeline.exit_code == 0;
  if (!ended_well) Append(&out, std::move(crash), kMostOfCrash);
  Append(&out, NoteSection(timeline, columns), kMostNotes);
  if (HasFailedEarly(timeline)) return out;
  Section gpus = GpuSection(timeline, columns);
  std::erase_if(gpus, [](const Line& line) { return line.style != Style::kHeading; });
  Append(&out, std::move(gpus), 2);
  for (const std::string& text : memory.levels) out.push_back(MemoryLine(text, columns));
  out.push_back({Counts(timeline)});
  if (ended_well) Append(&out, std::move(crash), kMostOfCrash);
  Append(&out, PythonSection(timeline, columns), 3);
  Append(&out, CostSection(timeline, options), 2);
  return out;
}

}  // namespace

std::vector<std::string> FullSummary(const Timeline& timeline, const std::vector<PublishedFile>& files,
                                     const SummaryOptions& options) {
  const size_t columns = static_cast<size_t>(std::max(options.width - kPrefixColumns, 20));
  std::vector<std::string> out;
  for (const Line& line : Lead(timeline, columns)) {
    out.push_back(line.whole ? line.text : FitColumns(line.text, columns));
  }
  for (std::string& line : SummaryText(timeline, files, options)) out.push_back(std::move(line));
  return out;
}

std::vector<std::string> EndBlock(const Timeline& timeline, const std::vector<PublishedFile>& files,
                                  const SummaryOptions& options) {
  const size_t columns = static_cast<size_t>(std::max(options.width - kPrefixColumns, 20));
  Section lines = Lead(timeline, columns);
  // A remedy that is cut off may say the opposite.
  if (const std::string next(NextStep(timeline.verdict)); !next.empty()) {
    lines.push_back({StrCat("next: ", next), Style::kPlain, /*whole=*/true});
  }
  Section view = ViewSection(timeline, files, options);
  if (!view.empty()) lines.push_back(std::move(view.front()));
  for (Line& line : Details(timeline, files, options, columns)) {
    if (lines.size() >= kMostLines) break;
    lines.push_back(std::move(line));
  }
  if (lines.size() == kMostLines && lines.back().needs_rows) lines.pop_back();
  std::vector<std::string> out;
  for (const Line& line : lines) {
    const std::string text = line.whole ? line.text : FitColumns(line.text, columns);
    const std::string_view escape = options.color ? EscapeOf(line.style) : "";
    out.push_back(escape.empty() ? text : StrCat(escape, text, "\x1b[0m"));
  }
  return out;
}

}  // namespace tbprof
