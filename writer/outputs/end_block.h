// SPDX-License-Identifier: Apache-2.0
//
// What the terminal shows at the end of a run and of each capture: four lines that answer (verdict, steps, blocker, how
// to view), then at most ten more. SummaryText (summary.h) has all tables.
//
// Process: converter. Pure function of the timeline and of what was published.
#ifndef TBPROF_WRITER_OUTPUTS_END_BLOCK_H_
#define TBPROF_WRITER_OUTPUTS_END_BLOCK_H_

#include <string>
#include <vector>

#include "writer/outputs/summary.h"

namespace tbprof {

// Without the `tbprof: ` prefix and without newline.
std::vector<std::string> EndBlock(const Timeline& timeline, const std::vector<PublishedFile>& files,
                                  const SummaryOptions& options);

// The verdict, and all tables behind it.
std::vector<std::string> FullSummary(const Timeline& timeline, const std::vector<PublishedFile>& files,
                                     const SummaryOptions& options);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_END_BLOCK_H_
