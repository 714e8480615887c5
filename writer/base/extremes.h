// SPDX-License-Identifier: Apache-2.0
//
// Reduces samples to fewer samples that show the same curve: it keeps the lowest and the highest of each group of
// neighbours.
//
//   samples = KeepExtremes(samples, 2000, [](auto from, auto to) { return std::minmax_element(from, to); });
//
// Process: converter. Allocates.
#ifndef TBPROF_WRITER_BASE_EXTREMES_H_
#define TBPROF_WRITER_BASE_EXTREMES_H_

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tbprof {

// `extremes`: takes two iterators and returns the pair of the lowest and the highest sample between them. It decides
// between equal samples.
template <typename Sample, typename Extremes>
std::vector<Sample> KeepExtremes(const std::vector<Sample>& samples, size_t groups, Extremes extremes) {
  std::vector<Sample> kept;
  kept.reserve(2 * groups);
  for (size_t group = 0; group < groups; ++group) {
    const auto from = samples.begin() + static_cast<ptrdiff_t>(samples.size() * group / groups);
    const auto to = samples.begin() + static_cast<ptrdiff_t>(samples.size() * (group + 1) / groups);
    if (from == to) continue;
    const auto [low, high] = extremes(from, to);
    kept.push_back(*std::min(low, high));
    if (low != high) kept.push_back(*std::max(low, high));
  }
  return kept;
}

}  // namespace tbprof

#endif  // TBPROF_WRITER_BASE_EXTREMES_H_
