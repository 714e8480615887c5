// SPDX-License-Identifier: Apache-2.0
//
// Sums of untrusted numbers, and times of untrusted files in nanoseconds: they saturate at the limits of their type.
#ifndef TBPROF_WRITER_BASE_SATURATING_H_
#define TBPROF_WRITER_BASE_SATURATING_H_

#include <cstdint>
#include <ctime>

namespace tbprof {

inline void AddSaturating(int64_t* sum, int64_t more) {
  if (__builtin_add_overflow(*sum, more, sum)) *sum = INT64_MAX;
}
inline void AddSaturating(uint64_t* sum, uint64_t more) {
  if (__builtin_add_overflow(*sum, more, sum)) *sum = UINT64_MAX;
}

inline int64_t NanosecondsOf(const timespec& time) {
  int64_t ns = 0;
  const bool overflows = __builtin_mul_overflow(int64_t{time.tv_sec}, int64_t{1'000'000'000}, &ns) ||
                         __builtin_add_overflow(ns, int64_t{time.tv_nsec}, &ns);
  return !overflows ? ns : time.tv_sec < 0 ? INT64_MIN : INT64_MAX;
}

}  // namespace tbprof

#endif  // TBPROF_WRITER_BASE_SATURATING_H_
