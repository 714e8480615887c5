// SPDX-License-Identifier: Apache-2.0
//
// The samples of a thread by what the program did meanwhile: regular steps, other steps (warm-up, evaluation), or what
// lies before, between and behind them. By time alone, so that workers that have no steps of their own are divided,
// too.
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
std::string_view SamplePhaseName(SamplePhase phase);  // as summary.json has it

class SamplePhases {
 public:
  // Of each phase, sorted by stack.
  using Tallies = std::array<std::vector<PythonTally>, kSamplePhases>;
  using NativeTallies = std::array<std::vector<NativeTally>, kSamplePhases>;

  explicit SamplePhases(const Timeline& timeline);

  // False: the steps are not known.
  bool known() const { return known_; }
  // What its runs hold: samples beyond their limit are in no phase.
  Tallies Of(const PythonThread& thread) const;
  // What its points hold: likewise.
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
