// SPDX-License-Identifier: Apache-2.0
#include "launcher/gate/comparability.h"

#include <algorithm>
#include <functional>
#include <numeric>
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

std::string NoExactCountsOf(const std::vector<const RunNumbers*>& runs) {
  for (const RunNumbers* run : runs) {
    if (!run->no_counts.empty()) return StrCat(run->path, ": ", run->no_counts);
  }
  return "";
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

std::string DifferentProgram(const std::vector<const RunNumbers*>& runs) {
  return FirstDifference(runs, "the program", [](const RunIdentity& of) { return ProgramOf(of.command); });
}

// Why the runs cannot be compared with each other; empty: they can.
using Fault = std::function<std::string(const std::vector<const RunNumbers*>&)>;

struct Chosen {
  std::vector<size_t> runs;  // indices into the base's runs, ascending
  std::string reason;        // why a run was left out; empty: none was
};

// Chooses from `candidates` the newest runs of a baseline that fit the new runs and each other, and all named runs. If
// the new and the named runs have a fault themselves, or no run of the baseline fits, all candidates are chosen: the
// comparison then reports the fault.
Chosen Choose(const Side& base, const Side& now, const std::vector<size_t>& candidates, const Fault& fault) {
  const auto is_named = [&](size_t index) { return !base.runs[index].of_baseline; };
  Chosen chosen;
  std::vector<const RunNumbers*> runs(1, nullptr);  // the first one is the run that is tried
  for (const RunNumbers& run : now.runs) runs.push_back(&run);
  for (const size_t index : candidates) {
    if (is_named(index)) runs.push_back(&base.runs[index]);
  }
  if (std::ranges::all_of(candidates, is_named) || !fault({runs.begin() + 1, runs.end()}).empty())
    return {candidates, ""};
  for (size_t i = candidates.size(); i-- > 0;) {
    const size_t index = candidates[i];
    if (!is_named(index)) {
      runs[0] = &base.runs[index];
      if (const std::string reason = fault(runs); !reason.empty()) {
        if (chosen.reason.empty()) chosen.reason = reason;
        continue;
      }
      runs.push_back(runs[0]);
    }
    chosen.runs.insert(chosen.runs.begin(), index);
  }
  return std::ranges::all_of(chosen.runs, is_named) ? Chosen{candidates, ""} : chosen;
}

Side SideOf(const Side& base, const std::vector<size_t>& indices) {
  Side side;
  for (const size_t index : indices) side.runs.push_back(base.runs[index]);
  return side;
}

}  // namespace

BaseRuns ChooseBaseRuns(Side base, const Side& now, bool any_program) {
  BaseRuns out;
  if (std::ranges::none_of(base.runs, &RunNumbers::of_baseline)) {
    out.times = std::move(base);
    return out;
  }
  std::vector<size_t> every(base.runs.size());
  std::iota(every.begin(), every.end(), size_t{0});
  const Chosen all = Choose(base, now, every, [&](const auto& runs) {
    std::string different = DifferentSetting(runs);
    return different.empty() && !any_program ? DifferentProgram(runs) : different;
  });
  const Chosen same_steps = Choose(base, now, all.runs, NoStepsOf);
  const Chosen counts = Choose(base, now, same_steps.runs, NoExactCountsOf);
  const Chosen same_cpu = Choose(base, now, same_steps.runs, DifferentCpu);
  const Chosen times = Choose(base, now, same_cpu.runs, NoTimesOf);
  const Chosen wall = Choose(base, now, all.runs, DifferentCpu);
  const auto warn = [&](std::string_view what, size_t of, const std::vector<size_t>& chosen, std::string_view reason) {
    if (chosen.size() == of) return;
    out.warnings.push_back(
        StrCat(of - chosen.size(), " of ", Counted(of, "run"), " of the baseline left out", what, ": ", reason));
  };
  warn("", every.size(), all.runs, all.reason);
  warn(" for counts", all.runs.size(), counts.runs, same_steps.reason.empty() ? counts.reason : same_steps.reason);
  warn(" for times", all.runs.size(), times.runs,
       !same_steps.reason.empty() ? same_steps.reason
       : !same_cpu.reason.empty() ? same_cpu.reason
                                  : times.reason);
  if (all.runs != times.runs) out.all = SideOf(base, all.runs);
  if (counts.runs != times.runs) out.counts = SideOf(base, counts.runs);
  if (wall.runs != times.runs) out.wall = SideOf(base, wall.runs);
  out.times = SideOf(base, times.runs);
  return out;
}

Comparability CheckComparable(const BaseRuns& base, const Side& now, bool any_program) {
  Comparability out;
  if (base.ForAll().runs.empty() || now.runs.empty()) {
    out.reason = base.ForAll().runs.empty() ? "there is no run of the base" : "there is no new run";
    return out;
  }
  for (const RunNumbers& run : now.runs) {
    for (const RunNumbers& other : base.ForAll().runs) {
      if (run.files == other.files && !run.files.empty()) {
        out.reason = StrCat(run.path, ": this run is on both sides");
        return out;
      }
    }
  }
  const auto with_new = [&now](const Side& side) {
    std::vector<const RunNumbers*> runs;
    for (const RunNumbers& run : side.runs) runs.push_back(&run);
    for (const RunNumbers& run : now.runs) runs.push_back(&run);
    return runs;
  };
  const std::vector<const RunNumbers*> all = with_new(base.ForAll()), times = with_new(base.times);
  out.reason = ReasonOf(all);
  if (out.reason.empty() && !any_program) {
    out.reason = DifferentProgram(all);
    if (!out.reason.empty()) out.reason += "; --any-program compares them";
  }
  if (!out.reason.empty()) return out;
  out.no_counts = NoStepsOf(with_new(base.ForCounts()));
  out.no_wall = DifferentCpu(with_new(base.ForWall()));
  for (const Fault fault : {NoStepsOf, DifferentCpu, NoTimesOf}) {
    if (out.no_times.empty()) out.no_times = fault(times);
  }
  out.warnings = WarningsOf(all);
  return out;
}

}  // namespace tbprof
