// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/python_totals.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace tbprof {

PythonTotals TotalsOfThreads(const PythonTimeline& python, const std::vector<const PythonThread*>& threads) {
  PythonTotals totals;
  std::vector<PythonFunctionTotal> functions(python.functions.size());
  // The tally that a function was last counted for: a recursive one counts once.
  std::vector<const PythonTally*> counted(python.functions.size());
  for (const PythonThread* thread : threads) {
    for (const PythonTally& tally : thread->tallies) {
      totals.all.Add(tally);
      if (tally.stack == 0) {
        totals.without_frames.Add(tally);
        continue;
      }
      functions[python.stacks[tally.stack].function].self.Add(tally);
      for (uint32_t stack = tally.stack; stack != 0; stack = python.stacks[stack].parent) {
        const uint32_t function = python.stacks[stack].function;
        if (std::exchange(counted[function], &tally) != &tally) functions[function].total.Add(tally);
      }
    }
  }
  for (uint32_t i = 0; i < functions.size(); ++i) {
    functions[i].function = i;
    if (functions[i].total.samples > 0) totals.functions.push_back(functions[i]);
  }
  std::stable_sort(totals.functions.begin(), totals.functions.end(),
                   [](const PythonFunctionTotal& a, const PythonFunctionTotal& b) {
                     return std::pair(a.self.wall_ps, a.total.wall_ps) > std::pair(b.self.wall_ps, b.total.wall_ps);
                   });
  return totals;
}

std::string_view StemOfThreadName(std::string_view name) {
  const auto end = name.find_last_not_of("0123456789-_:#. ");
  return end == std::string_view::npos ? name : name.substr(0, end + 1);
}

std::vector<PythonGroup> GroupPythonThreads(const Timeline& timeline) {
  std::vector<PythonGroup> groups;
  std::map<std::tuple<std::string, bool, bool, std::string>, size_t> index;
  for (const PythonThread& samples : timeline.python.threads) {
    const Thread& thread = timeline.threads[samples.thread];
    const Process& process = timeline.processes[thread.process];
    // The digit of `python3` is no number of a thread.
    const bool is_unnamed = thread.name == process.name;
    const std::string stem =
        thread.is_main ? "main" : std::string(is_unnamed ? thread.name : StemOfThreadName(thread.name));
    const auto [group, added] = index.try_emplace({process.name, process.forked, thread.is_main, stem}, groups.size());
    if (added) groups.push_back({process.name, process.forked, thread.is_main, stem, {}});
    groups[group->second].members.push_back(&samples);
  }
  return groups;
}

std::vector<uint32_t> StacksWithoutLines(const PythonTimeline& python) {
  std::vector<uint32_t> same(python.stacks.size());
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, uint32_t> first;
  // A parent stands before its children.
  for (uint32_t i = 1; i < python.stacks.size(); ++i) {
    same[i] = first.try_emplace({same[python.stacks[i].parent], python.stacks[i].function}, i).first->second;
  }
  return same;
}

}  // namespace tbprof
