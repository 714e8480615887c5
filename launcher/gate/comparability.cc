// SPDX-License-Identifier: Apache-2.0
#include "launcher/gate/comparability.h"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <span>
#include <utility>

#include "launcher/base/text.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

// Above the first ratio of step counts the runs did different work; above the second one there is a warning.
constexpr double kMostStepsRatio = 5, kManyStepsRatio = 1.5;
// If the numbers of steps differ by more, a total of the whole run is no number of a step.
constexpr double kSameStepsShare = 0.05;
constexpr size_t kMostTextBytes = 120;

using Text = std::function<std::string(const RunIdentity&)>;

// The runs that are checked together.
struct Runs {
  std::vector<const RunNumbers*> base, now;

  std::vector<const RunNumbers*> Both() const {
    std::vector<const RunNumbers*> both = base;
    both.insert(both.end(), now.begin(), now.end());
    return both;
  }
};

// A value may be a long command line.
std::string Short(const std::string& value) { return std::string(TruncateUtf8(value, kMostTextBytes)); }

// Describes the first two values that differ: with the runs, if one side has both of them. Unknown values are skipped.
std::string FirstDifference(const Runs& runs, std::string_view what, const Text& text) {
  std::vector<std::string> firsts;  // of each side
  for (const std::vector<const RunNumbers*>* side : {&runs.base, &runs.now}) {
    const RunNumbers* first = nullptr;
    for (const RunNumbers* run : *side) {
      const std::string value = text(run->identity);
      if (value.empty()) continue;
      if (first == nullptr) first = run;
      if (const std::string other = text(first->identity); value != other) {
        return StrCat(what, " differs: ", Short(other), " (", first->path, ") and ", Short(value), " (", run->path,
                      ")");
      }
    }
    if (first != nullptr) firsts.push_back(text(first->identity));
  }
  if (firsts.size() < 2 || firsts[0] == firsts[1]) return "";
  return StrCat(what, " differs: ", Short(firsts[0]), " and ", Short(firsts[1]));
}

std::string Number(std::optional<int64_t> number) { return number.has_value() ? StrCat(*number) : ""; }

std::string WindowOf(const RunIdentity& identity) {
  if (KindOfWindow(identity) != WindowKind::kCapture) return identity.window;
  // Samples of an attached process are compared with such samples alone.
  return identity.window.starts_with("attached ") ? "attached capture" : "capture";
}

std::string Join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) StrAppend(&text, text.empty() ? "" : ", ", word);
  return text;
}

// `train.py` for `/usr/bin/python3 -u train.py --epochs=3`, `bench` for `build/bench -n 5`.
std::string ProgramOf(const std::string& command) {
  std::string program;
  for (const std::string_view word : Split(command, ' ')) {
    if (word.empty()) continue;
    if (program.empty()) {
      program = std::string(BaseName(word));
      if (!program.starts_with("python")) return program;
    } else if (word == "-c" || word == "-m") {
      return program;
    } else if (!word.starts_with('-')) {
      return std::string(BaseName(word));
    }
  }
  return program;
}

// The runs did other work, or another amount of it: neither times nor counts can be compared.
std::string DifferentSetting(const Runs& runs) {
  const std::pair<std::string_view, Text> equal[] = {
      {"what was recorded (--window)", WindowOf},
      {"the GPUs", [](const RunIdentity& identity) { return Join(identity.devices); }},
      {"the number of CPUs",
       [](const RunIdentity& identity) {
         return Number(identity.cpus > 0 ? std::optional(identity.cpus) : std::nullopt);
       }},
      {"the number of ranks", [](const RunIdentity& identity) { return Number(identity.world_size); }},
  };
  for (const auto& [what, text] : equal) {
    if (std::string difference = FirstDifference(runs, what, text); !difference.empty()) return difference;
  }
  // FirstDifference skips runs without GPUs, so that a GPU on one side only is checked here.
  const std::vector<const RunNumbers*> both = runs.Both();
  const auto has_gpu = [](const RunNumbers* run) { return !run->identity.devices.empty(); };
  const auto without = std::ranges::find_if_not(both, has_gpu);
  if (std::ranges::any_of(both, has_gpu) && without != both.end()) {
    return StrCat("some runs used a GPU, others none: ", (*without)->path);
  }
  return "";
}

// The runs did the same work at another speed: counts can be compared, times cannot.
std::string DifferentCpu(const Runs& runs) {
  return FirstDifference(runs, "the CPU model", [](const RunIdentity& identity) { return identity.cpu_model; });
}

bool AreWindows(const Runs& runs) {
  return std::ranges::all_of(runs.Both(), [](const RunNumbers* run) { return IsWindow(run->identity); });
}

std::string ReasonOf(const Runs& runs) {
  for (const RunNumbers* run : runs.Both()) {
    if (run->unfit.empty()) continue;
    // The fault of a damaged file begins with its path already.
    return run->unfit.starts_with(run->path) ? run->unfit : StrCat(run->path, ": ", run->unfit);
  }
  return DifferentSetting(runs);
}

std::string NoExactCountsOf(const Runs& runs) {
  for (const RunNumbers* run : runs.Both()) {
    if (!run->no_counts.empty()) return StrCat(run->path, ": ", run->no_counts);
  }
  return "";
}

std::string NoTimesOf(const Runs& runs) {
  for (const RunNumbers* run : runs.Both()) {
    if (!run->no_times.empty()) return StrCat(run->path, ": ", run->no_times);
  }
  return "";
}

// Numbers per step are comparable only if a step is the same thing in all runs.
std::string NoStepsOf(const Runs& runs) {
  const RunNumbers* fewest = nullptr;
  const RunNumbers* most = nullptr;
  for (const RunNumbers* run : runs.Both()) {
    if (run->steps == 0) return StrCat(run->path, ": ", run->no_times.empty() ? "it has no steps" : run->no_times);
    if (fewest == nullptr || run->steps < fewest->steps) fewest = run;
    if (most == nullptr || run->steps > most->steps) most = run;
  }
  if (fewest == nullptr) return "";
  // The steps of a loop can be found by any of several Python lines: with about equal step counts, different lines mean
  // the same loop.
  const bool as_many = most->steps - fewest->steps <= std::max<uint64_t>(2, fewest->steps / 50);
  const auto what_a_step_is = [as_many](const RunIdentity& of) {
    const bool by_line = of.steps_source.find("Python line ") != std::string::npos;
    return as_many && by_line ? std::string("a line of Python") : of.steps_source;
  };
  if (std::string difference = FirstDifference(runs, "what a step is", what_a_step_is); !difference.empty()) {
    return difference;
  }
  // Windows of a slower program have fewer steps. Whole runs with fewer steps did less work.
  if (AreWindows(runs)) return "";
  if (static_cast<double>(most->steps) > kMostStepsRatio * static_cast<double>(fewest->steps)) {
    return StrCat("the number of steps differs: ", fewest->steps, " (", fewest->path, ") and ", most->steps, " (",
                  most->path, ")");
  }
  return "";
}

bool AreOfOneProcess(const Runs& runs) {
  const std::vector<const RunNumbers*> both = runs.Both();
  return std::ranges::all_of(
      both, [&](const RunNumbers* run) { return AreOfOneProcess(both.front()->identity, run->identity); });
}

std::vector<std::string> WarningsOf(const Runs& runs, bool any_program) {
  std::vector<std::string> warnings;
  const std::pair<std::string_view, Text> usual[] = {
      {"the command", [](const RunIdentity& identity) { return identity.command; }},
      {"Python's version", [](const RunIdentity& identity) { return identity.python; }},
      {"tbprof's version", [](const RunIdentity& identity) { return identity.tbprof_version; }},
      {"the machine", [](const RunIdentity& identity) { return identity.host; }},
  };
  const bool one_process = AreOfOneProcess(runs);
  for (const auto& [what, text] : std::span(usual).subspan(any_program ? 1 : 0)) {
    if (one_process) break;  // the files of one machine may have several names
    if (std::string difference = FirstDifference(runs, what, text); !difference.empty()) warnings.push_back(difference);
  }
  const std::vector<const RunNumbers*> both = runs.Both();
  std::vector<uint64_t> steps;
  for (const RunNumbers* run : both) {
    if (run->steps > 0) steps.push_back(run->steps);
  }
  std::ranges::sort(steps);
  if (!steps.empty() && !AreWindows(runs) &&
      static_cast<double>(steps.back()) > kManyStepsRatio * static_cast<double>(steps.front())) {
    warnings.push_back(StrCat("the number of steps differs: ", steps.front(), " and ", steps.back()));
  }
  const auto lacks_cpu = [](const RunNumbers* run) { return run->identity.cpu_model.empty(); };
  if (std::ranges::any_of(both, lacks_cpu)) {
    warnings.push_back(
        "some runs do not report their CPU (recorded by an older tbprof): whether it was the same is not known");
  }
  return warnings;
}

std::string DifferentProgram(const Runs& runs) {
  return FirstDifference(runs, "the program", [](const RunIdentity& of) { return ProgramOf(of.command); });
}

// Why the runs cannot be compared with each other; empty: they can.
using Fault = std::function<std::string(const Runs&)>;

bool IsNamed(const RunNumbers* run) { return !run->of_baseline; }

struct Chosen {
  Runs runs;                            // in the order of the candidates
  std::string base_reason, now_reason;  // why a run of the side was left out; empty: none was
};

// Chooses from `candidates` the runs of baselines that fit the named runs and each other.
class RunChooser {
 public:
  RunChooser(const Runs& candidates, const Fault& fault) : candidates_(candidates), fault_(fault) {}

  // If the named runs have a fault themselves, or a side has no run that fits the other side, all candidates are
  // chosen: the comparison then reports the fault.
  Chosen Choose() {
    for (const RunNumbers* run : candidates_.base) {
      if (IsNamed(run)) chosen_.runs.base.push_back(run);
    }
    for (const RunNumbers* run : candidates_.now) {
      if (IsNamed(run)) chosen_.runs.now.push_back(run);
    }
    const Runs& named = chosen_.runs;
    const bool all_named = named.base.size() == candidates_.base.size() && named.now.size() == candidates_.now.size();
    if (all_named || !fault_(named).empty()) return {candidates_, "", ""};
    AddNewest(candidates_.now, &chosen_.runs.now, &chosen_.now_reason);
    AddNewest(candidates_.base, &chosen_.runs.base, &chosen_.base_reason);
    if (chosen_.runs.base.empty() || chosen_.runs.now.empty()) return {candidates_, "", ""};
    return std::move(chosen_);
  }

 private:
  // Adds the runs of `from` to `side` that fit, the newest first. The first run of the new side also has to fit a run
  // of the base.
  void AddNewest(const std::vector<const RunNumbers*>& from, std::vector<const RunNumbers*>* side,
                 std::string* reason) {
    for (size_t i = from.size(); i-- > 0;) {
      if (IsNamed(from[i])) continue;
      side->push_back(from[i]);
      std::string why = fault_(chosen_.runs);
      if (why.empty() && side == &chosen_.runs.now && side->size() == 1) why = NoPartner();
      if (why.empty()) continue;
      side->pop_back();
      if (reason->empty()) *reason = why;
    }
    std::vector<const RunNumbers*> in_order = from;
    std::erase_if(in_order, [&](const RunNumbers* run) { return std::ranges::find(*side, run) == side->end(); });
    *side = std::move(in_order);
  }

  // Why no run of the base fits the chosen runs; empty: one does.
  std::string NoPartner() {
    std::vector<const RunNumbers*>& base = chosen_.runs.base;
    if (!base.empty()) return "";
    std::string reason;
    for (size_t i = candidates_.base.size(); i-- > 0;) {
      base.push_back(candidates_.base[i]);
      const std::string why = fault_(chosen_.runs);
      base.pop_back();
      if (why.empty()) return "";
      if (reason.empty()) reason = why;
    }
    return reason;
  }

  const Runs& candidates_;
  const Fault& fault_;
  Chosen chosen_;
};

Chosen Choose(const Runs& candidates, const Fault& fault) { return RunChooser(candidates, fault).Choose(); }

Runs RunsOf(const Sides& sides) {
  Runs runs;
  for (const RunNumbers& run : sides.base.runs) runs.base.push_back(&run);
  for (const RunNumbers& run : sides.now.runs) runs.now.push_back(&run);
  return runs;
}

Sides SidesOf(const Runs& runs) {
  Sides sides;
  for (const RunNumbers* run : runs.base) sides.base.runs.push_back(*run);
  for (const RunNumbers* run : runs.now) sides.now.runs.push_back(*run);
  return sides;
}

bool IsSame(const Runs& a, const Runs& b) { return a.base == b.base && a.now == b.now; }

// The first choice that left out runs of a side has the reason.
std::string FirstReason(std::initializer_list<const Chosen*> choices, std::string Chosen::*reason) {
  for (const Chosen* chosen : choices) {
    if (!(chosen->*reason).empty()) return chosen->*reason;
  }
  return "";
}

// A run that is there twice would hide how much runs differ.
std::string RunGivenTwice(const Sides& sides) {
  const auto twice = [](const Side& a, const Side& b, std::string_view where) -> std::string {
    for (const RunNumbers& run : a.runs) {
      for (const RunNumbers& other : b.runs) {
        if (&run != &other && IsSameRun(run, other)) return StrCat(other.path, ": this run is ", where);
      }
    }
    return "";
  };
  std::string reason = twice(sides.base, sides.now, "on both sides");
  if (reason.empty()) reason = twice(sides.base, sides.base, "twice on the base side");
  if (reason.empty()) reason = twice(sides.now, sides.now, "twice on the new side");
  return reason;
}

}  // namespace

ChosenRuns ChooseRuns(Sides sides, bool any_program) {
  ChosenRuns out;
  const Runs every = RunsOf(sides);
  if (std::ranges::all_of(every.Both(), IsNamed)) {
    out.times = std::move(sides);
    return out;
  }
  const Chosen all = Choose(every, [&](const Runs& runs) {
    std::string different = DifferentSetting(runs);
    return different.empty() && !any_program ? DifferentProgram(runs) : different;
  });
  const Chosen same_steps = Choose(all.runs, NoStepsOf);
  const Chosen counts = Choose(same_steps.runs, NoExactCountsOf);
  const Chosen same_cpu = Choose(same_steps.runs, DifferentCpu);
  const Chosen times = Choose(same_cpu.runs, NoTimesOf);
  const Chosen wall = Choose(all.runs, DifferentCpu);
  const auto warn = [&](std::string_view what, const Runs& of, const Runs& chosen,
                        std::initializer_list<const Chosen*> choices) {
    const auto add = [&](size_t had, size_t has, std::string_view side, std::string Chosen::*reason) {
      if (has == had) return;
      out.warnings.push_back(StrCat(had - has, " of ", had, " ", side, had == 1 ? " run" : " runs", " left out", what,
                                    ": ", FirstReason(choices, reason)));
    };
    add(of.base.size(), chosen.base.size(), "base", &Chosen::base_reason);
    add(of.now.size(), chosen.now.size(), "new", &Chosen::now_reason);
  };
  warn("", every, all.runs, {&all});
  warn(" for counts", all.runs, counts.runs, {&same_steps, &counts});
  warn(" for times", all.runs, times.runs, {&same_steps, &same_cpu, &times});
  if (!IsSame(all.runs, times.runs)) out.all = SidesOf(all.runs);
  if (!IsSame(counts.runs, times.runs)) out.counts = SidesOf(counts.runs);
  if (!IsSame(wall.runs, times.runs)) out.wall = SidesOf(wall.runs);
  out.times = SidesOf(times.runs);
  return out;
}

Comparability CheckComparable(const ChosenRuns& runs, bool any_program) {
  Comparability out;
  const Sides& sides = runs.ForAll();
  if (sides.base.runs.empty() || sides.now.runs.empty()) {
    out.reason = sides.base.runs.empty() ? "there is no run of the base" : "there is no new run";
    return out;
  }
  out.reason = RunGivenTwice(sides);
  if (!out.reason.empty()) return out;
  const Runs all = RunsOf(sides), times = RunsOf(runs.times);
  out.reason = ReasonOf(all);
  if (out.reason.empty() && !any_program) {
    out.reason = DifferentProgram(all);
    if (!out.reason.empty()) out.reason += "; --any-program compares them";
  }
  if (!out.reason.empty()) return out;
  out.no_counts = NoStepsOf(RunsOf(runs.ForCounts()));
  out.no_totals = out.no_counts.empty() ? WhyNotCountable(runs.ForCounts(), /*of_run=*/true) : out.no_counts;
  out.no_wall = AreWindows(all) ? "a window has the length that was requested" : DifferentCpu(RunsOf(runs.ForWall()));
  for (const Fault& fault : std::initializer_list<Fault>{NoStepsOf, DifferentCpu, NoTimesOf}) {
    if (out.no_times.empty()) out.no_times = fault(times);
  }
  out.warnings = WarningsOf(all, any_program);
  return out;
}

bool AreOfOneProcess(const Sides& sides) {
  return !sides.base.runs.empty() && !sides.now.runs.empty() && AreOfOneProcess(RunsOf(sides));
}

std::string WhyNotCountable(const Sides& sides, bool of_run) {
  const Runs runs = RunsOf(sides);
  if (const std::string inexact = NoExactCountsOf(runs); !inexact.empty()) return StrCat("not countable: ", inexact);
  if (!of_run || AreWindows(runs)) return "";
  uint64_t fewest = UINT64_MAX, most = 0;
  for (const RunNumbers* run : runs.Both()) {
    fewest = std::min(fewest, run->steps + run->irregular_steps);
    most = std::max(most, run->steps + run->irregular_steps);
  }
  if (static_cast<double>(most) <= (1 + kSameStepsShare) * static_cast<double>(fewest)) return "";
  return StrCat("not countable: it is of the whole run, and the runs have ", fewest, " to ", most, " steps");
}

}  // namespace tbprof
