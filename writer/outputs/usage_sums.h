// SPDX-License-Identifier: Apache-2.0
//
// What the kernel counted of the recorded threads, added up.
//
// Process: converter. A pure function of the timeline.
#ifndef TBPROF_WRITER_OUTPUTS_USAGE_SUMS_H_
#define TBPROF_WRITER_OUTPUTS_USAGE_SUMS_H_

#include "writer/timeline/timeline.h"

namespace tbprof {

struct UsageSums {
  double cpu_s = 0;
  double wait_s = 0;  // in the window, the threads could run and had no CPU
};
UsageSums SumsOfThreads(const Timeline& timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_USAGE_SUMS_H_
