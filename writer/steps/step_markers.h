// SPDX-License-Identifier: Apache-2.0
//
// Finds steps that the program has marked: ranges or marks whose name denotes a step, or matches --step-marker.
//
// Process: converter.
#ifndef TBPROF_WRITER_STEPS_STEP_MARKERS_H_
#define TBPROF_WRITER_STEPS_STEP_MARKERS_H_

#include <cstdint>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

// Returns OK, or the error in the regular expression (ECMAScript, without back references).
absl::Status CheckStepMarker(const std::string& expression);

// Matches the names of ranges that are steps. `expression` empty: only names that can hardly mean anything else, such
// as `ProfilerStep#7` and `iteration 12`.
class StepNames {
 public:
  explicit StepNames(const std::string& expression);  // must have passed CheckStepMarker
  bool Match(std::string_view name) const;

 private:
  std::regex wanted_;
};

// A few steps that are much longer or shorter than the others are no regular ones.
void MarkOutliers(std::vector<Step>* steps);

struct MarkedSteps {
  std::vector<Step> steps;  // in order, without overlaps; empty: nothing is marked
  std::string source;       // e.g. "annotation `iteration`"
  double confidence = 0;
  std::vector<StepLoop> loops;  // other loops
};

// Returns the steps of the thread of `process` with the most marks that StepNames matches; if it has none, of another
// process. If `expression` matches no annotation, it may be a kernel name: then a step lasts from each launch of the
// kernel to the next.
MarkedSteps FindMarkedSteps(const Timeline& timeline, uint32_t process, const std::string& expression);

}  // namespace tbprof

#endif  // TBPROF_WRITER_STEPS_STEP_MARKERS_H_
