// SPDX-License-Identifier: Apache-2.0
#include "launcher/gate/moved_lines.h"

#include <algorithm>

namespace tbprof {
namespace {

constexpr size_t kMostLines = 200;
// The lines have moved only if so much more of the time is then alike: otherwise a line that became slower would be
// taken for its neighbour.
constexpr double kMuchBetter = 1.25;

}  // namespace

std::vector<std::pair<size_t, size_t>> MatchMovedLines(const std::vector<LineTimes>& lines) {
  const size_t count = lines.size();
  if (count < 2 || count > kMostLines) return {};
  // best[i][j]: the most time that is alike of the base's first i and the new side's first j lines.
  std::vector<std::vector<double>> best(count + 1, std::vector<double>(count + 1, 0));
  const auto alike = [&](size_t i, size_t j) { return std::min(lines[i].base, lines[j].now); };
  double as_numbered = 0;
  for (size_t i = 0; i < count; ++i) {
    as_numbered += alike(i, i);
    for (size_t j = 0; j < count; ++j) {
      best[i + 1][j + 1] = std::max({best[i][j + 1], best[i + 1][j], best[i][j] + alike(i, j)});
    }
  }
  if (best[count][count] <= kMuchBetter * as_numbered) return {};
  std::vector<std::pair<size_t, size_t>> pairs;
  for (size_t i = count, j = count; i > 0 && j > 0;) {
    if (best[i][j] == best[i - 1][j]) {
      --i;
    } else if (best[i][j] == best[i][j - 1]) {
      --j;
    } else {
      pairs.emplace_back(--i, --j);
    }
  }
  std::ranges::reverse(pairs);
  return pairs;
}

}  // namespace tbprof
