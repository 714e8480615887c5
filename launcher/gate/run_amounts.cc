// SPDX-License-Identifier: Apache-2.0
#include "launcher/gate/run_amounts.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "launcher/base/text.h"
#include "launcher/report/report_answers.h"
#include "writer/base/shown_file.h"
#include "writer/base/symbol_text.h"
#include "writer/base/text_match.h"
#include "writer/timeline/summary_limits.h"

namespace tbprof {
namespace {

// Share of the step time, with a tolerance for inaccurate times.
constexpr double kWholeStep = 1.1;

// Adds the rows of a summary that have the same name.
using Sums = std::map<std::string, double>;

void Add(AmountKind kind, const Sums& sums, double steps, RunNumbers* numbers, const Sums& samples = {}) {
  for (const auto& [name, sum] : sums) {
    if (name.empty()) continue;
    const auto of_name = samples.find(name);
    numbers->amounts.push_back({kind, name, sum / steps, of_name == samples.end() ? 0 : of_name->second});
  }
}

// `train.py:42 remember`. Without the directory, which differs between checkouts.
std::string LineName(const Fields& row) {
  const std::string file = row.Text("file");
  if (file.empty()) return "";
  const std::optional<int64_t> line = row.Integer("line");
  return StrCat(ShownFile(file), line.has_value() ? StrCat(":", *line) : "", " ", row.Text("function"));
}

void AddParts(const Fields& root, RunNumbers* numbers) {
  const Fields split = root.Object("verdict").Object("split");
  const std::string basis = split.Text("basis");
  // The whole run is one step where none are known.
  const double steps = numbers->IsWholeRun() ? 1 : split.Number("steps").value_or(0);
  if ((basis != "steps" && basis != "training" && !numbers->IsWholeRun()) || steps <= 0) return;
  numbers->split_step_s = split.Seconds("steps_s") / steps;
  Sums parts;
  for (const Fields& part : split.Objects("parts")) parts[part.Text("part")] += part.Seconds("s");
  Add(AmountKind::kPart, parts, steps, numbers);
}

void AddOperations(const Fields& root, RunNumbers* numbers) {
  Sums sums;
  for (const Fields& row : root.Objects("operations")) sums[row.Text("name")] += row.Seconds("s_per_step");
  Add(AmountKind::kOperation, sums, 1, numbers);
}

void AddKernels(const Fields& root, double steps, RunNumbers* numbers) {
  Sums sums, calls;
  for (const Fields& gpu : root.Objects("gpus")) {
    for (const Fields& kernel : gpu.Objects("top_kernels")) {
      sums[kernel.Text("name")] += kernel.Seconds("total_s");
      calls[kernel.Text("name")] += static_cast<double>(kernel.Count("calls").value_or(0));
    }
  }
  Add(AmountKind::kKernel, sums, steps, numbers, calls);
}

void AddWaits(const Fields& root, double steps, RunNumbers* numbers) {
  Sums sums, calls;
  for (const WaitRow& wait : ReadWaits(root)) {
    if (!wait.idle_pool.empty()) continue;  // its wait lasts as long as the run, whatever the program does
    // So does that of a shell for the program.
    if (numbers->IsWholeRun() && wait.operation.starts_with("wait")) continue;
    const std::string& place = wait.python.empty() ? wait.call_site : wait.python;
    const std::string name = StrCat(wait.operation, place.empty() ? "" : " at ", place);
    sums[name] += wait.total_s;
    calls[name] += static_cast<double>(wait.calls);
  }
  // A wait that is longer than the step is not part of it: a shell that waits for the program, workers that wait for
  // work.
  const double most_s = kWholeStep * (numbers->IsWholeRun() ? *numbers->wall_s : numbers->mean_step_s * steps);
  if (most_s > 0) std::erase_if(sums, [&](const auto& sum) { return sum.second > most_s; });
  Add(AmountKind::kWait, sums, steps, numbers, calls);
}

struct Lines {
  Sums seconds, samples;
};

// The part of a group of threads that counts: the regular steps, or the whole run. Absent: there is none.
std::vector<Fields> CountedOf(const Fields& group, const RunNumbers& numbers) {
  if (numbers.IsWholeRun()) return {group};
  std::vector<Fields> phases = group.Objects("phases");
  std::erase_if(phases, [](const Fields& phase) { return phase.Text("phase") != "steps"; });
  return phases;
}

// `seconds`: name of the field with the time of a line.
void AddLinesOf(const Fields& group, const RunNumbers& numbers, const char* list, const char* seconds, Lines* lines) {
  for (const Fields& phase : CountedOf(group, numbers)) {
    for (const Fields& line : phase.Objects(list)) {
      const std::string name = LineName(line);
      lines->seconds[name] += line.Seconds(seconds);
      lines->samples[name] += static_cast<double>(line.Count("self_samples").value_or(0));
    }
  }
}

// Index of the group of main threads with most samples; `groups.size()`: none.
size_t MainGroup(const std::vector<Fields>& groups) {
  size_t main = groups.size();
  uint64_t most_samples = 0;
  for (size_t i = 0; i < groups.size(); ++i) {
    const uint64_t samples = groups[i].Count("samples").value_or(0);
    if (!groups[i].Flag("main").value_or(false) || groups[i].Flag("forked").value_or(false) || samples <= most_samples)
      continue;
    most_samples = samples;
    main = i;
  }
  return main;
}

// By the name alone: the arguments of a template differ between versions of a program.
void AddFunctions(const Fields& root, double steps, RunNumbers* numbers) {
  const std::vector<Fields> groups = root.Object("native").Objects("groups");
  const size_t main = MainGroup(groups);
  if (main == groups.size()) return;
  Lines functions;
  for (const Fields& phase : CountedOf(groups[main], *numbers)) {
    for (const Fields& row : phase.Objects("top_self")) {
      if (StartsWithAny(row.Text("module"), {"libtbprof"})) continue;  // the profiler's own part
      const std::string name = ShortSymbol(row.Text("function"));
      functions.seconds[name] += row.Seconds("self_cpu_s");
      functions.samples[name] += static_cast<double>(row.Count("self_samples").value_or(0));
    }
  }
  Add(AmountKind::kFunction, functions.seconds, steps, numbers, functions.samples);
}

// Of a program without Python: what its own functions take, whatever libraries they call, in all of its threads.
void AddOwnFunctions(const Fields& root, double steps, RunNumbers* numbers) {
  if (MainGroup(root.Object("python").Objects("groups")) < root.Object("python").Objects("groups").size()) return;
  std::set<std::string> executables;
  for (const Fields& process : root.Objects("processes")) {
    if (const std::string path = process.Text("executable"); !path.empty()) executables.emplace(BaseName(path));
  }
  Lines functions;
  for (const Fields& group : root.Object("native").Objects("groups")) {
    for (const Fields& counted : CountedOf(group, *numbers)) {
      const std::vector<Fields> rows = counted.Objects("top_total");
      if (rows.size() >= kMostNativeFunctions) {
        const double least = rows.back().Seconds("total_cpu_s") / steps;
        numbers->own_function_unlisted = std::max(numbers->own_function_unlisted, least);
      }
      // Functions of one name (overloads, lambdas of a function) may call each other: their times cannot be added.
      std::map<std::string, std::pair<double, double>> largest;
      for (const Fields& row : rows) {
        const std::string name = ShortSymbol(row.Text("function")), module = row.Text("module");
        const bool is_own = executables.contains(module) && !name.starts_with('[') && name != "_start" &&
                            !IsOfLanguageLibrary(name) && !StartsWithAny(module, {"python", "pypy"});
        if (!is_own) continue;
        auto& [seconds, samples] = largest[name];
        seconds = std::max(seconds, row.Seconds("total_cpu_s"));
        samples = std::max(samples, static_cast<double>(row.Count("total_samples").value_or(0)));
      }
      for (const auto& [name, of_name] : largest) {
        functions.seconds[name] += of_name.first;
        functions.samples[name] += of_name.second;
      }
    }
  }
  Add(AmountKind::kOwnFunction, functions.seconds, steps, numbers, functions.samples);
}

// Adds the lines of the main thread, and those of all other threads together.
void AddPythonLines(const Fields& root, double steps, RunNumbers* numbers) {
  const std::vector<Fields> groups = root.Object("python").Objects("groups");
  const size_t main = MainGroup(groups);
  if (main == groups.size()) return;
  Lines own, others;
  // Other threads wait most of their time, so only their CPU time is counted.
  for (size_t i = 0; i < groups.size(); ++i) {
    const bool is_main = i == main;
    AddLinesOf(groups[i], *numbers, "top_lines", is_main ? "self_s" : "self_on_cpu_s", is_main ? &own : &others);
  }
  numbers->python_samples = 0;
  for (const Fields& phase : CountedOf(groups[main], *numbers)) {
    numbers->python_samples += static_cast<double>(phase.Count("samples").value_or(0));
  }
  Lines of_program;
  AddLinesOf(groups[main], *numbers, "top_own_lines", "self_s", &of_program);
  Add(AmountKind::kOwnLine, of_program.seconds, steps, numbers, of_program.samples);
  Add(AmountKind::kPythonLine, own.seconds, steps, numbers, own.samples);
  Add(AmountKind::kOtherLine, others.seconds, steps, numbers, others.samples);
}

void AddShares(AmountKind kind, const Sums& seconds, double of_s, RunNumbers* numbers) {
  for (const auto& [name, sum] : seconds) {
    if (!name.empty() && of_s > 0) numbers->shares.push_back({kind, name, sum / of_s});
  }
}

// Of the whole window, whatever steps it has; the parts only if they are not those of steps.
void ReadShares(const Fields& root, RunNumbers* numbers) {
  const Fields split = root.Object("verdict").Object("split");
  const bool is_of_steps = split.Text("basis") == "steps" || split.Text("basis") == "training";
  for (const Fields& part : is_of_steps ? std::vector<Fields>() : split.Objects("parts")) {
    AddShares(AmountKind::kPart, {{part.Text("part"), part.Seconds("share")}}, 1, numbers);
  }
  const std::vector<Fields> python = root.Object("python").Objects("groups");
  if (const size_t main = MainGroup(python); main < python.size()) {
    const Fields& group = python[main];
    numbers->python_samples = static_cast<double>(group.Count("samples").value_or(0));
    for (const auto& [kind, list] :
         {std::pair(AmountKind::kOwnLine, "top_own_lines"), std::pair(AmountKind::kPythonLine, "top_lines")}) {
      Sums seconds;
      for (const Fields& line : group.Objects(list)) seconds[LineName(line)] += line.Seconds("self_s");
      AddShares(kind, seconds, group.Seconds("wall_s"), numbers);
    }
  }
  const std::vector<Fields> native = root.Object("native").Objects("groups");
  if (const size_t main = MainGroup(native); main < native.size()) {
    const Fields& group = native[main];
    numbers->native_samples = static_cast<double>(group.Count("samples").value_or(0));
    Sums seconds;
    for (const Fields& row : group.Objects("top_self")) {
      seconds[ShortSymbol(row.Text("function"))] += row.Seconds("self_cpu_s");
    }
    AddShares(AmountKind::kFunction, seconds, group.Seconds("cpu_s"), numbers);
  }
}

void AddAllocations(const Fields& root, double steps, RunNumbers* numbers) {
  Sums sums, samples;
  for (const Fields& line : root.Objects("allocations_by_python_line")) {
    sums[line.Text("python")] += line.Seconds("bytes_estimate");
    samples[line.Text("python")] += static_cast<double>(line.Count("samples").value_or(0));
  }
  // Sites with a Python line are counted above.
  for (const Fields& site : root.Objects("allocation_sites")) {
    const std::vector<std::string> frames = site.Texts("frames");
    if (!site.Text("python").empty() || frames.empty()) continue;
    sums[frames[0]] += site.Seconds("bytes_estimate");
    samples[frames[0]] += static_cast<double>(site.Count("samples").value_or(0));
  }
  Add(AmountKind::kAllocationSite, sums, steps, numbers, samples);
}

// Totals that cover more time than that of the steps cannot be divided by their number.
bool HasStepsOfAPart(const Fields& root) {
  return root.Has("totals_wall_s") || root.Object("steps").Has("searched_from_s");
}

}  // namespace

void ReadCounts(const Fields& root, RunNumbers* numbers) {
  for (const Fields& row : root.Objects("step_counts")) {
    const std::string name = row.Text("name");
    const std::optional<double> per_step = row.Number("per_step");
    if (name.empty() || !per_step.has_value()) continue;
    numbers->counts.push_back({name, *per_step, row.Text("basis") == "steps" ? CountBasis::kSteps : CountBasis::kRun});
  }
  double dropped = 0;
  for (const auto& [cause, count] : root.Object("records").Object("dropped").NumbersEnding("")) dropped += count;
  if (dropped > 0) numbers->no_counts = StrCat(static_cast<uint64_t>(dropped), " records were dropped");
  if (numbers->steps > 0 && HasStepsOfAPart(root)) {
    numbers->no_counts = "its counts are of the whole run, its steps of a part of it";
  }
}

void ReadAmounts(const Fields& root, RunNumbers* numbers) {
  AddParts(root, numbers);
  AddOperations(root, numbers);
  if (IsWindow(numbers->identity)) ReadShares(root, numbers);
  if (numbers->steps == 0 && !numbers->IsWholeRun()) return;
  const double regular = numbers->IsWholeRun() ? 1 : static_cast<double>(numbers->steps);
  AddPythonLines(root, regular, numbers);
  AddFunctions(root, regular, numbers);
  AddOwnFunctions(root, regular, numbers);
  if (HasStepsOfAPart(root)) return;
  // Irregular steps have a share of the totals as well, and a busy machine has more of them.
  const double all = numbers->IsWholeRun() ? 1 : numbers->AllSteps();
  AddKernels(root, all, numbers);
  AddWaits(root, all, numbers);
  AddAllocations(root, all, numbers);
}

}  // namespace tbprof
