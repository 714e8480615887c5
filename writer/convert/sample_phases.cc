// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/sample_phases.h"

#include <algorithm>
#include <cmath>

#include "absl/container/flat_hash_map.h"
#include "writer/base/saturating.h"

namespace tbprof {
namespace {

// The samples of a run have equal distances on average, from its first to its last.
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

// Adds up the samples of runs by stack, for each phase.
class Division {
 public:
  void Add(const PythonRun& run, SamplePhase phase, uint32_t begin, uint32_t end) {
    if (begin >= end) return;
    // The samples that were on CPU are spread evenly over the run; the parts add up to the whole.
    const auto on_cpu_before = [&](uint32_t samples) { return uint64_t{run.on_cpu} * samples / run.samples; };
    const uint64_t on_cpu = on_cpu_before(end) - on_cpu_before(begin);
    const auto cpu_before = [&](uint32_t samples) {
      return static_cast<int64_t>(static_cast<double>(run.cpu_ps) * samples / run.samples);
    };
    PythonTally& tally = tallies_[static_cast<size_t>(phase)][run.stack];
    tally.stack = run.stack;
    tally.samples += end - begin;
    tally.on_cpu += on_cpu;
    AddSaturating(&tally.wall_ps, TimePs(run.period_ps, end - begin));
    AddSaturating(&tally.on_cpu_ps, cpu_before(end) - cpu_before(begin));
  }
  SamplePhases::Tallies Take() const {
    SamplePhases::Tallies out;
    for (size_t phase = 0; phase < kSamplePhases; ++phase) {
      for (const auto& [stack, tally] : tallies_[phase]) out[phase].push_back(tally);
      std::ranges::sort(out[phase], {}, &PythonTally::stack);
    }
    return out;
  }

 private:
  absl::flat_hash_map<uint32_t, PythonTally> tallies_[kSamplePhases];
};

}  // namespace

std::string_view SamplePhaseName(SamplePhase phase) {
  switch (phase) {
    case SamplePhase::kSteps:
      return "steps";
    case SamplePhase::kIrregularSteps:
      return "irregular_steps";
    case SamplePhase::kOutside:
      return "outside";
  }
  return "";
}

SamplePhases::SamplePhases(const Timeline& timeline) {
  if (timeline.step_source == StepSource::kNone || timeline.step_source == StepSource::kWholeCapture) return;
  // Of most samples, it is not known whether they are in steps.
  if (timeline.steps_in_detail) return;
  for (const Step& step : timeline.steps) {
    known_ |= step.is_regular;
    intervals_.push_back(
        {step.start_ps, step.end_ps, step.is_regular ? SamplePhase::kSteps : SamplePhase::kIrregularSteps});
  }
  std::ranges::stable_sort(intervals_, {}, &Interval::start_ps);
  int64_t end_ps = INT64_MIN;
  for (Interval& interval : intervals_) {
    interval.start_ps = std::max(interval.start_ps, end_ps);
    end_ps = std::max(end_ps, interval.end_ps);
  }
  std::erase_if(intervals_, [](const Interval& interval) { return interval.start_ps >= interval.end_ps; });
}

SamplePhases::Tallies SamplePhases::Of(const PythonThread& thread) const {
  Division division;
  for (const PythonRun& run : thread.runs) {
    auto interval = std::ranges::upper_bound(intervals_, run.first_ps, {}, &Interval::end_ps);
    uint32_t done = 0;
    for (; interval != intervals_.end() && done < run.samples; ++interval) {
      const uint32_t begin = SamplesBefore(run, interval->start_ps);
      if (begin >= run.samples) break;
      const uint32_t end = SamplesBefore(run, interval->end_ps);
      division.Add(run, SamplePhase::kOutside, done, begin);
      division.Add(run, interval->phase, begin, end);
      done = end;
    }
    division.Add(run, SamplePhase::kOutside, done, run.samples);
  }
  return division.Take();
}

SamplePhase SamplePhases::At(int64_t at_ps) const {
  const auto interval = std::ranges::upper_bound(intervals_, at_ps, {}, &Interval::end_ps);
  return interval == intervals_.end() || at_ps < interval->start_ps ? SamplePhase::kOutside : interval->phase;
}

SamplePhases::NativeTallies SamplePhases::Of(const NativeThread& thread) const {
  std::array<absl::flat_hash_map<uint32_t, NativeTally>, kSamplePhases> tallies;
  for (const NativePoint& point : thread.points) {
    NativeTally& tally = tallies[static_cast<size_t>(At(point.at_ps))][point.stack];
    tally.stack = point.stack;
    ++tally.samples;
    AddSaturating(&tally.cpu_ps, PeriodPs(point));
  }
  NativeTallies out;
  for (size_t phase = 0; phase < kSamplePhases; ++phase) {
    for (const auto& [stack, tally] : tallies[phase]) out[phase].push_back(tally);
    std::ranges::sort(out[phase], {}, &NativeTally::stack);
  }
  return out;
}

}  // namespace tbprof
