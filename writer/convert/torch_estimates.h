// SPDX-License-Identifier: Apache-2.0
//
// The time of PyTorch's operations that were not recorded, for TensorBoard's page of operations, which adds up events
// without regard to sampling. Each operation that has a row gets bars in the periods that were skipped, in total as
// long as its missing time.
//
// Process: converter. Pure function of a finished timeline.
#ifndef TBPROF_WRITER_CONVERT_TORCH_ESTIMATES_H_
#define TBPROF_WRITER_CONVERT_TORCH_ESTIMATES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "writer/timeline/timeline.h"

namespace tbprof {

struct EstimateBar {
  StringId operation = 0;  // the `tf_op`; 0: EstimateLine::note
  int64_t start_ps = 0, duration_ps = 0;
};
struct EstimateLine {
  std::string note;               // `tf_op` of the row that explains the others; empty: it is on another line
  std::vector<EstimateBar> bars;  // in order of time, disjoint
};

// The lines of one process; empty: all of its operations are recorded.
std::vector<EstimateLine> TorchEstimates(const Timeline& timeline, uint32_t process);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_TORCH_ESTIMATES_H_
