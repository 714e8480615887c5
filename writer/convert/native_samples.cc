// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/native_samples.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "writer/base/saturating.h"
#include "writer/base/text.h"
#include "writer/convert/native_spans.h"

namespace tbprof {
namespace {

constexpr uint32_t kShortestPeriodUs = 10, kLongestPeriodUs = 10'000'000;
constexpr int64_t kPsPerUs = 1'000'000;
// A note is added if more than 1/n of the samples were lost or cut.
constexpr uint64_t kLostShareOfANote = 100, kCutShareOfANote = 10;
// The share of the user CPU time that samples should stand for, and the least CPU time of a run to compare.
constexpr double kLeastSampledShare = 0.7, kLeastCpuSeconds = 2;

NativeSampling SamplingOf(uint16_t state) {
  switch (static_cast<NativeState>(state)) {
    case kNativeSampled:
      return NativeSampling::kSampled;
    case kNativeNoPermission:
      return NativeSampling::kRefused;
    case kNativeNoEvents:
      return NativeSampling::kMissing;
    case kNativeOff:
      return NativeSampling::kOff;
  }
  return NativeSampling::kMissing;
}

std::string_view ReasonOf(uint16_t state) {
  switch (static_cast<NativeState>(state)) {
    case kNativeSampled:
      return "";
    case kNativeNoPermission:
      return "Native stacks: not sampled, the kernel refuses it";
    case kNativeNoEvents:
      return "Native stacks: not sampled, the kernel has no perf events";
    case kNativeOff:
      return "Native stacks: not sampled, switched off";
  }
  return "";
}

}  // namespace

void NativeSamples::Take(const Frame& frame) {
  NativeSamplesFact fact;
  if (!frame.Read(&fact) || frame.segment == 0 || fact.process_serial == 0) {
    ++corrupt_;
    return;
  }
  static const NativeProcessFacts kNothingKnown;
  const Identity identity = {frame.segment, fact.process_serial};
  const NativeProcessFacts* process = facts_.native.Of(identity.segment, identity.serial);
  const uint32_t owner = model_.IndexOfProcess(identity);
  const std::string_view samples = frame.payload.substr(sizeof(fact));
  const size_t count = std::min<size_t>(fact.count, samples.size() / sizeof(NativeSample));
  if (owner == kNoProcess) return conservation_.Count(ConservedKind::kNativeSample, ConservedCause::kNotShown, count);
  if (count != fact.count) ++corrupt_;
  for (size_t i = 0; i < count; ++i) {
    NativeSample sample;
    memcpy(&sample, samples.data() + i * sizeof(sample), sizeof(sample));
    TakeSample(identity, process != nullptr ? *process : kNothingKnown, owner, sample);
  }
}

void NativeSamples::TakeSample(const Identity& identity, const NativeProcessFacts& process, uint32_t owner,
                               const NativeSample& sample) {
  const auto leave_out = [&](ConservedCause cause) { conservation_.Count(ConservedKind::kNativeSample, cause); };
  const uint32_t frame = process.FrameOf(sample.node);
  if (sample.tid <= 0 || sample.ticks >= kLatestTicks || (sample.node != 0 && frame == 0)) {
    ++corrupt_;
    return leave_out(ConservedCause::kCorrupt);
  }
  if (sample.ticks < window_.open || sample.ticks >= window_.close) return leave_out(ConservedCause::kOutsideWindow);
  const uint32_t thread = model_.LineOfThread(owner, sample.tid, sample.ticks);
  if (thread == kNoLine) {
    ++left_out_;
    return leave_out(ConservedCause::kTooMany);
  }
  const uint32_t stack = stacks_.StackOf(identity, process, frame);
  const uint32_t period_us = std::clamp(sample.period_us, kShortestPeriodUs, kLongestPeriodUs);
  Line& line = lines_[thread];
  NativeTally& tally = line.tallies[stack];
  tally.stack = stack;
  ++tally.samples;
  AddSaturating(&tally.cpu_ps, period_us * kPsPerUs);
  if (points_ >= most_points_) {
    ++timeline_.native.samples_without_point;
    return;
  }
  ++points_;
  line.points.push_back({sample.ticks, stack, period_us});
}

uint64_t NativeSamples::Finish(uint64_t most_bytes) {
  NativeTimeline& native = timeline_.native;
  for (const auto& [thread, line] : lines_) {
    NativeThread& out = native.threads.emplace_back();
    out.thread = thread;
    for (const auto& [stack, tally] : line.tallies) out.tallies.push_back(tally);
    std::ranges::sort(out.tallies, {}, &NativeTally::stack);
  }
  NativeSpans spans(timeline_.strings, &native, timeline_.duration_ps, most_bytes);
  size_t index = 0;
  for (auto& [thread, line] : lines_) {
    std::ranges::stable_sort(line.points, {}, &RawPoint::ticks);
    std::vector<NativePoint>& points = native.threads[index].points;
    points.reserve(line.points.size());
    int64_t before_ps = 0;
    for (const RawPoint& raw : line.points) {
      before_ps =
          std::clamp(PsInWindow(facts_, timeline_, raw.ticks), before_ps, std::max(before_ps, timeline_.duration_ps));
      points.push_back({before_ps, raw.period_us, raw.stack});
    }
    line.points = {};
    spans.Add(index++);
  }
  const uint64_t bytes = spans.Finish();
  AddProcesses();
  AddNotes();
  timeline_.corrupt_records += corrupt_ + facts_.native.corrupt();
  return bytes;
}

void NativeSamples::AddProcesses() {
  for (const auto& [identity, facts] : facts_.native.processes()) {
    if (!facts.has_status) continue;
    NativeProcess process;
    process.process = model_.IndexOfProcess({identity.first, identity.second});
    if (process.process == kNoProcess) continue;
    const NativeStatusFact& status = facts.status;
    process.sampling = SamplingOf(status.state);
    process.reason = facts.reason.empty() ? std::string(ReasonOf(status.state)) : facts.reason;
    process.paused = (status.flags & kNativePaused) != 0;
    process.period_ps = int64_t{status.interval_us} * kPsPerUs;
    process.samples = status.samples;
    process.lost = status.lost;
    process.cut = status.cut;
    timeline_.native.processes.push_back(std::move(process));
  }
  std::ranges::stable_sort(timeline_.native.processes, {}, &NativeProcess::process);
}

// Compares the user CPU time of the command by the kernel's count with the CPU time that the samples stand for.
void NativeSamples::AddCoverage(uint64_t samples_of_run) {
  const auto starts_before = [&](const auto& process) { return process.second.start_ticks < window_.open; };
  const bool is_all = window_.closed_by_end && std::ranges::none_of(facts_.processes, starts_before);
  if (!is_all || samples_of_run == 0 || timeline_.user_cpu_seconds < kLeastCpuSeconds) return;
  double sampled = 0;
  for (const NativeThread& thread : timeline_.native.threads) {
    for (const NativeTally& tally : thread.tallies) sampled += static_cast<double>(tally.cpu_ps) / 1e12;
  }
  if (sampled >= kLeastSampledShare * timeline_.user_cpu_seconds) return;
  const auto percent = static_cast<int>(100 * sampled / timeline_.user_cpu_seconds);
  timeline_.notes.push_back(StrCat("Native stacks: samples stand for ", percent,
                                   " % of the CPU time in user code (not for the first and last 10 ms of a thread, "
                                   "nor for processes that are not recorded)"));
}

void NativeSamples::AddNotes() {
  const NativeTimeline& native = timeline_.native;
  // One line for all processes with the same reason. A reason that the user cannot change is no warning.
  std::map<std::pair<NativeSampling, std::string>, uint64_t> reasons;
  uint64_t samples = 0, lost = 0, cut = 0;
  for (const NativeProcess& process : native.processes) {
    AddSaturating(&samples, process.samples);
    AddSaturating(&lost, process.lost);
    AddSaturating(&cut, process.cut);
    if (process.sampling != NativeSampling::kOff && !process.reason.empty()) {
      ++reasons[{process.sampling, process.reason}];
    }
  }
  for (const auto& [key, count] : reasons) {
    const std::string text = count > 1 ? StrCat(key.second, " (", count, " processes)") : key.second;
    (key.first == NativeSampling::kMissing ? timeline_.notes : timeline_.warnings).push_back(text);
  }
  if (lost > samples / kLostShareOfANote) {
    timeline_.notes.push_back(StrCat("Native stacks: ", lost, " samples lost and ", samples,
                                     " taken in the whole run (the launcher was too slow)"));
  }
  if (cut > samples / kCutShareOfANote) {
    timeline_.notes.push_back(StrCat("Native stacks: ", cut, " of ", samples,
                                     " lack their outer frames (deeper than 8 KiB, or code without unwind tables)"));
  }
  AddCoverage(samples);
  if (left_out_ + facts_.native.left_out() > 0) {
    timeline_.notes.push_back(StrCat("Native stacks: ", left_out_ + facts_.native.left_out(),
                                     " entries beyond the converter's limits are left out"));
  }
  if (native.samples_without_point + native.spans_left_out > 0) {
    timeline_.notes.push_back(StrCat("Native stacks: ", native.samples_without_point, " samples and ",
                                     native.spans_left_out,
                                     " spans are in the totals but not drawn (--max-profile-size)"));
  }
}

}  // namespace tbprof
