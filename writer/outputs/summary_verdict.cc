// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/summary_verdict.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "writer/base/json_values.h"
#include "writer/base/shown_file.h"
#include "writer/base/symbol_text.h"
#include "writer/outputs/xspace_skim.h"

namespace tbprof {
namespace {

// A place with this part of the cause is named as if it were all.
constexpr double kNearlyAll = 0.8;

using Json = nlohmann::ordered_json;

// Smaller parts are left out of the line.
constexpr double kLeastShown = 0.02;

std::string_view BasisName(VerdictBasis basis) {
  switch (basis) {
    case VerdictBasis::kNone:
      return "none";
    case VerdictBasis::kSteps:
      return "steps";
    case VerdictBasis::kTraining:
      return "training";
    case VerdictBasis::kLoop:
      return "loop";
    case VerdictBasis::kMainThread:
      return "main_thread";
  }
  return "none";
}

std::string Joined(const std::vector<std::string>& texts) {
  std::string joined;
  for (const std::string& text : texts) StrAppend(&joined, joined.empty() ? "" : "; ", PrintableUtf8(text));
  return joined;
}

std::string_view OfWhat(const Timeline& timeline) {
  const Verdict& verdict = timeline.verdict;
  const bool is_main = verdict.thread >= timeline.threads.size() || timeline.threads[verdict.thread].is_main;
  switch (verdict.basis) {
    case VerdictBasis::kNone:
      break;
    case VerdictBasis::kSteps:
      return "of the step";
    case VerdictBasis::kTraining:
      return "of the time from the first step to the last";
    case VerdictBasis::kLoop:
      return is_main ? "of the main loop" : "of the thread's loop";
    case VerdictBasis::kMainThread:
      return is_main ? "of the main thread's time" : "of the thread's time";
  }
  return "of the time";
}

// ` (train.py:31-47)`: the loop of kLoop; empty: its lines are not known.
std::string LoopPlace(const Timeline& timeline) {
  const LoopLines& loop = timeline.verdict.loop;
  const std::string_view file = timeline.strings.Get(loop.file);
  if (file.empty() || loop.first <= 0) return "";
  return PrintableUtf8(
      StrCat(" (", ShownFile(file), ":", loop.first, loop.last > loop.first ? StrCat("-", loop.last) : "", ")"));
}

std::string PlaceOf(const Timeline& timeline, const Where& where) {
  const std::string_view file = timeline.strings.Get(where.file), function = timeline.strings.Get(where.function);
  if (file.empty()) return PrintableUtf8(ShortSite(function));
  return PrintableUtf8(StrCat(ShownFile(file), where.line > 0 ? StrCat(":", where.line) : "",
                              function.empty() ? "" : " ", ShortFunction(function)));
}

// The thread or rank that is waited for. If several do the same, one is named.
std::string ThreadText(const Timeline& timeline, const Where& where) {
  if (where.rank >= 0) return StrCat("rank ", where.rank);
  if (where.thread >= timeline.threads.size()) return "another thread";
  const std::string alike = where.alike > 0 ? StrCat(" and ", where.alike, " alike") : "";
  const Thread& thread = timeline.threads[where.thread];
  const Process& process = timeline.processes[thread.process];
  if (thread.process != timeline.threads[timeline.verdict.thread].process) {
    return StrCat(process.rank >= 0 ? StrCat("rank ", process.rank, ", ") : "", "process ", process.pid,
                  process.name.empty() ? "" : StrCat(" (", PrintableUtf8(process.name), ")"), alike);
  }
  if (thread.is_main) return StrCat("main thread of ", process.pid);
  return StrCat("thread ", thread.name.empty() ? StrCat(thread.tid) : PrintableUtf8(thread.name), alike);
}

// The parts, largest first.
std::vector<StepPart> PartsBySize(const Verdict& verdict) {
  std::vector<StepPart> parts;
  for (size_t i = 0; i < kStepParts; ++i) parts.push_back(static_cast<StepPart>(i));
  std::ranges::stable_sort(parts, [&](StepPart a, StepPart b) {
    // The unknown part comes last.
    if ((a == StepPart::kRest) != (b == StepPart::kRest)) return b == StepPart::kRest;
    return verdict.part_ps[static_cast<size_t>(a)] > verdict.part_ps[static_cast<size_t>(b)];
  });
  return parts;
}

const Where* FirstOf(const Verdict& verdict, WhereRole role) {
  const auto found = std::ranges::find(verdict.where, role, &Where::role);
  return found == verdict.where.end() ? nullptr : &*found;
}

Json LoopJson(const Timeline& timeline) {
  const LoopLines& loop = timeline.verdict.loop;
  if (timeline.verdict.basis != VerdictBasis::kLoop) return nullptr;
  const auto line = [](int32_t number) { return number > 0 ? Json(number) : Json(nullptr); };
  return {{"file", TextOrNull(timeline.strings.Get(loop.file))},
          {"first_line", line(loop.first)},
          {"last_line", line(loop.last)},
          {"function", TextOrNull(timeline.strings.Get(loop.function))}};
}

}  // namespace

nlohmann::ordered_json VerdictJson(const Timeline& timeline) {
  const Verdict& verdict = timeline.verdict;
  const bool known = verdict.cause != Cause::kUnknown;
  Json where = Json::array();
  for (const Where& place : verdict.where) {
    Json callers = Json::array();
    for (const PythonLine& caller : place.callers) {
      callers.push_back({{"file", TextOrNull(timeline.strings.Get(caller.file))},
                         {"line", caller.line > 0 ? Json(caller.line) : Json(nullptr)},
                         {"function", TextOrNull(timeline.strings.Get(caller.function))}});
    }
    const bool has_thread = place.thread < timeline.threads.size();
    const Thread* const thread = has_thread ? &timeline.threads[place.thread] : nullptr;
    where.push_back({{"role", place.role == WhereRole::kSpends ? "spends" : "waited_for"},
                     {"file", TextOrNull(timeline.strings.Get(place.file))},
                     {"line", place.line > 0 ? Json(place.line) : Json(nullptr)},
                     {"function", TextOrNull(timeline.strings.Get(place.function))},
                     {"callers", std::move(callers)},
                     {"doing", TextOrNull(place.doing)},
                     {"share", place.share},
                     {"pid", thread != nullptr ? Json(timeline.processes[thread->process].pid) : Json(nullptr)},
                     {"thread", thread != nullptr ? TextOrNull(thread->name) : Json(nullptr)},
                     {"rank", place.rank >= 0 ? Json(place.rank) : Json(nullptr)},
                     {"alike", place.alike}});
  }
  Json parts = Json::array();
  for (const StepPart part : PartsBySize(verdict)) {
    if (verdict.total_ps <= 0 || verdict.part_ps[static_cast<size_t>(part)] == 0) continue;
    parts.push_back({{"part", StepPartName(part)},
                     {"share", verdict.ShareOf(part)},
                     {"s", Seconds(verdict.part_ps[static_cast<size_t>(part)])}});
  }
  Json facts = Json::array(), limits = Json::array(), hangs = Json::array();
  for (const std::string& text : verdict.hangs) hangs.push_back(ValidUtf8(text));
  for (const std::string& text : verdict.facts) facts.push_back(ValidUtf8(text));
  for (const std::string& text : verdict.limits) limits.push_back(ValidUtf8(text));
  return {{"text", ValidUtf8(VerdictSentence(timeline))},
          {"cause", known ? Json(CauseName(verdict.cause)) : Json(nullptr)},
          {"problem", IsProblem(verdict.cause)},
          {"waiting_rank", verdict.waiting_rank >= 0 ? Json(verdict.waiting_rank) : Json(nullptr)},
          {"part", known ? Json(StepPartName(verdict.part)) : Json(nullptr)},
          {"share", known ? Json(verdict.share) : Json(nullptr)},
          {"unknown_because", known ? Json(nullptr) : TextOrNull(verdict.reason)},
          {"blocker", ValidUtf8(VerdictBlocker(timeline))},
          {"next", TextOrNull(std::string(NextStep(verdict)))},
          {"where", std::move(where)},
          {"facts", std::move(facts)},
          {"hangs", std::move(hangs)},
          {"split",
           {{"basis", BasisName(verdict.basis)},
            {"loop", LoopJson(timeline)},
            {"steps", verdict.steps > 0 ? Json(verdict.steps) : Json(nullptr)},
            {"steps_s", verdict.total_ps > 0 ? Json(Seconds(verdict.total_ps)) : Json(nullptr)},
            {"parts", std::move(parts)},
            {"limits", std::move(limits)}}}};
}

namespace {

// What limited the program while it ran.
std::string CauseSentence(const Timeline& timeline, VerdictDetails details) {
  const Verdict& verdict = timeline.verdict;
  if (verdict.cause == Cause::kUnknown) {
    return StrCat(kNoCause, PrintableUtf8(verdict.reason));
  }
  const bool others_wait = verdict.waiting_rank >= 0;
  std::string text = others_wait ? StrCat(HumanPercent(verdict.share), " of rank ", verdict.waiting_rank,
                                          "'s step: waits for rank ", timeline.rank)
                                 : StrCat(HumanPercent(verdict.share), " ", OfWhat(timeline),
                                          details.loop_lines ? LoopPlace(timeline) : "", ": ",
                                          CauseTitle(verdict.cause, verdict.advice));
  const Where* const where = FirstOf(verdict, WhereRole::kSpends);
  // A place with less than half of it would read as if it were all.
  const bool is_most = where != nullptr && where->share * 2 >= verdict.share;
  if (details.place && !others_wait && is_most) {
    const bool is_all = where->share >= verdict.share * kNearlyAll;
    StrAppend(&text, is_all ? ", at " : ", mostly at ", PlaceOf(timeline, *where));
  }
  return text;
}

}  // namespace

std::string VerdictSentence(const Timeline& timeline, VerdictDetails details) {
  const Verdict& verdict = timeline.verdict;
  const std::string cause = CauseSentence(timeline, details);
  if (verdict.hangs.empty()) return cause;
  if (verdict.hung_ps > 0) {
    const bool is_of_steps = verdict.basis == VerdictBasis::kSteps || verdict.basis == VerdictBasis::kTraining;
    return StrCat("at the end nothing ran for ", HumanTime(verdict.hung_ps),
                  is_of_steps ? "; before: " : "; in all: ", cause);
  }
  return StrCat("nothing runs, each thread waits", verdict.cause == Cause::kUnknown ? "" : StrCat("; ", cause));
}

std::string VerdictBlocker(const Timeline& timeline) {
  const Verdict& verdict = timeline.verdict;
  if (const Where* const other = FirstOf(verdict, WhereRole::kWaitedFor); other != nullptr) {
    // The activity of another rank at its place is unknown.
    const std::string running = other->rank >= 0 ? "mostly" : "running";
    const std::string place = PlaceOf(timeline, *other);
    return StrCat(ThreadText(timeline, *other), ", ", other->doing.empty() ? running : StrCat("in ", other->doing),
                  place.empty() ? "" : " at ", place);
  }
  const Where* const where = FirstOf(verdict, WhereRole::kSpends);
  if (where == nullptr) {
    if (verdict.cause == Cause::kUnknown) return "not known";
    const bool has_python = std::ranges::any_of(timeline.python.threads, [&](const PythonThread& thread) {
      return verdict.thread < timeline.threads.size() &&
             timeline.threads[thread.thread].process == timeline.threads[verdict.thread].process;
    });
    return has_python ? "no single line of Python" : "no single function";
  }
  std::string text =
      StrCat(HumanPercent(where->share), " ", where->doing.empty() ? "running" : StrCat("in ", where->doing), " at ",
             PlaceOf(timeline, *where));
  for (const PythonLine& caller : where->callers) {
    StrAppend(&text, ", from ", PrintableUtf8(ShownFile(timeline.strings.Get(caller.file))),
              caller.line > 0 ? StrCat(":", caller.line) : "");
  }
  return text;
}

std::string_view BlockerLabel(const Timeline& timeline) {
  return FirstOf(timeline.verdict, WhereRole::kWaitedFor) != nullptr ? "blocker: " : kWhereLabel;
}

std::string VerdictLimits(const Timeline& timeline) { return Joined(timeline.verdict.limits); }

std::string VerdictSplit(const Timeline& timeline) {
  const Verdict& verdict = timeline.verdict;
  std::string text;
  for (const StepPart part : PartsBySize(verdict)) {
    if (verdict.ShareOf(part) < kLeastShown) continue;
    StrAppend(&text, text.empty() ? "" : ", ", StepPartTitle(part), " ", HumanPercent(verdict.ShareOf(part)));
  }
  return text;
}

}  // namespace tbprof
