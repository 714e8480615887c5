// SPDX-License-Identifier: Apache-2.0
//
// The member `steps` of summary.json: each step if there are few, and the distribution of the step lengths.
//
// Process: converter. A pure function of the timeline.
#ifndef TBPROF_WRITER_OUTPUTS_SUMMARY_STEPS_H_
#define TBPROF_WRITER_OUTPUTS_SUMMARY_STEPS_H_

#include <cstddef>
#include <nlohmann/json.hpp>

#include "writer/timeline/timeline.h"

namespace tbprof {

inline constexpr size_t kMaxListedSteps = 2000;

nlohmann::ordered_json StepsJson(const Timeline& timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_SUMMARY_STEPS_H_
