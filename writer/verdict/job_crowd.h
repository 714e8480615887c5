// SPDX-License-Identifier: Apache-2.0
//
// How many threads of the job compete for the CPUs.
//
// Process: converter. A pure function of the timeline.
#ifndef TBPROF_WRITER_VERDICT_JOB_CROWD_H_
#define TBPROF_WRITER_VERDICT_JOB_CROWD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "writer/timeline/time_span.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

// Mean numbers of threads.
struct JobCrowd {
  double ran = 0;
  double delayed = 0;   // runnable without a CPU
  double here = 0;      // that ran, of the process and its descendants
  double children = 0;  // that ran, of the descendants
  double delayed_children = 0;
  // The command used far more CPU time than its threads that were seen: others lived too briefly. All are lower bounds.
  bool is_partial = false;
};

// In the spans, which are not empty. Of other ranks only the mean over the whole window is known.
JobCrowd CrowdOf(const Timeline& timeline, uint32_t process, const std::vector<TimeSpan>& spans);

// `the job used 1.2`, or `the job used at least 1.2`.
std::string UsedCpus(const JobCrowd& crowd);

// ` of 4 CPUs`, ` of 1 CPUs (2 before)`; ` CPUs` if their number is not known.
std::string OfCpus(const CpuLimits& limits);
// The number of CPUs that the job may use, by its affinity and its quota; 0: not known.
double CpusOf(const CpuLimits& limits);

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_JOB_CROWD_H_
