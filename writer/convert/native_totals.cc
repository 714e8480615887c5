// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/native_totals.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace tbprof {

NativeTotals TotalsOfNative(const NativeTimeline& native) {
  NativeTotals totals;
  absl::flat_hash_map<std::pair<StringId, StringId>, uint32_t> index;
  std::vector<uint32_t> function_of(native.stacks.size());
  std::vector<NativeFunctionTotal> functions;
  for (uint32_t i = 1; i < native.stacks.size(); ++i) {
    const NativeStack& stack = native.stacks[i];
    const auto [found, added] =
        index.try_emplace({stack.function, stack.module}, static_cast<uint32_t>(functions.size()));
    if (added) functions.push_back({i, {}, {}});
    function_of[i] = found->second;
  }
  // The tally that a function was last counted for: a recursive one counts once.
  std::vector<const NativeTally*> counted(functions.size());
  for (const NativeThread& thread : native.threads) {
    for (const NativeTally& tally : thread.tallies) {
      totals.all.Add(tally);
      if (tally.stack == 0) {
        totals.without_frames.Add(tally);
        continue;
      }
      functions[function_of[tally.stack]].self.Add(tally);
      for (uint32_t stack = tally.stack; stack != 0; stack = native.stacks[stack].parent) {
        const uint32_t function = function_of[stack];
        if (std::exchange(counted[function], &tally) != &tally) functions[function].total.Add(tally);
      }
    }
  }
  std::erase_if(functions, [](const NativeFunctionTotal& function) { return function.total.samples == 0; });
  std::ranges::stable_sort(functions, [](const NativeFunctionTotal& a, const NativeFunctionTotal& b) {
    return std::pair(a.self.cpu_ps, a.total.cpu_ps) > std::pair(b.self.cpu_ps, b.total.cpu_ps);
  });
  totals.functions = std::move(functions);
  return totals;
}

std::vector<uint32_t> NativeStacksWithoutLines(const NativeTimeline& native) {
  std::vector<uint32_t> same(native.stacks.size());
  absl::flat_hash_map<std::tuple<uint32_t, StringId, StringId>, uint32_t> first;
  // A parent stands before its children.
  for (uint32_t i = 1; i < native.stacks.size(); ++i) {
    const NativeStack& stack = native.stacks[i];
    same[i] = first.try_emplace({same[stack.parent], stack.function, stack.module}, i).first->second;
  }
  return same;
}

}  // namespace tbprof
