// SPDX-License-Identifier: Apache-2.0
//
// Divides the samples of a thread by the program's phase at their time: regular steps, other steps (warm-up,
// evaluation), or the time before, between and after steps. Only time counts, so that workers without steps are
// divided, too.
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_CONVERT_SAMPLE_PHASES_H_
#define TBPROF_WRITER_CONVERT_SAMPLE_PHASES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "writer/timeline/timeline.h"

namespace tbprof {

enum class SamplePhase : uint8_t { kSteps, kIrregularSteps, kOutside };
inline constexpr size_t kSamplePhases = 3;
std::string_view SamplePhaseName(SamplePhase phase);  // the name in summary.json

class SamplePhases {
 public:
  // One per phase, sorted by stack.
  using Tallies = std::array<std::vector<PythonTally>, kSamplePhases>;
  using NativeTallies = std::array<std::vector<NativeTally>, kSamplePhases>;

  explicit SamplePhases(const Timeline& timeline);

  // False: the steps are not known.
  bool known() const { return known_; }
  // The samples in the thread's runs: samples beyond the limit of runs are in no phase.
  Tallies Of(const PythonThread& thread) const;
  // The samples in the thread's points: samples beyond the limit of points are in no phase.
  NativeTallies Of(const NativeThread& thread) const;
  SamplePhase At(int64_t at_ps) const;

 private:
  struct Interval {
    int64_t start_ps, end_ps;
    SamplePhase phase;
  };

  std::vector<Interval> intervals_;  // in order of time, disjoint
  bool known_ = false;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_SAMPLE_PHASES_H_
