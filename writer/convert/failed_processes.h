// SPDX-License-Identifier: Apache-2.0
//
// The processes of a job that failed up to the end of a window, also those that ended before it.
//
// Process: converter, one thread. Untrusted: everything that processes reported.
#ifndef TBPROF_WRITER_CONVERT_FAILED_PROCESSES_H_
#define TBPROF_WRITER_CONVERT_FAILED_PROCESSES_H_

#include <vector>

#include "writer/convert/capture_window.h"
#include "writer/spool/spool_facts.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

// The last ones of all ranks, in order of their ends. The clock of `facts` must have its origin (FindCaptureWindow).
std::vector<FailedProcess> FindFailedProcesses(const CaptureWindow& window, SpoolFacts* facts);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_FAILED_PROCESSES_H_
