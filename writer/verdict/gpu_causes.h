// SPDX-License-Identifier: Apache-2.0
//
// Causes that show in what the host waits for a GPU: synchronization, pageable copies, many short kernels.
//
// Process: converter. Pure function of the timeline.
#ifndef TBPROF_WRITER_VERDICT_GPU_CAUSES_H_
#define TBPROF_WRITER_VERDICT_GPU_CAUSES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "writer/verdict/cause_candidate.h"
#include "writer/verdict/cause_choice.h"

namespace tbprof {

struct GpuCauses {
  std::vector<CauseCandidate> candidates;
  std::string fact;  // empty: no GPU was used
  // The GPU computes nearly all the time: what the host does meanwhile, waits included, makes nothing longer.
  bool is_limit = false;
};

// `steps`: in `total_ps`; 0: not known.
GpuCauses FindGpuCauses(const CauseInputs& inputs, uint64_t steps, int64_t total_ps);

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_GPU_CAUSES_H_
