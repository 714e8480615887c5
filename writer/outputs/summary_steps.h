// SPDX-License-Identifier: Apache-2.0
//
// The member `steps` of summary.json: each step if there are few, and the distribution of the step lengths.
//
// Process: converter. A pure function of the timeline.
#ifndef TBPROF_WRITER_OUTPUTS_SUMMARY_STEPS_H_
#define TBPROF_WRITER_OUTPUTS_SUMMARY_STEPS_H_

#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "writer/timeline/timeline.h"

namespace tbprof {

inline constexpr size_t kMaxListedSteps = 2000;
// Of steps that are not listed, the summary has the medians and means of at most this number of blocks.
inline constexpr size_t kMaxStepBlocks = 250;

// The medians of blocks of consecutive lengths: they show how much the typical step varies within the window. All
// blocks have `block` steps; a shorter one at the end is left out.
std::vector<double> BlockMedians(std::span<const double> lengths, size_t block);
// The means of the same blocks, which show rare long steps, too.
std::vector<double> BlockMeans(std::span<const double> lengths, size_t block);

nlohmann::ordered_json StepsJson(const Timeline& timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_SUMMARY_STEPS_H_
