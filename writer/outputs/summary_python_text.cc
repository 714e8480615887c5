// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/summary_python_text.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "writer/base/json_values.h"
#include "writer/base/shown_file.h"
#include "writer/base/summary_format.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/convert/native_by_line.h"
#include "writer/convert/native_totals.h"
#include "writer/convert/python_last_stacks.h"
#include "writer/convert/python_totals.h"
#include "writer/convert/rank_report.h"
#include "writer/convert/sample_phases.h"
#include "writer/convert/thread_groups.h"
#include "writer/outputs/summary_native.h"
#include "writer/outputs/xplane.h"

namespace tbprof {
namespace {

constexpr size_t kShownLines = 4;
constexpr size_t kShownFunctions = 4;
constexpr size_t kShownGroups = 2;
constexpr size_t kShownLastStacks = 4;
constexpr size_t kShownFrames = 20;
constexpr std::string_view kIndent = "      ";
// A function above this share contains everything and is not shown.
constexpr double kWholeShare = 0.99;
constexpr double kLeastShownShare = 0.005;
// Least share of the samples at which a part has a line of its own.
constexpr double kLeastOutside = 0.1, kLeastImporting = 0.05, kLeastOtherCpu = 0.1, kLeastInLibraries = 0.1;
constexpr int kShareColumns = 10;
// Fewer samples are not meaningful for the steps.
constexpr uint64_t kLeastSamplesInSteps = 10;

// `train.py:88 forward`.
std::string LineText(const Timeline& timeline, const PythonLineTotal& line) {
  const PythonFunction& function = timeline.python.functions[line.function];
  return StrCat(PrintableUtf8(ShownFile(timeline.strings.Get(function.file))),
                line.line >= 0 ? StrCat(":", line.line) : "", " ", PrintableUtf8(timeline.strings.Get(function.name)));
}

// `forward (train.py)`.
std::string FunctionText(const Timeline& timeline, uint32_t index) {
  const PythonFunction& function = timeline.python.functions[index];
  return StrCat(PrintableUtf8(timeline.strings.Get(function.name)), " (",
                PrintableUtf8(ShownFile(timeline.strings.Get(function.file))), ")");
}

double ImportingShare(const PythonTotals& totals) { return PartOf(totals.importing.wall_ps, totals.all.wall_ps); }

// The lines that took longest. Lines of importlib are left out if imports have a part of their own.
std::vector<PythonLineTotal> ShownLines(const PythonSums& sums, const PythonTotals& totals,
                                        const std::vector<PythonLineTotal>& lines) {
  std::vector<PythonLineTotal> shown;
  const bool skip_imports = ImportingShare(totals) >= kLeastImporting;
  for (const PythonLineTotal& line : lines) {
    if (shown.size() == kShownLines || PartOf(line.self.wall_ps, totals.all.wall_ps) < kLeastShownShare) break;
    if (skip_imports && IsOfImportlib(sums.OriginOf(line.function))) continue;
    shown.push_back(line);
  }
  return shown;
}

std::vector<std::string> LineParts(const Timeline& timeline, const PythonSums& sums, const PythonTotals& totals,
                                   const std::vector<PythonLineTotal>& lines) {
  std::vector<std::string> parts;
  for (const PythonLineTotal& line : ShownLines(sums, totals, lines)) {
    parts.push_back(StrCat(HumanPercent(PartOf(line.self.wall_ps, totals.all.wall_ps)), " ", LineText(timeline, line)));
  }
  return parts;
}

// One row per line, with the native function that used most of the line's CPU time.
void AddLines(const Timeline& timeline, const PythonSums& sums, const PythonTotals& totals, const NativeByLine& native,
              size_t columns, Section* out) {
  const NativeSums native_sums(timeline.native);
  for (const PythonLineTotal& line : ShownLines(sums, totals, totals.lines)) {
    const std::string share = HumanPercent(PartOf(line.self.wall_ps, totals.all.wall_ps));
    std::string row = StrCat(kIndent, absl::StrFormat("%*s", kShareColumns, share), "  ", LineText(timeline, line));
    if (const auto found = native.find({line.function, line.line}); found != native.end()) {
      const std::string text = NativeOfLineText(timeline, native_sums, found->second);
      if (!text.empty()) StrAppend(&row, "  (", text, ")");
    }
    out->push_back({FitColumns(row, columns)});
  }
}

// The time of the program's own lines including the libraries that they call; empty if the libraries took little time.
std::string OwnLinesText(const Timeline& timeline, const PythonSums& sums, const PythonTotals& totals, size_t columns) {
  int64_t in_libraries_ps = totals.all.wall_ps;
  for (const PythonLineTotal& line : totals.lines) {
    if (sums.OriginOf(line.function) == PythonOrigin::kProgram) in_libraries_ps -= line.self.wall_ps;
  }
  const auto parts = LineParts(timeline, sums, totals, totals.own_lines);
  if (parts.empty() || PartOf(in_libraries_ps, totals.all.wall_ps) < kLeastInLibraries) return "";
  return Joined(StrCat(kIndent, "own lines: "), parts, columns);
}

// Functions by their time including the functions that they called: the program's own if there are any, but no function
// that only starts others.
std::vector<std::string> FunctionParts(const Timeline& timeline, const PythonSums& sums, const PythonTotals& totals) {
  std::vector<PythonFunctionTotal> functions;
  const auto add = [&](PythonOrigin origin) {
    for (const PythonFunctionTotal& function : totals.functions) {
      const double share = PartOf(function.total.wall_ps, totals.all.wall_ps);
      if (sums.OriginOf(function.function) != origin || share < kLeastShownShare || share > kWholeShare) continue;
      // A function without callees is already in the lines. A module's body contains the program, or an import.
      if (function.total.samples == function.self.samples) continue;
      const std::string& name = timeline.strings.Get(timeline.python.functions[function.function].name);
      if (name == "<module>") continue;
      // Wrappers that decorators create.
      if (origin == PythonOrigin::kLibrary && name.find("<locals>") != std::string::npos) continue;
      functions.push_back(function);
    }
  };
  add(PythonOrigin::kProgram);
  if (functions.empty()) add(PythonOrigin::kLibrary);
  std::ranges::stable_sort(functions, std::greater<>(),
                           [](const PythonFunctionTotal& function) { return function.total.wall_ps; });
  std::vector<std::string> parts;
  for (size_t i = 0; i < std::min(kShownFunctions, functions.size()); ++i) {
    const double share = PartOf(functions[i].total.wall_ps, totals.all.wall_ps);
    parts.push_back(StrCat(HumanPercent(share), " ", FunctionText(timeline, functions[i].function)));
  }
  if (const double importing = ImportingShare(totals); importing >= kLeastImporting) {
    const auto shorter = std::ranges::find_if(functions, [&](const PythonFunctionTotal& function) {
      return PartOf(function.total.wall_ps, totals.all.wall_ps) < importing;
    });
    const auto place = std::min<std::ptrdiff_t>(shorter - functions.begin(), static_cast<std::ptrdiff_t>(parts.size()));
    parts.insert(parts.begin() + place, StrCat(HumanPercent(importing), " imports of modules"));
  }
  return parts;
}

// Threads other than the shown one that used CPU: they hold the interpreter's lock, or prepare the shown thread's data.
void AddOtherThreads(const Timeline& timeline, const PythonSums& sums, const PythonThread* shown, size_t columns,
                     Section* out) {
  struct Row {
    int64_t on_cpu_ps;
    std::string text;
  };
  const int64_t whole_ps = sums.OfThreads({shown}).all.wall_ps;
  std::vector<Row> rows;
  for (ThreadGroup<PythonThread>& group : GroupThreads(timeline, timeline.python.threads)) {
    std::erase(group.members, shown);
    if (group.members.empty()) continue;
    const PythonTotals totals = sums.OfThreads(group.members);
    if (PartOf(totals.all.on_cpu_ps, whole_ps) < kLeastOtherCpu) continue;
    const std::string head = StrCat(kIndent, ThreadGroupText(group, group.members.size()), ", ",
                                    HumanPercent(PartOf(totals.all.on_cpu_ps, totals.all.wall_ps)), " on CPU: ");
    rows.push_back({totals.all.on_cpu_ps, Joined(head, LineParts(timeline, sums, totals, totals.lines), columns)});
  }
  std::ranges::stable_sort(rows, std::greater<>(), &Row::on_cpu_ps);
  for (size_t i = 0; i < std::min(kShownGroups, rows.size()); ++i) out->push_back({rows[i].text});
}

// The share of samples that ran is not shown: a thread that runs for a moment between two samples and waits for the
// rest of the time counts as running.
std::string SamplesText(const PythonTotals& totals) {
  return StrCat(Plural(totals.all.samples, "sample", "samples"), ", waits included");
}

}  // namespace

const PythonThread* ShownPythonThread(const Timeline& timeline) {
  const PythonThread* shown = nullptr;
  uint64_t most = 0;
  const uint32_t counted = CountedProcess(timeline);
  const Verdict& verdict = timeline.verdict;
  if (verdict.basis == VerdictBasis::kLoop || verdict.basis == VerdictBasis::kMainThread) {
    if (const PythonThread* const judged = timeline.python.OfThread(verdict.thread)) return judged;
  }
  for (const PythonThread& samples : timeline.python.threads) {
    const Thread& thread = timeline.threads[samples.thread];
    if (!thread.is_main) continue;
    if (thread.process == counted) return &samples;
    uint64_t count = 0;
    for (const PythonTally& tally : samples.tallies) count += tally.samples;
    if (count > most) {
      most = count;
      shown = &samples;
    }
  }
  return shown;
}

Section PythonSection(const Timeline& timeline, size_t columns) {
  const PythonThread* const thread = ShownPythonThread(timeline);
  if (thread == nullptr) return {};
  const PythonSums sums(timeline);
  const PythonTotals whole = sums.OfThreads({thread});
  if (whole.all.wall_ps <= 0) return {};
  const SamplePhases phases(timeline);
  PythonTotals shown = whole, outside;
  bool in_steps = false;
  if (phases.known()) {
    const SamplePhases::Tallies tallies = phases.Of(*thread);
    const auto of = [&](SamplePhase phase) { return &tallies[static_cast<size_t>(phase)]; };
    const PythonTotals steps = sums.Of({of(SamplePhase::kSteps)});
    in_steps = steps.all.samples >= kLeastSamplesInSteps;
    if (in_steps) {
      shown = steps;
      outside = sums.Of({of(SamplePhase::kIrregularSteps), of(SamplePhase::kOutside)});
    }
  }
  const Thread& of = timeline.threads[thread->thread];
  const std::string name = of.is_main || of.name.empty() ? "main thread" : StrCat("thread ", PrintableUtf8(of.name));
  Section out = {{StrCat("python      self  line (", OfRank(timeline, "rank ", ", "), name, ", ",
                         in_steps ? "in regular steps: " : "", SamplesText(shown), ")"),
                  Style::kHeading, /*whole=*/false, /*needs_rows=*/true}};
  const NativeByLine native =
      DivideNativeByLine(timeline, {thread}, phases, in_steps ? std::optional(SamplePhase::kSteps) : std::nullopt);
  AddLines(timeline, sums, shown, native, columns, &out);
  if (const std::string text = OwnLinesText(timeline, sums, shown, columns); !text.empty()) out.push_back({text});
  if (const auto parts = FunctionParts(timeline, sums, shown); !parts.empty()) {
    out.push_back({Joined(StrCat(kIndent, "functions: "), parts, columns)});
  }
  if (const double share = PartOf(outside.all.wall_ps, whole.all.wall_ps); share >= kLeastOutside) {
    const std::string head = StrCat(kIndent, "outside of regular steps (", HumanPercent(share), " of the samples): ");
    out.push_back({Joined(head, LineParts(timeline, sums, outside, outside.lines), columns)});
  }
  AddOtherThreads(timeline, sums, thread, columns, &out);
  return out;
}

Section PythonLastStacksSection(const Timeline& timeline, size_t columns) {
  std::vector<PythonLastStack> stacks = timeline.python.last_stacks;
  // Stacks from core files have a section of their own.
  std::erase_if(stacks, [](const PythonLastStack& last) { return last.exact; });
  if (stacks.empty()) return {};
  const Thread& first = timeline.threads[stacks[0].thread];
  const Process& process = timeline.processes[first.process];
  Section out = {{StrCat("python  last samples of ", PrintableUtf8(process.name), " (", process.pid, "), ",
                         ExitText(process.exit_code, process.exit_signal, /*out_of_memory=*/false),
                         "; not necessarily where it ended"),
                  Style::kHeading}};
  for (size_t i = 0; i < std::min(kShownLastStacks, stacks.size()); ++i) {
    const Thread& thread = timeline.threads[stacks[i].thread];
    if (thread.process != first.process) break;
    out.push_back({FitColumns(StrCat(kIndent, PythonThreadText(thread), ", ", HumanTime(stacks[i].age_ps),
                                     " before the end: ", SampledStackText(timeline, stacks[i].stack, kShownFrames)),
                              columns, /*keep_end=*/false)});
  }
  return out;
}

}  // namespace tbprof
