// SPDX-License-Identifier: Apache-2.0
#include "launcher/gate/comparability.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "launcher/base/text.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

// Above the first ratio of step counts the runs did different work; above the second one there is a warning.
constexpr double kMostStepsRatio = 5, kManyStepsRatio = 1.5;
constexpr size_t kMostTextBytes = 120;

using Text = std::function<std::string(const RunIdentity&)>;

// Shortens both values: a command line may be long.
std::string Both(std::string_view what, const std::string& a, const std::string& b) {
  return StrCat(what, " differs: ", TruncateUtf8(a, kMostTextBytes), " and ", TruncateUtf8(b, kMostTextBytes));
}

// Describes the first two values that differ. Unknown values are skipped.
std::string FirstDifference(const std::vector<const RunNumbers*>& runs, std::string_view what, const Text& text) {
  std::string first;
  for (const RunNumbers* run : runs) {
    const std::string value = text(run->identity);
    if (value.empty()) continue;
    if (first.empty()) first = value;
    if (value != first) return Both(what, first, value);
  }
  return "";
}

std::string Number(std::optional<int64_t> number) { return number.has_value() ? StrCat(*number) : ""; }

// `capture` for `capture 2`.
std::string WindowOf(const RunIdentity& identity) { return identity.window.substr(0, identity.window.find(' ')); }

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
std::string DifferentSetting(const std::vector<const RunNumbers*>& runs) {
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
  const auto has_gpu = [](const RunNumbers* run) { return !run->identity.devices.empty(); };
  if (std::ranges::any_of(runs, has_gpu) && !std::ranges::all_of(runs, has_gpu))
    return "some runs used a GPU, others none";
  return "";
}

// The runs did the same work at another speed: counts can be compared, times cannot.
std::string DifferentCpu(const std::vector<const RunNumbers*>& runs) {
  return FirstDifference(runs, "the CPU model", [](const RunIdentity& identity) { return identity.cpu_model; });
}

std::string ReasonOf(const std::vector<const RunNumbers*>& runs) {
  for (const RunNumbers* run : runs) {
    if (run->unfit.empty()) continue;
    // The fault of a damaged file begins with its path already.
    return run->unfit.starts_with(run->path) ? run->unfit : StrCat(run->path, ": ", run->unfit);
  }
  return DifferentSetting(runs);
}

std::string NoTimesOf(const std::vector<const RunNumbers*>& runs) {
  for (const RunNumbers* run : runs) {
    if (!run->no_times.empty()) return StrCat(run->path, ": ", run->no_times);
  }
  return "";
}

// Numbers per step are comparable only if a step is the same thing in all runs.
std::string NoStepsOf(const std::vector<const RunNumbers*>& runs) {
  uint64_t fewest = UINT64_MAX, most = 0;
  for (const RunNumbers* run : runs) {
    if (run->steps == 0) return StrCat(run->path, ": ", run->no_times.empty() ? "it has no steps" : run->no_times);
    fewest = std::min(fewest, run->steps);
    most = std::max(most, run->steps);
  }
  // The steps of a loop can be found by any of several Python lines: with about equal step counts, different lines mean
  // the same loop.
  const bool as_many = most - fewest <= std::max<uint64_t>(2, fewest / 50);
  const auto what_a_step_is = [as_many](const RunIdentity& of) {
    const bool by_line = of.steps_source.find("Python line ") != std::string::npos;
    return as_many && by_line ? std::string("a line of Python") : of.steps_source;
  };
  if (std::string difference = FirstDifference(runs, "what a step is", what_a_step_is); !difference.empty()) {
    return difference;
  }
  if (static_cast<double>(most) > kMostStepsRatio * static_cast<double>(fewest)) {
    return StrCat("the number of steps differs: ", fewest, " and ", most);
  }
  return "";
}

std::vector<std::string> WarningsOf(const std::vector<const RunNumbers*>& runs) {
  std::vector<std::string> warnings;
  const std::pair<std::string_view, Text> usual[] = {
      {"the command", [](const RunIdentity& identity) { return identity.command; }},
      {"Python's version", [](const RunIdentity& identity) { return identity.python; }},
      {"tbprof's version", [](const RunIdentity& identity) { return identity.tbprof_version; }},
      {"the machine", [](const RunIdentity& identity) { return identity.host; }},
  };
  for (const auto& [what, text] : usual) {
    if (std::string difference = FirstDifference(runs, what, text); !difference.empty()) warnings.push_back(difference);
  }
  const auto [fewest, most] = std::ranges::minmax(runs, {}, [](const RunNumbers* run) { return run->steps; });
  if (static_cast<double>(most->steps) > kManyStepsRatio * static_cast<double>(fewest->steps)) {
    warnings.push_back(StrCat("the number of steps differs: ", fewest->steps, " and ", most->steps));
  }
  for (const RunNumbers* run : runs) {
    if (run->identity.cpu_model.empty()) {
      warnings.push_back(
          "some runs do not report their CPU (recorded by an older tbprof): whether it was the same is not known");
      break;
    }
  }
  return warnings;
}

// What keeps a run from being compared with the new runs, the gravest first; empty: nothing.
using Faults = std::array<std::string, 4>;

// `runs`: the new ones and that of the baseline, which is the last.
Faults FaultsOf(const std::vector<const RunNumbers*>& runs) {
  return {DifferentSetting(runs), NoStepsOf(runs), DifferentCpu(runs), runs.back()->no_times};
}

// The place of the first fault that `a` has and `b` has not, if `a` is the worse one; else the number of places.
size_t FirstWorse(const Faults& a, const Faults& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].empty() != b[i].empty()) return b[i].empty() ? i : a.size();
  }
  return a.size();
}

}  // namespace

std::string LeaveOutOfBaseline(const Side& now, Side* base) {
  std::vector<const RunNumbers*> runs;
  for (const RunNumbers& run : now.runs) runs.push_back(&run);
  runs.push_back(nullptr);
  std::vector<Faults> faults;
  const Faults* best = nullptr;
  size_t of_baseline = 0;
  faults.reserve(base->runs.size());
  for (const RunNumbers& run : base->runs) {
    runs.back() = &run;
    faults.push_back(FaultsOf(runs));
    if (!run.of_baseline) continue;
    ++of_baseline;
    if (best == nullptr || FirstWorse(*best, faults.back()) < best->size()) best = &faults.back();
  }
  if (best == nullptr) return "";
  std::string first;
  std::vector<RunNumbers> kept;
  for (size_t i = 0; i < faults.size(); ++i) {
    const size_t worse = FirstWorse(faults[i], *best);
    if (!base->runs[i].of_baseline || worse == best->size()) {
      kept.push_back(std::move(base->runs[i]));
    } else if (first.empty()) {
      first = faults[i][worse];
    }
  }
  const size_t left_out = faults.size() - kept.size();
  base->runs = std::move(kept);
  if (left_out == 0) return "";
  return StrCat(left_out, " of the baseline's ", Counted(of_baseline, "run"), " left out: ", first);
}

Comparability CheckComparable(const Side& base, const Side& now, bool any_program) {
  Comparability out;
  if (base.runs.empty() || now.runs.empty()) {
    out.reason = base.runs.empty() ? "there is no run of the base" : "there is no new run";
    return out;
  }
  std::vector<const RunNumbers*> runs;
  for (const Side* side : {&base, &now}) {
    for (const RunNumbers& run : side->runs) runs.push_back(&run);
  }
  for (const RunNumbers& run : now.runs) {
    for (const RunNumbers& other : base.runs) {
      if (run.files == other.files && !run.files.empty()) {
        out.reason = StrCat(run.path, ": this run is on both sides");
        return out;
      }
    }
  }
  out.reason = ReasonOf(runs);
  if (out.reason.empty() && !any_program) {
    out.reason = FirstDifference(runs, "the program", [](const RunIdentity& of) { return ProgramOf(of.command); });
    if (!out.reason.empty()) out.reason += "; --any-program compares them";
  }
  if (!out.reason.empty()) return out;
  out.no_counts = NoStepsOf(runs);
  out.no_wall = DifferentCpu(runs);
  out.no_times = !out.no_counts.empty() ? out.no_counts : !out.no_wall.empty() ? out.no_wall : NoTimesOf(runs);
  out.warnings = WarningsOf(runs);
  return out;
}

}  // namespace tbprof
