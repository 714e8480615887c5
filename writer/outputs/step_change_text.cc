// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/step_change_text.h"

#include <algorithm>
#include <string_view>

#include "writer/base/json_values.h"
#include "writer/base/shown_file.h"
#include "writer/base/summary_format.h"
#include "writer/base/symbol_text.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

using Json = nlohmann::ordered_json;

// Part of a line's difference from which on the line is named with that part alone.
constexpr double kMostOfLine = 0.8;

// What a short line leaves out.
struct Details {
  bool part = true, step = true, sentence = true, function = true;
};

std::string_view KindName(ChangeKind kind) {
  switch (kind) {
    case ChangeKind::kNone:
      return "none";
    case ChangeKind::kJump:
      return "jump";
    case ChangeKind::kInterim:
      return "interim";
    case ChangeKind::kDrift:
      return "drift";
  }
  return "none";
}

std::string_view PartText(StepPart part) { return part == StepPart::kGil ? "waits for the GIL" : StepPartTitle(part); }

bool HasLine(const StepChange& change) { return change.line.file != 0 || change.line.function != 0; }

std::string Signed(int64_t ps) { return StrCat(ps < 0 ? "-" : "+", HumanTime(ps < 0 ? -ps : ps)); }

// `train.py:8 augment`, or the native function.
std::string PlaceText(const Timeline& timeline, const PythonLine& line, bool with_function) {
  const std::string_view file = timeline.strings.Get(line.file), function = timeline.strings.Get(line.function);
  if (file.empty()) return PrintableUtf8(ShortSymbol(function));
  return PrintableUtf8(StrCat(ShownFile(file), line.line > 0 ? StrCat(":", line.line) : "",
                              with_function && !function.empty() ? StrCat(" ", function) : ""));
}

// ` (sleep)`, ` (sleep 3.10 ms of it)`: the part of the line's difference.
std::string PartOfLine(const StepChange& change) {
  if (change.line_part == StepPart::kRest || change.line_part_ps == 0) return "";
  const bool most = static_cast<double>(change.line_part_ps) / static_cast<double>(change.line_ps) >= kMostOfLine;
  return StrCat(" (", PartText(change.line_part), most ? "" : StrCat(" ", Signed(change.line_part_ps)), ")");
}

std::string CauseText(const Timeline& timeline, const Details& details) {
  const StepChange& change = timeline.step_change;
  if (HasLine(change) && change.line_part == StepPart::kGil && change.part == StepPart::kGil) {
    return StrCat(Signed(change.line_ps), details.sentence ? " in waits for the GIL, held at " : ", GIL held at ",
                  PlaceText(timeline, change.line, details.function));
  }
  if (HasLine(change)) {
    return StrCat(Signed(change.line_ps), " at ", PlaceText(timeline, change.line, details.function),
                  details.part ? PartOfLine(change) : "");
  }
  if (change.part != StepPart::kRest) return StrCat(Signed(change.part_ps), " in ", PartText(change.part));
  return StrCat(Signed(change.after_ps - change.before_ps), ", spread over many lines");
}

std::string TextWith(const Timeline& timeline, const Details& details) {
  const StepChange& change = timeline.step_change;
  const std::string before = HumanTime(change.before_ps), after = HumanTime(change.after_ps);
  const std::string from = HumanTime(change.at_ps), until = HumanTime(change.until_ps);
  const std::string step = details.step ? StrCat(" (step ", change.step, ")") : "";
  std::string text = change.IsSlower() ? "slower: " : "faster: ";
  switch (change.kind) {
    case ChangeKind::kNone:
      return "";
    case ChangeKind::kJump:
      text += details.sentence ? StrCat("from ", from, step, " on a step takes ", after, ", before ", before)
                               : StrCat(before, " a step, from ", from, " on ", after);
      break;
    case ChangeKind::kInterim:
      text += details.sentence ? StrCat("from ", from, step, " to ", until, " a step takes ", after, ", else ", before)
                               : StrCat(before, " a step, from ", from, " to ", until, " ", after);
      break;
    case ChangeKind::kDrift:
      text += details.sentence ? StrCat("a step takes ", before, " at the start and ", after, " at the end")
                               : StrCat(before, " a step at the start, ", after, " at the end");
      break;
  }
  const std::string_view others = !change.lacks_cpus ? ""
                                  : details.sentence ? ", while it waits more for a CPU"
                                                     : ", short of CPUs";
  return StrCat(text, ": ", CauseText(timeline, details), others);
}

}  // namespace

std::string StepChangeText(const Timeline& timeline, size_t columns) {
  std::string text;
  for (const Details& details : {Details{}, Details{.part = false}, Details{.part = false, .step = false},
                                 Details{.part = false, .step = false, .sentence = false},
                                 Details{.part = false, .step = false, .sentence = false, .function = false}}) {
    text = TextWith(timeline, details);
    if (Utf8Columns(text) <= columns) break;
  }
  return text;
}

std::string StepChangeOfRanks(const Timeline& timeline, size_t columns) {
  const auto changed = [&](bool of_others) {
    return std::ranges::find_if(timeline.by_rank, [=](const RankReport& report) {
      return !report.step_change.empty() && report.change_is_of_others == of_others;
    });
  };
  if (timeline.by_rank.size() < 2) return StepChangeText(timeline, columns);
  auto found = changed(false);
  if (found == timeline.by_rank.end()) found = changed(true);
  if (found == timeline.by_rank.end()) return "";
  const std::string prefix = StrCat("rank ", found->rank, ": ");
  const std::string own = found->rank == timeline.rank ? StepChangeText(timeline, columns - prefix.size()) : "";
  return StrCat(prefix, own.empty() ? PrintableUtf8(found->step_change) : own);
}

nlohmann::ordered_json StepChangeJson(const Timeline& timeline) {
  const StepChange& change = timeline.step_change;
  if (change.kind == ChangeKind::kNone) return nullptr;
  const bool line = HasLine(change), part = change.part != StepPart::kRest;
  const auto if_line = [&](Json value) { return line ? std::move(value) : Json(nullptr); };
  const auto if_part = [&](Json value) { return part ? std::move(value) : Json(nullptr); };
  return {{"text", ValidUtf8(StepChangeText(timeline))},
          {"kind", KindName(change.kind)},
          {"slower", change.IsSlower()},
          {"at_s", Seconds(change.at_ps)},
          {"until_s", change.until_ps >= 0 ? Json(Seconds(change.until_ps)) : Json(nullptr)},
          {"step", change.step},
          {"before_s", Seconds(change.before_ps)},
          {"after_s", Seconds(change.after_ps)},
          {"steps_before", change.steps_before},
          {"steps_after", change.steps_after},
          {"part", if_part(StepPartName(change.part))},
          {"part_s", if_part(Seconds(change.part_ps))},
          {"file", TextOrNull(timeline.strings.Get(change.line.file))},
          {"line", change.line.line > 0 ? Json(change.line.line) : Json(nullptr)},
          {"function", TextOrNull(timeline.strings.Get(change.line.function))},
          {"line_s", if_line(Seconds(change.line_ps))},
          {"line_part", if_line(StepPartName(change.line_part))},
          {"line_part_s", if_line(Seconds(change.line_part_ps))},
          {"waits_more_for_a_cpu", change.lacks_cpus}};
}

}  // namespace tbprof
