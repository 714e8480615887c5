// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/python_phases.h"

#include <algorithm>
#include <cmath>

#include "absl/container/flat_hash_map.h"
#include "writer/base/saturating.h"

namespace tbprof {
namespace {

// Samples of a run lie at equal distances, from its first to its last.
uint32_t SamplesBefore(const PythonRun& run, int64_t at_ps) {
  if (at_ps <= run.first_ps || run.samples == 0) return 0;
  if (at_ps > run.last_ps) return run.samples;
  const double distance = static_cast<double>(run.last_ps - run.first_ps) / std::max<uint32_t>(run.samples - 1, 1);
  const double before = std::ceil(static_cast<double>(at_ps - run.first_ps) / std::max(distance, 1.0));
  return static_cast<uint32_t>(std::clamp(before, 1.0, static_cast<double>(run.samples)));
}

int64_t TimePs(int64_t period_ps, uint64_t samples) {
  int64_t time_ps = 0;
  return __builtin_mul_overflow(period_ps, samples, &time_ps) ? INT64_MAX : time_ps;
}

// Samples of one run after another, added up by stack for each phase.
class Division {
 public:
  void Add(const PythonRun& run, PythonPhase phase, uint32_t begin, uint32_t end) {
    if (begin >= end) return;
    // Those on the CPU are spread evenly; the parts add up to the whole.
    const auto on_cpu_before = [&](uint32_t samples) { return uint64_t{run.on_cpu} * samples / run.samples; };
    const uint64_t on_cpu = on_cpu_before(end) - on_cpu_before(begin);
    PythonTally& tally = tallies_[static_cast<size_t>(phase)][run.stack];
    tally.stack = run.stack;
    tally.samples += end - begin;
    tally.on_cpu += on_cpu;
    AddSaturating(&tally.wall_ps, TimePs(run.period_ps, end - begin));
    AddSaturating(&tally.on_cpu_ps, TimePs(run.period_ps, on_cpu));
  }
  PythonPhases::Tallies Take() const {
    PythonPhases::Tallies out;
    for (size_t phase = 0; phase < kPythonPhases; ++phase) {
      for (const auto& [stack, tally] : tallies_[phase]) out[phase].push_back(tally);
      std::ranges::sort(out[phase], {}, &PythonTally::stack);
    }
    return out;
  }

 private:
  absl::flat_hash_map<uint32_t, PythonTally> tallies_[kPythonPhases];
};

}  // namespace

std::string_view PythonPhaseName(PythonPhase phase) {
  switch (phase) {
    case PythonPhase::kSteps:
      return "steps";
    case PythonPhase::kIrregularSteps:
      return "irregular_steps";
    case PythonPhase::kOutside:
      return "outside";
  }
  return "";
}

PythonPhases::PythonPhases(const Timeline& timeline) {
  if (timeline.step_source == StepSource::kNone || timeline.step_source == StepSource::kWholeCapture) return;
  for (const Step& step : timeline.steps) {
    known_ |= step.is_regular;
    intervals_.push_back(
        {step.start_ps, step.end_ps, step.is_regular ? PythonPhase::kSteps : PythonPhase::kIrregularSteps});
  }
  std::ranges::stable_sort(intervals_, {}, &Interval::start_ps);
  int64_t end_ps = INT64_MIN;
  for (Interval& interval : intervals_) {
    interval.start_ps = std::max(interval.start_ps, end_ps);
    end_ps = std::max(end_ps, interval.end_ps);
  }
  std::erase_if(intervals_, [](const Interval& interval) { return interval.start_ps >= interval.end_ps; });
}

PythonPhases::Tallies PythonPhases::Of(const PythonThread& thread) const {
  Division division;
  for (const PythonRun& run : thread.runs) {
    auto interval = std::ranges::upper_bound(intervals_, run.first_ps, {}, &Interval::end_ps);
    uint32_t done = 0;
    for (; interval != intervals_.end() && done < run.samples; ++interval) {
      const uint32_t begin = SamplesBefore(run, interval->start_ps);
      if (begin >= run.samples) break;
      const uint32_t end = SamplesBefore(run, interval->end_ps);
      division.Add(run, PythonPhase::kOutside, done, begin);
      division.Add(run, interval->phase, begin, end);
      done = end;
    }
    division.Add(run, PythonPhase::kOutside, done, run.samples);
  }
  return division.Take();
}

}  // namespace tbprof
