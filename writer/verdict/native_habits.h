// SPDX-License-Identifier: Apache-2.0
//
// What native code does besides its own work, by the functions in which samples find it: it allocates and frees, or
// threads of OpenMP spin while they wait for each other.
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_VERDICT_NATIVE_HABITS_H_
#define TBPROF_WRITER_VERDICT_NATIVE_HABITS_H_

#include <cstdint>
#include <vector>

#include "writer/timeline/time_span.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

// Shares of the sampled CPU time; 0 without samples.
struct NativeHabits {
  double allocates = 0;  // of the thread, in malloc, free and the like
  double spins = 0;      // of all threads of its process, in the waits of OpenMP's library
  double doubles = 0;    // of the thread, in products of matrices of doubles for PyTorch
};
NativeHabits NativeHabitsOf(const Timeline& timeline, uint32_t thread, const std::vector<TimeSpan>& spans);

// The share of all samples of CPU time that were in tbprof's own library; nothing: too few samples to say.
struct OwnShare {
  bool known = false;
  double share = 0;
  int64_t cpu_ps = 0;  // that the samples stand for
};
OwnShare OwnShareOfSamples(const Timeline& timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_NATIVE_HABITS_H_
