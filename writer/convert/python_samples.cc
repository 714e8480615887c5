// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/python_samples.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>

#include "writer/base/saturating.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/convert/python_spans.h"

namespace tbprof {
namespace {

constexpr int64_t kPsPerUs = 1'000'000;
constexpr double kLongestPs = 4e18;
constexpr uint64_t kLostShareOfANote = 100;
constexpr size_t kMostNames = 1 << 16;
constexpr size_t kLongestWorkerName = 256;

// The part of the time of a run's samples in which the thread was on the CPU.
int64_t OnCpuPs(int64_t wall_ps, uint32_t on_cpu, uint32_t samples) {
  return static_cast<int64_t>(static_cast<double>(wall_ps) * on_cpu / std::max<uint32_t>(samples, 1));
}

PythonSampling SamplingOf(uint16_t state) {
  switch (static_cast<PythonState>(state)) {
    case kPythonSampled:
      return PythonSampling::kSampled;
    case kPythonNoPermission:
      return PythonSampling::kRefused;
    case kPythonUnknownVersion:
    case kPythonFreeThreaded:
    case kPythonLayoutMismatch:
    case kPythonNotCPython:
      return PythonSampling::kUnsupported;
    case kPythonOff:
      return PythonSampling::kOff;
  }
  return PythonSampling::kUnsupported;
}

std::string_view ReasonOf(uint16_t state) {
  switch (static_cast<PythonState>(state)) {
    case kPythonSampled:
      return "";
    case kPythonNoPermission:
      return "Python stacks: not sampled, tbprof may not read the process's memory";
    case kPythonUnknownVersion:
      return "Python stacks: not sampled, this version of Python is not supported";
    case kPythonFreeThreaded:
      return "Python stacks: not sampled, free-threaded builds of Python are not supported";
    case kPythonLayoutMismatch:
      return "Python stacks: not sampled, the interpreter's structures are not those of its version";
    case kPythonNotCPython:
      return "Python stacks: not sampled, it is not CPython";
    case kPythonOff:
      return "Python stacks: not sampled, switched off";
  }
  return "";
}

}  // namespace

void PythonSamples::Take(const Frame& frame) {
  if (frame.type == FrameType::kPythonSamples || frame.type == FrameType::kPythonCollecting) TakeSamples(frame);
  if (frame.type == FrameType::kPythonThread) TakeName(frame);
}

void PythonSamples::TakeName(const Frame& frame) {
  PythonThreadFact fact;
  if (!frame.Read(&fact) || frame.segment == 0 || fact.process_serial == 0 || fact.tid <= 0 ||
      fact.name_bytes != frame.payload.size() - sizeof(fact)) {
    ++corrupt_;
    return;
  }
  const uint32_t owner = model_.IndexOfProcess({frame.segment, fact.process_serial});
  if (owner == kNoProcess) return;
  if (names_.size() >= kMostNames && !names_.contains({owner, fact.tid})) {
    ++left_out_;
    return;
  }
  names_[{owner, fact.tid}] = frame.payload.substr(sizeof(fact), kLongestWorkerName);
}

// tids are reused: the name belongs to the latest thread with that tid.
void PythonSamples::NameThreads() {
  std::map<std::pair<uint32_t, int32_t>, uint32_t> latest;
  for (uint32_t i = 0; i < timeline_.threads.size(); ++i) {
    const Thread& thread = timeline_.threads[i];
    if (thread.is_line) continue;
    const auto [known, added] = latest.try_emplace({thread.process, thread.tid}, i);
    if (!added && timeline_.threads[known->second].start_ps <= thread.start_ps) known->second = i;
  }
  for (const auto& [key, name] : names_) {
    const auto thread = latest.find(key);
    if (thread == latest.end()) continue;
    std::string& shown = timeline_.threads[thread->second].name;
    if (shown.empty()) shown = ValidUtf8(name);
  }
}

void PythonSamples::TakeSamples(const Frame& frame) {
  PythonSamplesFact fact;
  if (!frame.Read(&fact) || frame.segment == 0 || fact.process_serial == 0) {
    ++corrupt_;
    return;
  }
  static const PythonProcessFacts kNothingKnown;
  const PythonProcessFacts* process = facts_.python.Of(frame.segment, fact.process_serial);
  const uint32_t owner = model_.IndexOfProcess({frame.segment, fact.process_serial});
  const std::string_view samples = frame.payload.substr(sizeof(fact));
  const size_t count = std::min<size_t>(fact.count, samples.size() / sizeof(PythonSample));
  if (count != fact.count && owner != kNoProcess) ++corrupt_;
  for (size_t i = 0; i < count; ++i) {
    PythonSample sample;
    memcpy(&sample, samples.data() + i * sizeof(sample), sizeof(sample));
    if (owner == kNoProcess) {
      conservation_.Count(ConservedKind::kPythonSample, ConservedCause::kNotShown, sample.samples);
      continue;
    }
    TakeSample(process != nullptr ? *process : kNothingKnown, owner, sample,
               frame.type == FrameType::kPythonCollecting);
  }
}

void PythonSamples::TakeSample(const PythonProcessFacts& process, uint32_t owner, const PythonSample& sample,
                               bool collecting) {
  const auto leave_out = [&](ConservedCause cause, uint64_t samples) {
    conservation_.Count(ConservedKind::kPythonSample, cause, samples);
  };
  const uint32_t frame = process.FrameOf(sample.node);
  if (sample.tid <= 0 || sample.samples == 0 || sample.on_cpu > sample.samples ||
      sample.first_ticks > sample.last_ticks || sample.last_ticks >= kLatestTicks || (sample.node != 0 && frame == 0)) {
    ++corrupt_;
    return leave_out(ConservedCause::kCorrupt, sample.samples);
  }
  taken_[owner] += sample.samples;
  RawRun run{sample.first_ticks, sample.last_ticks, 0, 0, sample.samples, sample.on_cpu, collecting};
  const bool shown = CutToWindow(&run);
  leave_out(ConservedCause::kOutsideWindow, shown ? sample.samples - run.samples : sample.samples);
  if (!shown) return;
  const uint32_t thread = model_.LineOfThread(owner, sample.tid, run.first);
  if (thread == kNoLine) {
    ++left_out_;
    return leave_out(ConservedCause::kTooMany, run.samples);
  }
  run.interval_us = process.IntervalAt(run.first);
  run.stack = stacks_.StackOf(process, frame);
  // A thread state without frames, of another interpreter, is no evidence.
  if (PythonLastSample& last = last_[thread]; run.last >= last.ticks && run.stack != 0) last = {run.last, run.stack};
  Line& line = lines_[thread];
  if (runs_ >= most_runs_) {
    timeline_.python.samples_without_run += run.samples;
    const double wall_ps = static_cast<double>(run.interval_us * kPsPerUs) * run.samples;
    return Count(run, static_cast<int64_t>(std::min(wall_ps, kLongestPs)), &line);
  }
  ++runs_;
  line.runs.push_back(run);
}

bool PythonSamples::CutToWindow(RawRun* run) const {
  const RawRun whole = *run;
  if (whole.first >= window_.close || whole.last < window_.open) return false;
  if (whole.first >= window_.open && whole.last < window_.close) return true;
  if (whole.samples == 1) {
    run->first = std::max(whole.first, window_.open);
    run->last = std::min(whole.last, window_.close - 1);
    return true;
  }
  const double distance = static_cast<double>(whole.last - whole.first) / (whole.samples - 1);
  double begin = 0;
  double end = whole.samples - 1;
  if (whole.first < window_.open) begin = std::ceil(static_cast<double>(window_.open - whole.first) / distance);
  if (whole.last >= window_.close) {
    end = std::floor(static_cast<double>(window_.close - 1 - whole.first) / distance);
  }
  if (begin > end) return false;
  run->first = std::max(window_.open, whole.first + static_cast<uint64_t>(begin * distance));
  run->last = std::clamp(whole.first + static_cast<uint64_t>(end * distance), run->first, window_.close - 1);
  run->samples = static_cast<uint32_t>(end - begin) + 1;
  run->on_cpu = static_cast<uint32_t>(static_cast<double>(whole.on_cpu) * run->samples / whole.samples + 0.5);
  return true;
}

void PythonSamples::Count(const RawRun& run, int64_t wall_ps, Line* line) {
  PythonTally& tally = line->tallies[run.stack];
  tally.stack = run.stack;
  tally.samples += run.samples;
  tally.on_cpu += run.on_cpu;
  const int64_t on_cpu_ps = OnCpuPs(wall_ps, run.on_cpu, run.samples);
  AddSaturating(&tally.wall_ps, wall_ps);
  AddSaturating(&tally.on_cpu_ps, on_cpu_ps);
  if (run.collecting) AddSaturating(&tally.collecting_ps, on_cpu_ps);
}

// Keeps the entries of a thread that are possible: one stack at a time. A thread has a state for each interpreter that
// it was in, and only one has frames; overlapping entries of the others, without frames, are removed.
void PythonSamples::RemoveOverlaps(std::vector<RawRun>* runs) {
  const auto starts_before = [](const RawRun& a, const RawRun& b) { return a.first < b.first; };
  std::stable_sort(runs->begin(), runs->end(), starts_before);
  std::vector<RawRun> with_frames, others;
  for (const RawRun& run : *runs) {
    if (run.stack == 0) {
      others.push_back(run);
    } else if (!with_frames.empty() && run.first <= with_frames.back().last) {
      ++corrupt_;
    } else {
      with_frames.push_back(run);
    }
  }
  *runs = with_frames;
  uint64_t last = 0;  // end of the latest kept run of `others`
  for (const RawRun& run : others) {
    const auto next = std::upper_bound(with_frames.begin(), with_frames.end(), run, starts_before);
    const bool meets_next = next != with_frames.end() && run.last >= next->first;
    const bool meets_before = next != with_frames.begin() && run.first <= std::prev(next)->last;
    if (meets_next || meets_before || (last != 0 && run.first <= last)) continue;
    last = run.last;
    runs->push_back(run);
  }
  std::stable_sort(runs->begin(), runs->end(), starts_before);
}

void PythonSamples::FinishThread(uint32_t thread, Line* line) {
  PythonThread& out = timeline_.python.threads.emplace_back();
  out.thread = thread;
  RemoveOverlaps(&line->runs);
  for (const RawRun& raw : line->runs) {
    PythonRun& run = out.runs.emplace_back();
    const int64_t before_ps = out.runs.size() > 1 ? out.runs[out.runs.size() - 2].last_ps : 0;
    run.first_ps = std::max(before_ps, PsInWindow(facts_, timeline_, raw.first));
    run.last_ps = std::max(run.first_ps, PsInWindow(facts_, timeline_, raw.last));
    run.period_ps = raw.interval_us * kPsPerUs;
    run.stack = raw.stack;
    run.samples = raw.samples;
    run.on_cpu = raw.on_cpu;
    run.collecting = raw.collecting ? raw.on_cpu : 0;
  }
  SetExtents(timeline_.duration_ps, &out.runs);
  for (size_t i = 0; i < out.runs.size(); ++i) {
    PythonRun& run = out.runs[i];
    const int64_t wall_ps = std::max<int64_t>(run.to_ps - run.from_ps, 0);
    run.cpu_ps = OnCpuPs(wall_ps, run.on_cpu, run.samples);
    Count(line->runs[i], wall_ps, line);
  }
  line->runs = {};
  for (const auto& [stack, tally] : line->tallies) out.tallies.push_back(tally);
  std::sort(out.tallies.begin(), out.tallies.end(),
            [](const PythonTally& a, const PythonTally& b) { return a.stack < b.stack; });
}

uint64_t PythonSamples::Finish(uint64_t most_bytes) {
  for (auto& [thread, line] : lines_) FinishThread(thread, &line);
  NameThreads();
  PythonSpans spans(timeline_.strings, &timeline_.python, most_bytes);
  for (size_t i = 0; i < timeline_.python.threads.size(); ++i) spans.Add(i);
  const uint64_t bytes = spans.Finish();
  AddProcesses();
  AddNotes();
  AddPythonLastStacks(window_, facts_, model_, last_, &timeline_);
  timeline_.corrupt_records += corrupt_ + facts_.python.corrupt();
  return bytes;
}

void PythonSamples::AddProcesses() {
  for (const auto& [identity, facts] : facts_.python.processes()) {
    if (!facts.has_status) continue;
    PythonProcess process;
    process.process = model_.IndexOfProcess({identity.first, identity.second});
    if (process.process == kNoProcess) continue;
    const PythonStatusFact& status = facts.status;
    process.sampling = SamplingOf(status.state);
    // If a process could never be read, only the hooks know whether it runs Python.
    const auto known = facts_.processes.find({identity.first, identity.second});
    const bool has_python = known != facts_.processes.end() && !known->second.python.empty();
    if (process.sampling == PythonSampling::kRefused && status.minor == 0 && !has_python) continue;
    process.reason = facts.reason.empty() ? std::string(ReasonOf(status.state)) : facts.reason;
    process.minor = status.minor;
    process.period_ps = int64_t{status.interval_us} * kPsPerUs;
    // The last status of a killed launcher is older than its last samples.
    process.samples = std::max(status.samples, taken_[process.process]);
    process.torn = status.torn;
    process.unreadable = status.unreadable;
    timeline_.python.processes.push_back(std::move(process));
  }
  std::stable_sort(timeline_.python.processes.begin(), timeline_.python.processes.end(),
                   [](const PythonProcess& a, const PythonProcess& b) { return a.process < b.process; });
}

// One line for all processes with the same reason. A reason that the user cannot change is no warning.
void PythonSamples::AddNotes() {
  struct Group {
    const PythonProcess* first;
    uint64_t count;
  };
  std::map<std::pair<PythonSampling, std::string>, Group> groups;
  for (const PythonProcess& process : timeline_.python.processes) {
    if (process.sampling == PythonSampling::kSampled || process.sampling == PythonSampling::kOff) continue;
    const auto [group, added] = groups.try_emplace({process.sampling, process.reason}, Group{&process, 0});
    ++group->second.count;
  }
  for (const auto& [key, group] : groups) {
    const Process& process = timeline_.processes[group.first->process];
    std::string text = StrCat(key.second, " (", process.name.empty() ? "process" : process.name, " ", process.pid,
                              group.count > 1 ? StrCat(" and ", group.count - 1, " more") : "", ")");
    (key.first == PythonSampling::kRefused ? timeline_.warnings : timeline_.notes).push_back(std::move(text));
  }
  const PythonTimeline& python = timeline_.python;
  uint64_t accepted = 0, torn = 0, unreadable = 0;
  for (const PythonProcess& process : python.processes) {
    AddSaturating(&accepted, process.samples);
    AddSaturating(&torn, process.torn);
    AddSaturating(&unreadable, process.unreadable);
  }
  uint64_t lost = torn;
  AddSaturating(&lost, unreadable);
  if (lost > accepted / kLostShareOfANote) {
    timeline_.notes.push_back(StrCat("Python stacks: ", lost, " samples dropped and ", accepted,
                                     " taken in the whole run (", torn, " changed while they were read, ", unreadable,
                                     " unreadable)"));
  }
  if (left_out_ + facts_.python.left_out() > 0) {
    timeline_.notes.push_back(StrCat("Python stacks: ", left_out_ + facts_.python.left_out(),
                                     " entries beyond the converter's limits are left out"));
  }
  if (python.samples_without_run > 0) {
    timeline_.notes.push_back(StrCat("Python stacks: ", python.samples_without_run,
                                     " samples are in the totals but not drawn (more than ", most_runs_,
                                     " changes of stack)"));
  }
  if (python.spans_left_out > 0) {
    timeline_.notes.push_back(StrCat("Python stacks: ", python.spans_left_out,
                                     " spans are in the totals but not drawn (--max-profile-size)"));
  }
}

}  // namespace tbprof
