// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/python_totals.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace tbprof {

PythonSums::PythonSums(const Timeline& timeline) : python_(timeline.python) {
  for (const PythonFunction& function : python_.functions) {
    origins_.push_back(PythonOriginOf(timeline.strings.Get(function.file), timeline.strings.Get(function.name)));
  }
  absl::flat_hash_map<std::pair<uint32_t, int32_t>, uint32_t> known;
  line_of_stack_.resize(python_.stacks.size());
  for (size_t i = 1; i < python_.stacks.size(); ++i) {
    const PythonStack& stack = python_.stacks[i];
    const auto [line, added] = known.try_emplace({stack.function, stack.line}, static_cast<uint32_t>(lines_.size()));
    if (added) lines_.push_back({stack.function, stack.line, {}, {}});
    line_of_stack_[i] = line->second;
  }
}

PythonTotals PythonSums::Of(const std::vector<const std::vector<PythonTally>*>& tallies) const {
  PythonTotals totals;
  std::vector<PythonFunctionTotal> functions(python_.functions.size());
  std::vector<PythonLineTotal> lines = lines_, own_lines = lines_;
  // The latest tally that each function or line was counted for: a recursive function counts once.
  std::vector<const PythonTally*> counted(functions.size()), counted_lines(lines.size());
  for (const std::vector<PythonTally>* const rows : tallies) {
    for (const PythonTally& tally : *rows) {
      totals.all.Add(tally);
      if (tally.stack == 0) {
        totals.without_frames.Add(tally);
        continue;
      }
      functions[python_.stacks[tally.stack].function].self.Add(tally);
      lines[line_of_stack_[tally.stack]].self.Add(tally);
      bool imports = false, is_own = false;
      for (uint32_t stack = tally.stack; stack != 0; stack = python_.stacks[stack].parent) {
        const uint32_t function = python_.stacks[stack].function, line = line_of_stack_[stack];
        if (std::exchange(counted[function], &tally) != &tally) functions[function].total.Add(tally);
        if (std::exchange(counted_lines[line], &tally) != &tally) lines[line].total.Add(tally);
        imports |= origins_[function] == PythonOrigin::kImport;
        if (is_own || origins_[function] != PythonOrigin::kProgram) continue;
        own_lines[line].self.Add(tally);
        is_own = true;
      }
      if (imports) totals.importing.Add(tally);
    }
  }
  const auto longer = [](const auto& a, const auto& b) {
    return std::pair(a.self.wall_ps, a.total.wall_ps) > std::pair(b.self.wall_ps, b.total.wall_ps);
  };
  for (uint32_t i = 0; i < functions.size(); ++i) {
    functions[i].function = i;
    if (functions[i].total.samples > 0) totals.functions.push_back(functions[i]);
  }
  std::ranges::copy_if(lines, std::back_inserter(totals.lines),
                       [](const PythonLineTotal& line) { return line.total.samples > 0; });
  for (size_t i = 0; i < own_lines.size(); ++i) {
    own_lines[i].total = lines[i].total;
    if (own_lines[i].self.samples > 0) totals.own_lines.push_back(own_lines[i]);
  }
  std::ranges::stable_sort(totals.own_lines, longer);
  std::ranges::stable_sort(totals.functions, longer);
  std::ranges::stable_sort(totals.lines, longer);
  return totals;
}

PythonTotals PythonSums::OfThreads(const std::vector<const PythonThread*>& threads) const {
  std::vector<const std::vector<PythonTally>*> tallies;
  for (const PythonThread* thread : threads) tallies.push_back(&thread->tallies);
  return Of(tallies);
}

std::vector<uint32_t> StacksWithoutLines(const PythonTimeline& python) {
  std::vector<uint32_t> same(python.stacks.size());
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, uint32_t> first;
  // A parent comes before its children.
  for (uint32_t i = 1; i < python.stacks.size(); ++i) {
    same[i] = first.try_emplace({same[python.stacks[i].parent], python.stacks[i].function}, i).first->second;
  }
  return same;
}

}  // namespace tbprof
