// SPDX-License-Identifier: Apache-2.0
//
// The median of numbers.
#ifndef TBPROF_WRITER_BASE_MEDIAN_H_
#define TBPROF_WRITER_BASE_MEDIAN_H_

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tbprof {

// For an even count, the upper of the two middle numbers; 0 for no numbers.
template <typename Number>
Number Median(std::vector<Number> numbers) {
  if (numbers.empty()) return {};
  const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2);
  std::nth_element(numbers.begin(), middle, numbers.end());
  return *middle;
}

}  // namespace tbprof

#endif  // TBPROF_WRITER_BASE_MEDIAN_H_
