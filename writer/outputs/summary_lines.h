// SPDX-License-Identifier: Apache-2.0
//
// Shared parts of the terminal's summary and of the profile's notes.
//
// Process: converter.
#ifndef TBPROF_WRITER_OUTPUTS_SUMMARY_LINES_H_
#define TBPROF_WRITER_OUTPUTS_SUMMARY_LINES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "writer/base/summary_format.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

inline constexpr size_t kTopRows = 5;

enum class Style { kPlain, kHeading, kWarning, kError, kDim, kColumns };  // kColumns: column names of the rows below

struct Line {
  std::string text;
  Style style = Style::kPlain;
  bool whole = false;       // paths and commands are never cut
  bool needs_rows = false;  // means nothing without the lines below it
};
using Section = std::vector<Line>;

inline std::string Plural(uint64_t count, std::string_view one, std::string_view many) {
  return StrCat(HumanCount(count), " ", count == 1 ? one : many);
}

// The rank that this timeline shows, between `before` and `behind`, if the run has several ranks; else nothing.
inline std::string OfRank(const Timeline& timeline, std::string_view before, std::string_view behind = "") {
  return timeline.by_rank.size() > 1 && timeline.rank >= 0 ? StrCat(before, timeline.rank, behind) : "";
}

// `; all recorded ones are drawn from 2.8 s to 3.3 s`, behind how many events are not drawn; empty: of no time are all.
inline std::string FullDetailText(const Timeline& timeline) {
  const TimeSpan& detail = timeline.full_detail;
  if (detail.end_ps <= detail.start_ps) return "";
  return StrCat("; all recorded ones are drawn from ", HumanTime(detail.start_ps), " to ", HumanTime(detail.end_ps));
}

// Joins as many parts as fit into the columns, at least one.
inline std::string Joined(std::string_view head, const std::vector<std::string>& parts, size_t columns) {
  std::string text(head);
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string part = StrCat(i == 0 ? "" : ", ", parts[i]);
    if (i > 0 && Utf8Columns(text) + Utf8Columns(part) > columns) break;
    text += part;
  }
  return text;
}

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_SUMMARY_LINES_H_
