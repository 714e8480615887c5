// SPDX-License-Identifier: Apache-2.0
//
// Whether steps that were found in a part of the time, the full detail, can be those of the whole: an inner loop may
// repeat there, or an evaluation.
//
// Process: converter. Pure function of the timeline.
#ifndef TBPROF_WRITER_CONVERT_REPRESENTATIVE_STEPS_H_
#define TBPROF_WRITER_CONVERT_REPRESENTATIVE_STEPS_H_

#include <vector>

#include "writer/timeline/timeline.h"

namespace tbprof {

// Regular steps must fill most of the full detail. Compares them with totals of the whole time: the kernels that run
// during the steps must be those that keep the devices busy; without devices, the lines of Python those that their
// thread is sampled at. True if there is neither.
bool AreRepresentative(const Timeline& timeline, const std::vector<Step>& steps);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_REPRESENTATIVE_STEPS_H_
