// SPDX-License-Identifier: Apache-2.0
//
// Steps that the program has marked itself: ranges or marks whose name says so, or that --step-marker names.
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

// OK, or what is wrong with the regular expression (ECMAScript, without back references).
absl::Status CheckStepMarker(const std::string& expression);

// Whether a range's name says that it is a step. `expression` empty: names that can hardly mean anything else, such as
// `ProfilerStep#7` and `iteration 12`.
class StepNames {
 public:
  explicit StepNames(const std::string& expression);  // one that CheckStepMarker finds good
  bool Match(std::string_view name) const;

 private:
  std::regex wanted_;
};

struct MarkedSteps {
  std::vector<Step> steps;  // in order, without overlaps; empty: nothing is marked
  std::string source;       // e.g. `marker iteration`
  double confidence = 0;
  std::vector<StepLoop> loops;  // other loops
};

// The steps of the thread of `process`, or of whichever process, that has marked the most; by StepNames. Where an
// `expression` finds no annotation, it may be a kernel's: then from each of its launches to the next.
MarkedSteps FindMarkedSteps(const Timeline& timeline, uint32_t process, const std::string& expression);

}  // namespace tbprof

#endif  // TBPROF_WRITER_STEPS_STEP_MARKERS_H_
