// SPDX-License-Identifier: Apache-2.0
//
// Sums of untrusted numbers: they saturate at the highest value.
#ifndef TBPROF_WRITER_BASE_SATURATING_H_
#define TBPROF_WRITER_BASE_SATURATING_H_

#include <cstdint>

namespace tbprof {

inline void AddSaturating(int64_t* sum, int64_t more) {
  if (__builtin_add_overflow(*sum, more, sum)) *sum = INT64_MAX;
}
inline void AddSaturating(uint64_t* sum, uint64_t more) {
  if (__builtin_add_overflow(*sum, more, sum)) *sum = UINT64_MAX;
}

}  // namespace tbprof

#endif  // TBPROF_WRITER_BASE_SATURATING_H_
