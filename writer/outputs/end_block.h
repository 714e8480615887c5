// SPDX-License-Identifier: Apache-2.0
//
// The text on the terminal at the end of a run and of each capture: four lines with the answer (verdict, steps,
// blocker, how to view), then at most ten more. SummaryText (summary.h) has all tables.
//
// Process: converter. Pure function of the timeline and of the published files.
#ifndef TBPROF_WRITER_OUTPUTS_END_BLOCK_H_
#define TBPROF_WRITER_OUTPUTS_END_BLOCK_H_

#include <string>
#include <vector>

#include "writer/outputs/summary.h"

namespace tbprof {

// Lines without the `tbprof: ` prefix and without newline.
std::vector<std::string> EndBlock(const Timeline& timeline, const std::vector<PublishedFile>& files,
                                  const SummaryOptions& options);

// The verdict, followed by all tables.
std::vector<std::string> FullSummary(const Timeline& timeline, const std::vector<PublishedFile>& files,
                                     const SummaryOptions& options);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_END_BLOCK_H_
