// SPDX-License-Identifier: Apache-2.0
#include "writer/verdict/own_line.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "writer/base/saturating.h"
#include "writer/base/shown_file.h"
#include "writer/base/summary_format.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/timeline/python_origin.h"

namespace tbprof {
namespace {

// Least share of the time, and least share above that of the place that the verdict names.
constexpr double kLeastOfPlace = 0.3, kLeastMore = 0.15;
// It calls others if they take this share of the time, and this share of its own.
constexpr double kCallsOthers = 0.05, kMostlyOwn = 0.5;
// `trainer.fit()` says nothing.
constexpr double kNearlyAll = 0.9;
// A function is named in place of its line if it takes so much more.
constexpr double kMoreThanLine = 1.15;

struct OwnPlace {
  uint32_t frame = 0;    // one of its frames
  int64_t ps = 0;        // with all that it calls
  int64_t below_ps = 0;  // of it, in other lines or functions of the program
};
using OwnPlaces = std::map<uint32_t, OwnPlace>;

// `key_of(frame)`: what the frames of a place have in common.
template <typename KeyOf>
OwnPlaces PlacesOf(const PythonTags& tags, const Account& account, KeyOf key_of) {
  std::map<uint32_t, int64_t> frames;  // of all parts and calls together
  account.ForEach([&](const AccountRow& row) {
    if (tags.HasOwnFrame(row.frame)) AddSaturating(&frames[row.frame], row.ps);
  });
  OwnPlaces places;
  std::vector<uint32_t> on_stack;  // of a function that calls itself, once
  for (const auto& [innermost, ps] : frames) {
    on_stack.clear();
    for (uint32_t frame = innermost; frame != 0; frame = tags.OwnCallerOf(frame)) {
      const uint32_t key = key_of(frame);
      if (std::ranges::find(on_stack, key) != on_stack.end()) continue;
      on_stack.push_back(key);
      OwnPlace& place = places[key];
      if (place.frame == 0 || frame == innermost) place.frame = frame;
      AddSaturating(&place.ps, ps);
      if (frame != innermost) AddSaturating(&place.below_ps, ps);
    }
  }
  return places;
}

// The longest place that calls no other place of the program; else the longest that does most of its work itself.
OwnPlace LongestOf(const OwnPlaces& places, double total_ps) {
  OwnPlace longest[2];
  for (const auto& [key, place] : places) {
    const auto all = static_cast<double>(place.ps), below = static_cast<double>(place.below_ps);
    if (all > kNearlyAll * total_ps || below >= kMostlyOwn * all) continue;
    OwnPlace& most = longest[below < kCallsOthers * total_ps ? 0 : 1];
    if (place.ps > most.ps) most = place;
  }
  return static_cast<double>(longest[0].ps) >= kLeastOfPlace * total_ps ? longest[0] : longest[1];
}

struct NamedPlace {
  std::string text;  // empty: none stands out
  double share = 0;
  Where line;  // as OwnLineFact::line
};

NamedPlace FindPlace(const Timeline& timeline, const PythonTags& tags, const Account& account, int64_t total_ps) {
  const PythonTimeline& python = timeline.python;
  const auto total = static_cast<double>(std::max<int64_t>(total_ps, 1));
  const OwnPlace line = LongestOf(PlacesOf(tags, account, [&](uint32_t frame) { return tags.LineOf(frame); }), total);
  const OwnPlace function =
      LongestOf(PlacesOf(tags, account, [&](uint32_t frame) { return python.stacks[frame].function; }), total);
  const auto file_of = [&](const OwnPlace& place) {
    return PrintableUtf8(ShownFile(timeline.strings.Get(python.functions[python.stacks[place.frame].function].file)));
  };
  const auto name_of = [&](const OwnPlace& place) {
    return PrintableUtf8(timeline.strings.Get(python.functions[python.stacks[place.frame].function].name));
  };
  const auto share_of = [&](const OwnPlace& place) { return std::min(1.0, static_cast<double>(place.ps) / total); };
  const bool is_spread = static_cast<double>(function.ps) >= kMoreThanLine * static_cast<double>(line.ps);
  const OwnPlace& most = is_spread ? function : line;
  if (share_of(most) < kLeastOfPlace || most.frame == 0) return {};
  const int32_t number = python.stacks[most.frame].line;
  // The lines of a module are no function that could be called less.
  if (is_spread ? name_of(most) == "<module>" : number <= 0) return {};
  NamedPlace place;
  place.share = share_of(most);
  place.text = is_spread ? StrCat(name_of(most), " (", file_of(most), ")")
                         : StrCat(file_of(most), ":", number, " ", name_of(most));
  place.line.file = python.functions[python.stacks[most.frame].function].file;
  place.line.line = is_spread ? -1 : number;
  return place;
}

// How much of the time between the steps, and of that in them, a function of Python is on the stack.
struct InBoth {
  int64_t between_ps = 0, steps_ps = 0;
  uint64_t depth = 0, samples = 0;   // sum over its samples between the steps
  std::map<int32_t, int64_t> lines;  // of it, the time between the steps
};

using ByFunction = std::map<uint32_t, InBoth>;
ByFunction FunctionsOf(const Timeline& timeline, const StepSpan& span) {
  const PythonTimeline& python = timeline.python;
  const PythonThread* const thread = python.OfThread(span.thread);
  const std::vector<TimeSpan> steps = Without(span.spans, span.between);
  std::map<uint32_t, InBoth> of_stacks;
  size_t in_between = 0, in_steps = 0;
  for (size_t i = 0; thread != nullptr && i < thread->runs.size(); ++i) {
    const PythonRun& run = thread->runs[i];
    int64_t between_ps = 0, steps_ps = 0;
    ForCommon(span.between, &in_between, run.from_ps, run.to_ps,
              [&](int64_t from, int64_t to) { between_ps += to - from; });
    ForCommon(steps, &in_steps, run.from_ps, run.to_ps, [&](int64_t from, int64_t to) { steps_ps += to - from; });
    if (between_ps + steps_ps <= 0) continue;
    InBoth& both = of_stacks[run.stack];
    both.between_ps += between_ps;
    both.steps_ps += steps_ps;
    if (between_ps > 0) both.samples += run.samples;
  }
  ByFunction functions;
  std::vector<uint32_t> frames;  // functions, outermost last
  std::vector<int32_t> lines;    // likewise
  for (const auto& [innermost, both] : of_stacks) {
    frames.clear();
    lines.clear();
    for (uint32_t stack = innermost; stack != 0; stack = python.stacks[stack].parent) {
      frames.push_back(python.stacks[stack].function);
      lines.push_back(python.stacks[stack].line);
    }
    for (size_t i = 0; i < frames.size(); ++i) {
      // Of a recursive function, the outermost.
      if (std::find(frames.begin() + static_cast<std::ptrdiff_t>(i) + 1, frames.end(), frames[i]) != frames.end()) {
        continue;
      }
      InBoth& of_function = functions[frames[i]];
      of_function.between_ps += both.between_ps;
      of_function.steps_ps += both.steps_ps;
      of_function.depth += (frames.size() - 1 - i) * both.samples;
      of_function.samples += both.samples;
      of_function.lines[lines[i]] += both.between_ps;
    }
  }
  return functions;
}

// What is called and started for the program's sake has no name that says what it does.
bool HasAMeaning(const Timeline& timeline, uint32_t number) {
  const PythonFunction& function = timeline.python.functions[number];
  const std::string_view name = timeline.strings.Get(function.name);
  const PythonOrigin origin = PythonOriginOf(timeline.strings.Get(function.file), name);
  const bool is_plumbing =
      origin == PythonOrigin::kStarter || origin == PythonOrigin::kImport || origin == PythonOrigin::kImportTool;
  return !is_plumbing && name != "<module>";
}

// Whether a function takes `least` of the time between the steps, and does not run in them.
bool RunsBetween(const InBoth& both, double least, int64_t between_ps, int64_t steps_ps) {
  constexpr double kMostInSteps = 0.05;
  return static_cast<double>(both.between_ps) >= least * static_cast<double>(between_ps) &&
         static_cast<double>(both.steps_ps) <= kMostInSteps * static_cast<double>(steps_ps);
}

// The function that runs between the steps and not in them: the innermost of those that take nearly all of it.
// UINT32_MAX: there is none.
uint32_t FunctionBetween(const Timeline& timeline, const ByFunction& functions, int64_t between_ps, int64_t steps_ps) {
  constexpr double kLeast = 0.5, kNearlyAllBetween = 0.8;
  const auto is_between = [&](uint32_t function, const InBoth& both) {
    return RunsBetween(both, kLeast, between_ps, steps_ps) && HasAMeaning(timeline, function);
  };
  int64_t most_ps = 0;
  for (const auto& [function, both] : functions) {
    if (is_between(function, both)) most_ps = std::max(most_ps, both.between_ps);
  }
  uint32_t found = UINT32_MAX;
  double deepest = -1;
  for (const auto& [function, both] : functions) {
    const double depth = static_cast<double>(both.depth) / static_cast<double>(std::max<uint64_t>(both.samples, 1));
    const bool is_nearly_all = static_cast<double>(both.between_ps) >= kNearlyAllBetween * static_cast<double>(most_ps);
    if (!is_between(function, both) || !is_nearly_all || depth <= deepest) continue;
    deepest = depth;
    found = function;
  }
  return found;
}

// The program's own function that takes most of the time between the steps, and does not run in them.
uint32_t OwnFunctionBetween(const Timeline& timeline, const ByFunction& functions, int64_t between_ps,
                            int64_t steps_ps) {
  constexpr double kLeast = 0.3;
  uint32_t found = UINT32_MAX;
  for (const auto& [number, both] : functions) {
    const PythonFunction& function = timeline.python.functions[number];
    const std::string_view name = timeline.strings.Get(function.name);
    const bool is_own = PythonOriginOf(timeline.strings.Get(function.file), name) == PythonOrigin::kProgram;
    if (!is_own || name == "<module>" || !RunsBetween(both, kLeast, between_ps, steps_ps)) continue;
    if (found == UINT32_MAX || both.between_ps > functions.at(found).between_ps) found = number;
  }
  return found;
}

// Its line that takes nearly all of its time between the steps, if there is one.
Where PlaceBetween(const Timeline& timeline, uint32_t thread, const ByFunction& functions, uint32_t number) {
  const InBoth& both = functions.at(number);
  const auto most = std::ranges::max_element(both.lines, {}, &std::pair<const int32_t, int64_t>::second);
  Where where;
  where.thread = thread;
  where.file = timeline.python.functions[number].file;
  where.function = timeline.python.functions[number].name;
  if (most != both.lines.end() && most->second >= both.between_ps / 5 * 4) where.line = most->first;
  return where;
}

// Most of the time is a wait for other ranks, in the backward pass.
bool IsForOthers(Cause cause) { return cause == Cause::kCollectives || cause == Cause::kStraggler; }

}  // namespace

OwnLineFact FactOfOwnLine(const Timeline& timeline, const PythonTags& tags, const Account& account,
                          const Verdict& verdict) {
  const NamedPlace place = FindPlace(timeline, tags, account, verdict.total_ps);
  const bool is_said = std::ranges::any_of(verdict.where, [&](const Where& where) {
    return where.role == WhereRole::kSpends && where.share + kLeastMore > place.share;
  });
  // What writes logs or checkpoints is a small part of its callers, and another line may take more.
  const bool is_other =
      verdict.cause == Cause::kLogging || verdict.cause == Cause::kCheckpoint || verdict.cause == Cause::kModelLoad;
  if (place.text.empty() || is_said || is_other || IsForOthers(verdict.cause)) return {};
  return {StrCat(place.text, " with all that it calls: ", HumanPercent(place.share)), place.line};
}

BetweenSteps FindBetweenSteps(const Timeline& timeline, const StepSpan& span) {
  const int64_t between_ps = LengthOf(span.between), whole_ps = LengthOf(span.spans);
  if (between_ps <= 0 || whole_ps <= 0) return {};
  BetweenSteps found;
  found.fact = StrCat(HumanPercent(static_cast<double>(between_ps) / static_cast<double>(whole_ps)),
                      " of this time is between the steps");
  const ByFunction functions = FunctionsOf(timeline, span);
  const uint32_t most = FunctionBetween(timeline, functions, between_ps, whole_ps - between_ps);
  const uint32_t own = OwnFunctionBetween(timeline, functions, between_ps, whole_ps - between_ps);
  found.has_function = most != UINT32_MAX || own != UINT32_MAX;
  if (own != UINT32_MAX) found.own = PlaceBetween(timeline, span.thread, functions, own);
  const auto in = [&](uint32_t number) {
    const PythonFunction& function = timeline.python.functions[number];
    const double share = static_cast<double>(functions.at(number).between_ps) / static_cast<double>(between_ps);
    const bool has_line = number == own && found.own.has_value() && found.own->line > 0;
    return StrCat(HumanPercent(std::min(1.0, share)), " in ", PrintableUtf8(timeline.strings.Get(function.name)), " (",
                  PrintableUtf8(ShownFile(timeline.strings.Get(function.file))),
                  has_line ? StrCat(":", found.own->line) : "", ")");
  };
  if (most == UINT32_MAX || own == UINT32_MAX || own == most) {
    const uint32_t only = most == UINT32_MAX ? own : most;
    if (only != UINT32_MAX) StrAppend(&found.fact, ": of it ", in(only));
    return found;
  }
  const bool is_outer = functions.at(own).between_ps > functions.at(most).between_ps;
  StrAppend(&found.fact, ": of it ", in(is_outer ? own : most), ", ", in(is_outer ? most : own));
  return found;
}

}  // namespace tbprof
