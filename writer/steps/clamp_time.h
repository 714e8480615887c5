// SPDX-License-Identifier: Apache-2.0
//
// Clamps the times of steps, so that sums and differences of two of them do not overflow.
#ifndef TBPROF_WRITER_STEPS_CLAMP_TIME_H_
#define TBPROF_WRITER_STEPS_CLAMP_TIME_H_

#include <algorithm>
#include <cstdint>

namespace tbprof {

inline constexpr int64_t kTimeLimit = int64_t{1} << 61;
inline int64_t ClampTime(int64_t time) { return std::clamp(time, -kTimeLimit, kTimeLimit); }

}  // namespace tbprof

#endif  // TBPROF_WRITER_STEPS_CLAMP_TIME_H_
