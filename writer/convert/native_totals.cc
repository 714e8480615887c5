// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/native_totals.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace tbprof {

NativeSums::NativeSums(const NativeTimeline& native) : native_(native), function_of_stack_(native.stacks.size()) {
  absl::flat_hash_map<std::pair<StringId, StringId>, uint32_t> index;
  for (uint32_t i = 1; i < native.stacks.size(); ++i) {
    const NativeStack& stack = native.stacks[i];
    const auto [found, added] =
        index.try_emplace({stack.function, stack.module}, static_cast<uint32_t>(functions_.size()));
    if (added) functions_.push_back({i, {}, {}});
    function_of_stack_[i] = found->second;
  }
}

NativeTotals NativeSums::Of(const std::vector<const std::vector<NativeTally>*>& tallies) const {
  NativeTotals totals;
  std::vector<NativeFunctionTotal> functions = functions_;
  // The latest tally that each function was counted for: a recursive function counts once.
  std::vector<const NativeTally*> counted(functions.size());
  for (const std::vector<NativeTally>* const rows : tallies) {
    for (const NativeTally& tally : *rows) {
      totals.all.Add(tally);
      if (tally.stack == 0) {
        totals.without_frames.Add(tally);
        continue;
      }
      functions[function_of_stack_[tally.stack]].self.Add(tally);
      for (uint32_t stack = tally.stack; stack != 0; stack = native_.stacks[stack].parent) {
        const uint32_t function = function_of_stack_[stack];
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

NativeTotals NativeSums::OfThreads(const std::vector<const NativeThread*>& threads) const {
  std::vector<const std::vector<NativeTally>*> tallies;
  for (const NativeThread* thread : threads) tallies.push_back(&thread->tallies);
  return Of(tallies);
}

NativeTotals NativeSums::OfAll() const {
  std::vector<const NativeThread*> threads;
  for (const NativeThread& thread : native_.threads) threads.push_back(&thread);
  return OfThreads(threads);
}

std::vector<NativeFunctionTotal> NativeSums::InnermostOf(const std::vector<NativeTally>& tallies) const {
  absl::flat_hash_map<uint32_t, NativeSamplesTotal> sums;
  for (const NativeTally& tally : tallies) {
    if (tally.stack != 0) sums[function_of_stack_[tally.stack]].Add(tally);
  }
  std::vector<NativeFunctionTotal> out;
  for (const auto& [function, sum] : sums) out.push_back({functions_[function].stack, sum, {}});
  std::ranges::sort(out, [](const NativeFunctionTotal& a, const NativeFunctionTotal& b) {
    return std::pair(-a.self.cpu_ps, a.stack) < std::pair(-b.self.cpu_ps, b.stack);
  });
  return out;
}

std::vector<uint32_t> NativeStacksWithoutLines(const NativeTimeline& native) {
  std::vector<uint32_t> same(native.stacks.size());
  absl::flat_hash_map<std::tuple<uint32_t, StringId, StringId>, uint32_t> first;
  // A parent comes before its children.
  for (uint32_t i = 1; i < native.stacks.size(); ++i) {
    const NativeStack& stack = native.stacks[i];
    same[i] = first.try_emplace({same[stack.parent], stack.function, stack.module}, i).first->second;
  }
  return same;
}

}  // namespace tbprof
