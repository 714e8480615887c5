// SPDX-License-Identifier: Apache-2.0
#include "writer/verdict/place_of_row.h"

#include <algorithm>

#include "writer/verdict/native_places.h"

namespace tbprof {

std::optional<Where> PlaceOfRow(const Timeline& timeline, const PythonTags& tags, WhereRole role, uint32_t thread,
                                const AccountRow& row, int64_t of_ps) {
  constexpr size_t kMostCallers = 4;
  if (row.frame == 0 && row.call_site == 0) return std::nullopt;
  Where where;
  where.role = role;
  where.thread = thread;
  where.share = of_ps <= 0 ? 0 : std::min(1.0, static_cast<double>(row.ps) / static_cast<double>(of_ps));
  if (row.frame != 0) {
    const PythonStack& frame = timeline.python.stacks[row.frame];
    const PythonFunction& function = timeline.python.functions[frame.function];
    where.file = function.file;
    where.line = frame.line;
    where.function = function.name;
    uint32_t caller = tags.OwnCallerOf(row.frame);
    StringId file = where.file;
    int32_t line = where.line;
    for (; caller != 0 && where.callers.size() < kMostCallers; caller = tags.OwnCallerOf(caller)) {
      const PythonStack& called = timeline.python.stacks[caller];
      const PythonFunction& of = timeline.python.functions[called.function];
      // A comprehension is a function that its own line calls.
      if (of.file == file && called.line == line) continue;
      where.callers.push_back({of.file, called.line, of.name});
      file = of.file;
      line = called.line;
    }
  } else {
    where.function = row.call_site;
    if (row.doing == kRunning) {
      const NativeLine line = MainLineOf(timeline, thread, row.call_site);
      where.file = line.file;
      where.line = line.line;
    }
  }
  if (row.doing == kBlocked) where.doing = "a system call";
  if (row.part == StepPart::kStarvation) where.doing = "the queue for a CPU";
  if (row.doing >= 0) where.doing = timeline.types[row.type].name;
  // By itself the call (`futex`) says nothing to those who do not know the library.
  if (row.doing == static_cast<int>(WaitClass::kPool)) where.doing = "a wait for a library's threads";
  return where;
}

std::vector<Where> BusiestPlaces(const Timeline& timeline, const PythonTags& tags, uint32_t thread,
                                 const Account& account, int64_t of_ps) {
  constexpr size_t kMostPlaces = 6;
  std::vector<Where> places;
  for (const AccountRow& row : account.RowsOf([](const AccountRow& of) { return of.part != StepPart::kCollectives; })) {
    if (places.size() >= kMostPlaces) break;
    std::optional<Where> place = PlaceOfRow(timeline, tags, WhereRole::kSpends, thread, row, of_ps);
    if (place.has_value()) places.push_back(*std::move(place));
  }
  return places;
}

}  // namespace tbprof
