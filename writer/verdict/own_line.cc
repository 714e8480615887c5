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
#include "writer/verdict/place_of_row.h"

namespace tbprof {
namespace {

// Least share of the time, and least share above that of the place that the verdict names.
constexpr double kLeastOfLine = 0.3, kLeastMore = 0.15;
// A line calls others if they take this share of the time.
constexpr double kCallsOthers = 0.05;

struct OwnLine {
  AccountRow longest;  // of its rows
  int64_t ps = 0;
  int64_t below_ps = 0;  // in lines of the program that it calls
};

// By the frame that PythonTags::LineOf returns.
std::map<uint32_t, OwnLine> OwnLines(const PythonTags& tags, const Account& account) {
  std::map<uint32_t, OwnLine> lines;
  for (const AccountRow& row : account.RowsOf([](const AccountRow&) { return true; })) {
    if (!tags.HasOwnFrame(row.frame)) continue;
    OwnLine& line = lines[tags.LineOf(row.frame)];
    if (row.ps > line.longest.ps) line.longest = row;
    AddSaturating(&line.ps, row.ps);
    std::set<uint32_t> callers;
    for (uint32_t frame = tags.OwnCallerOf(row.frame); frame != 0; frame = tags.OwnCallerOf(frame)) {
      if (callers.insert(tags.LineOf(frame)).second) AddSaturating(&lines[tags.LineOf(frame)].below_ps, row.ps);
    }
  }
  return lines;
}

}  // namespace

std::string FactOfOwnLine(const Timeline& timeline, const PythonTags& tags, const Account& account,
                          const Verdict& verdict) {
  const auto total = static_cast<double>(verdict.total_ps);
  const OwnLine* most = nullptr;
  const std::map<uint32_t, OwnLine> lines = OwnLines(tags, account);
  for (const auto& [frame, line] : lines) {
    if (static_cast<double>(line.below_ps) >= kCallsOthers * total) continue;
    if (most == nullptr || line.ps > most->ps) most = &line;
  }
  if (most == nullptr || static_cast<double>(most->ps) < kLeastOfLine * total) return "";
  const std::optional<Where> place =
      PlaceOfRow(timeline, tags, WhereRole::kSpends, verdict.thread, most->longest, verdict.total_ps);
  if (!place.has_value() || place->line <= 0) return "";
  const double share = std::min(1.0, static_cast<double>(most->ps) / total);
  const auto says_more = [&](const Where& where) {
    return where.role == WhereRole::kSpends && where.share + kLeastMore > share;
  };
  if (std::ranges::any_of(verdict.where, says_more)) return "";
  return StrCat(PrintableUtf8(ShownFile(timeline.strings.Get(place->file))), ":", place->line, " ",
                PrintableUtf8(timeline.strings.Get(place->function)), " with all that it calls: ", HumanPercent(share));
}

}  // namespace tbprof
