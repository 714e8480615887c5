// SPDX-License-Identifier: Apache-2.0
#include "writer/verdict/own_line.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>

#include "writer/base/saturating.h"
#include "writer/base/shown_file.h"
#include "writer/base/summary_format.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/verdict/span_account.h"

namespace tbprof {
namespace {

// Least share of the time, and least share above that of the place that the verdict names.
constexpr double kLeastOfPlace = 0.3, kLeastMore = 0.15;
// It calls others if they take this share of the time.
constexpr double kCallsOthers = 0.05;
// A function is named in place of its line if it takes so much more.
constexpr double kMoreThanLine = 1.15;

struct OwnPlace {
  uint32_t frame = 0;  // one of its frames
  int64_t ps = 0;
  int64_t below_ps = 0;  // in other lines or functions of the program that it calls
};
using OwnPlaces = std::map<uint32_t, OwnPlace>;

// `key_of(frame)`: what the frames of a place have in common.
template <typename KeyOf>
OwnPlaces PlacesOf(const PythonTags& tags, const Account& account, KeyOf key_of) {
  OwnPlaces places;
  for (const AccountRow& row : account.RowsOf([](const AccountRow&) { return true; })) {
    if (!tags.HasOwnFrame(row.frame)) continue;
    const uint32_t own = key_of(row.frame);
    places[own].frame = row.frame;
    AddSaturating(&places[own].ps, row.ps);
    std::set<uint32_t> callers = {own};  // of itself it is a part
    for (uint32_t frame = tags.OwnCallerOf(row.frame); frame != 0; frame = tags.OwnCallerOf(frame)) {
      if (callers.insert(key_of(frame)).second) AddSaturating(&places[key_of(frame)].below_ps, row.ps);
    }
  }
  return places;
}

OwnPlace LongestOf(const OwnPlaces& places, double total_ps) {
  OwnPlace longest;
  for (const auto& [key, place] : places) {
    if (static_cast<double>(place.below_ps) < kCallsOthers * total_ps && place.ps > longest.ps) longest = place;
  }
  return longest;
}

struct NamedPlace {
  std::string text;  // empty: none stands out
  double share = 0;
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
  return {is_spread ? StrCat(name_of(most), " (", file_of(most), ")")
                    : StrCat(file_of(most), ":", number, " ", name_of(most)),
          share_of(most)};
}

}  // namespace

std::string FactOfOwnLine(const Timeline& timeline, const PythonTags& tags, const Account& account,
                          const Verdict& verdict) {
  const NamedPlace place = FindPlace(timeline, tags, account, verdict.total_ps);
  const bool is_said = std::ranges::any_of(verdict.where, [&](const Where& where) {
    return where.role == WhereRole::kSpends && where.share + kLeastMore > place.share;
  });
  return place.text.empty() || is_said ? ""
                                       : StrCat(place.text, " with all that it calls: ", HumanPercent(place.share));
}

std::string FactOfBetween(const Timeline& timeline, const PythonTags& tags, const StepSpan& span) {
  const int64_t between_ps = LengthOf(span.between), whole_ps = LengthOf(span.spans);
  if (between_ps <= 0 || whole_ps <= 0) return "";
  const Account account = AccountOf(timeline, tags, span.thread, span.between);
  const NamedPlace place = FindPlace(timeline, tags, account, between_ps);
  std::string text =
      StrCat("between the steps: ", HumanPercent(static_cast<double>(between_ps) / static_cast<double>(whole_ps)),
             " of this time");
  if (place.text.empty()) return text;
  return StrCat(text, ", of which ", place.text, " with all that it calls: ", HumanPercent(place.share));
}

}  // namespace tbprof
