// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/input_wait.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_format.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/timeline/time_span.h"
#include "writer/timeline/torch_names.h"
#include "writer/timeline/wait_sites.h"

namespace tbprof {
namespace {

constexpr size_t kMostNamed = 3;
// A wait is explained if other work overlaps at least 1 / kExplainedTimes of it.
constexpr int64_t kExplainedTimes = 2;
// The longest call that finds its data; a longer call waits for them.
constexpr int64_t kLongestReadPs = 1'000'000'000;

int64_t EndOfWait(const Event& event) { return event.start_ps + event.duration_ps; }

// A call that gives something away, or starts something: whatever it waits for, it is not input.
bool GivesAway(const EventType& type) {
  return type.family == EventFamily::kThread || type.name == "pthread_barrier_wait" || type.name == "fsync" ||
         type.name == "fdatasync" || StartsWithAny(type.name, {"write", "pwrite", "send", "open", "__open"});
}

bool IsRead(const EventType& type) {
  return type.family == EventFamily::kIo &&
         StartsWithAny(type.name, {"read", "__read", "pread", "__pread", "recv", "__recv"});
}

// The place computes, or communicates with other ranks: in both cases the thread waits for the library's own threads.
bool IsForTheStep(std::string_view site) {
  return IsInComputing(site) || ContainsAny(site, {"(libmpi", "(libnccl", "(libgloo", "(libcuda"});
}

// The time in which `wait` and the sorted intervals overlap.
int64_t Overlap(const std::vector<TimeSpan>& intervals, const Event& wait) {
  auto at = std::ranges::lower_bound(intervals, wait.start_ps, {}, &TimeSpan::end_ps);
  int64_t sum = 0;
  for (; at != intervals.end() && at->start_ps < EndOfWait(wait); ++at) {
    sum += CommonPs(*at, {wait.start_ps, EndOfWait(wait)});
  }
  return sum;
}

// Work of other threads of the process that the thread of the steps waits for and that is not input: the backward pass,
// and collectives, which begin and end by number.
std::vector<TimeSpan> WorkForTheStep(const Timeline& timeline, uint32_t process, uint32_t thread) {
  std::vector<bool> is_work;
  for (const EventType& type : timeline.types) {
    is_work.push_back(type.origin == RangeOrigin::kTorchBackward ||
                      (type.family == EventFamily::kAnnotation && IsTorch(type.origin) &&
                       StartsWithAny(type.name, {"gloo:", "nccl:", "mpi:", "c10d::"})));
  }
  std::vector<TimeSpan> work;
  for (uint32_t i = 0; i < timeline.threads.size(); ++i) {
    if (i == thread || timeline.threads[i].process != process) continue;
    int64_t end = 0;
    for (const Event& event : timeline.threads[i].events) {
      if (!is_work[event.type] || event.start_ps < end || event.duration_ps <= 0) continue;
      end = EndOfWait(event);
      work.push_back({event.start_ps, end});
    }
  }
  return Merged(std::move(work));
}

bool HasBackwardThreads(const Timeline& timeline, uint32_t process) {
  return std::ranges::any_of(timeline.threads, [&](const Thread& thread) {
    return thread.process == process && thread.name.starts_with("pt_autograd");
  });
}

class WaitFinder {
 public:
  WaitFinder(const Timeline& timeline, uint32_t thread)
      : timeline_(timeline),
        thread_(timeline.threads[thread]),
        process_(thread_.process),
        batches_(BatchesOfFunctions(timeline, process_)),
        work_(WorkForTheStep(timeline, process_, thread)),
        has_backward_threads_(HasBackwardThreads(timeline, process_)) {
    for (const EventType& type : timeline.types) kinds_.push_back(KindOf(type));
  }

  std::vector<StepWait> Find() {
    ForEachCall(thread_, [this](const Event& event) { Take(event); });
    return std::move(waits_);
  }

 private:
  enum class Kind : uint8_t { kNothing, kWork, kFunction, kNextBatch, kWait, kGpuWait };

  static Kind KindOf(const EventType& type) {
    if (IsNextBatch(type)) return Kind::kNextBatch;
    if (type.family == EventFamily::kAnnotation) {
      if (!TensorFlowFunction(type.name).empty() && type.origin == RangeOrigin::kTensorFlow) return Kind::kFunction;
      return IsFrameworkWork(type) || IsOptimizerStep(type.origin, type.name) ? Kind::kWork : Kind::kNothing;
    }
    if (IsGpuWait(type)) return Kind::kGpuWait;
    if (type.family == EventFamily::kGpu || type.name.starts_with("nccl")) return Kind::kWork;
    return IsWait(type.family) ? Kind::kWait : Kind::kNothing;
  }

  void Take(const Event& event) {
    const Kind kind = kinds_[event.type];
    // A nested call is part of the call that contains it.
    if (kind == Kind::kNothing || event.duration_ps <= 0 || event.start_ps < end_) return;
    end_ = EndOfWait(event);
    switch (kind) {
      case Kind::kNothing:
      case Kind::kWork:
        break;
      case Kind::kFunction:
        AddFunction(event);
        break;
      case Kind::kNextBatch:
        Add(event, WaitPurpose::kInput);
        break;
      case Kind::kWait:
        Add(event, PurposeOf(event));
        break;
      case Kind::kGpuWait:
        Add(event, WaitPurpose::kOther);
        break;
    }
  }

  WaitPurpose PurposeOf(const Event& event) const {
    const EventType& type = timeline_.types[event.type];
    if (GivesAway(type)) return WaitPurpose::kOther;
    const std::string_view site = timeline_.strings.Get(event.call_site);
    if (IsForTheStep(site)) return WaitPurpose::kOther;
    if (IsRead(type) && event.duration_ps < kLongestReadPs) return WaitPurpose::kRead;
    // PyTorch waits for its threads through std::condition_variable, as others do; Python's locks are semaphores.
    if (has_backward_threads_ && type.name.starts_with("pthread_cond_") && ContainsAny(site, {"(libstdc++"}))
      return WaitPurpose::kOther;
    return Overlap(work_, event) * kExplainedTimes >= event.duration_ps ? WaitPurpose::kOther : WaitPurpose::kUnknown;
  }

  void Add(const Event& event, WaitPurpose purpose) {
    waits_.push_back({event.start_ps, EndOfWait(event), purpose, event.type, event.call_site});
  }

  void AddFunction(const Event& event) {
    if (batches_.empty()) {
      if (ContainsAny(timeline_.types[event.type].name, {"iterator"})) Add(event, WaitPurpose::kInFunction);
      return;
    }
    auto batch = std::ranges::lower_bound(batches_, event.start_ps, {}, &StepWait::end_ps);
    for (; batch != batches_.end() && batch->start_ps < EndOfWait(event); ++batch) {
      StepWait wait = *batch;
      wait.start_ps = std::max(wait.start_ps, event.start_ps);
      wait.end_ps = std::min(wait.end_ps, EndOfWait(event));
      if (wait.end_ps > wait.start_ps) waits_.push_back(wait);
    }
  }

  const Timeline& timeline_;
  const Thread& thread_;
  const uint32_t process_;
  const std::vector<StepWait> batches_;
  const std::vector<TimeSpan> work_;
  const bool has_backward_threads_;
  std::vector<Kind> kinds_;
  std::vector<StepWait> waits_;
  int64_t end_ = 0;  // end of the latest counted event
};

// The share of the process's time in waits that have only a total: they were shorter than the threshold, or the budget
// left them out.
double NotDrawn(const Timeline& timeline, uint32_t process) {
  if (process >= timeline.processes.size()) return 0;
  int64_t all = 0, drawn = 0;
  for (const OperationTotal& total : timeline.processes[process].operations) {
    if (IsWait(timeline.types[total.type].family)) all += total.total_ps;
  }
  for (const Thread& thread : timeline.threads) {
    if (thread.process != process) continue;
    for (const Event& event : thread.events) {
      if (IsWait(timeline.types[event.type].family)) drawn += event.duration_ps;
    }
    for (const CutWait& wait : thread.cut_waits) {
      if (IsWait(timeline.types[wait.type].family)) drawn += wait.duration_ps;
    }
  }
  return static_cast<double>(std::max<int64_t>(all - drawn, 0)) /
         static_cast<double>(std::max<int64_t>(timeline.duration_ps, 1));
}

// Sums over the regular steps.
struct Sums {
  int64_t whole = 0, input = 0, unknown = 0, read = 0, in_function = 0;
  size_t steps = 0, with_input = 0, with_reads = 0;
  std::map<std::pair<uint16_t, StringId>, int64_t> waits;
  std::set<uint32_t> processes;
};

Sums SumOverSteps(const Timeline& timeline) {
  Sums sums;
  std::map<uint32_t, std::vector<StepWait>> of_threads;
  for (const Step& step : timeline.steps) {
    if (!step.is_regular || step.thread >= timeline.threads.size() || step.end_ps <= step.start_ps) continue;
    const auto [waits, added] = of_threads.try_emplace(step.thread);
    if (added) waits->second = StepWaits(timeline, step.thread);
    sums.processes.insert(timeline.threads[step.thread].process);
    ++sums.steps;
    sums.whole += step.end_ps - step.start_ps;
    bool input = false, reads = false;
    auto wait = std::ranges::upper_bound(waits->second, step.start_ps, {}, &StepWait::end_ps);
    for (; wait != waits->second.end() && wait->start_ps < step.end_ps; ++wait) {
      const int64_t length = std::min(wait->end_ps, step.end_ps) - std::max(wait->start_ps, step.start_ps);
      switch (wait->purpose) {
        case WaitPurpose::kInput:
          sums.input += length;
          input = true;
          break;
        case WaitPurpose::kInFunction:
          sums.in_function += length;
          break;
        case WaitPurpose::kRead:
          reads = true;
          sums.read += length;
          sums.waits[{wait->type, wait->call_site}] += length;
          break;
        case WaitPurpose::kUnknown:
          sums.unknown += length;
          sums.waits[{wait->type, wait->call_site}] += length;
          break;
        case WaitPurpose::kOther:
          break;
      }
    }
    sums.with_input += input;
    sums.with_reads += reads;
  }
  return sums;
}

std::vector<NamedWait> Longest(const Timeline& timeline, const Sums& sums) {
  std::vector<NamedWait> named;
  for (const auto& [wait, length] : sums.waits) {
    std::string name = PrintableUtf8(timeline.types[wait.first].name);
    if (wait.second != 0) StrAppend(&name, " in ", PrintableUtf8(timeline.strings.Get(wait.second)));
    named.push_back({std::move(name), static_cast<double>(length) / static_cast<double>(sums.whole)});
  }
  std::ranges::stable_sort(named, [](const NamedWait& a, const NamedWait& b) { return a.share > b.share; });
  if (named.size() > kMostNamed) named.resize(kMostNamed);
  return named;
}

InputWait Unknown(InputWait input, InputUnknown cause) {
  input.state = InputWaitState::kUnknown;
  input.cause = cause;
  return input;
}

// `sem_wait in PyThread_acquire_lock_timed`, without the place in parentheses, which does not fit on the line.
std::string_view WithoutPlace(std::string_view name) { return name.substr(0, name.rfind(" (")); }

std::string NamesOf(const InputWait& input) {
  return input.unknown.empty() ? "" : std::string(WithoutPlace(input.unknown.front().name));
}

}  // namespace

std::vector<StepWait> BatchesOfFunctions(const Timeline& timeline, uint32_t process) {
  std::vector<StepWait> batches;
  const auto take = [&](const auto& event) {
    if (!IsIteratorCall(timeline.types[event.type]) || event.duration_ps <= 0) return;
    // Other iterator calls fill buffers.
    if (!ContainsAny(timeline.strings.Get(event.call_site), {"IteratorResource::GetNext"})) return;
    batches.push_back(
        {event.start_ps, event.start_ps + event.duration_ps, WaitPurpose::kInput, event.type, event.call_site});
  };
  for (const Thread& thread : timeline.threads) {
    if (thread.process != process) continue;
    std::ranges::for_each(thread.events, take);
    std::ranges::for_each(thread.cut_waits, take);
  }
  std::ranges::stable_sort(batches, [](const StepWait& a, const StepWait& b) { return a.start_ps < b.start_ps; });
  int64_t end = 0;
  for (StepWait& batch : batches) {
    batch.start_ps = std::max(batch.start_ps, end);
    end = std::max(end, batch.end_ps);
  }
  std::erase_if(batches, [](const StepWait& batch) { return batch.start_ps >= batch.end_ps; });
  return batches;
}

std::string_view LoaderOf(const Timeline& timeline) {
  if (std::ranges::any_of(timeline.types, IsTorchNext)) return "DataLoader";
  const auto is_dataset = [](const EventType& type) { return IsNextBatch(type) || IsIteratorCall(type); };
  return std::ranges::any_of(timeline.types, is_dataset) ? "tf.data" : "";
}

std::vector<StepWait> StepWaits(const Timeline& timeline, uint32_t thread) {
  return WaitFinder(timeline, thread).Find();
}

InputWait MeasureInputWait(const Timeline& timeline) {
  InputWait input;
  if (timeline.step_source == StepSource::kWholeCapture) return input;
  const Sums sums = SumOverSteps(timeline);
  if (sums.whole == 0) return input;
  const auto share = [&](int64_t part) { return static_cast<double>(part) / static_cast<double>(sums.whole); };
  input.unknown_share = share(sums.unknown + sums.read);
  input.read_steps = static_cast<double>(sums.with_reads) / static_cast<double>(sums.steps);
  input.unknown = Longest(timeline, sums);
  // A batch that the program requests only now and then does not supply its steps.
  if (sums.with_input * 2 >= sums.steps) {
    input.state = InputWaitState::kMeasured;
    input.loader = LoaderOf(timeline);
    input.share = share(sums.input);
    return input;
  }
  if (share(sums.in_function) >= kMuchWaiting) return Unknown(input, InputUnknown::kInFunction);
  if (share(sums.unknown) >= kMuchWaiting) return Unknown(input, InputUnknown::kWaits);
  if (!timeline.waits_recorded) return Unknown(input, InputUnknown::kNotRecorded);
  if (input.read_steps >= 0.5) return Unknown(input, InputUnknown::kReads);
  if (input.unknown_share >= kMuchWaiting) return Unknown(input, InputUnknown::kWaits);
  // Totals that cover more than the timeline do not show which waits the timeline lacks.
  const bool has_totals = timeline.totals_ps == 0;
  double not_drawn = 0;
  for (const uint32_t process : sums.processes) not_drawn += has_totals ? NotDrawn(timeline, process) : 0;
  if (not_drawn >= kMuchWaiting || (!has_totals && timeline.events_over_budget > 0)) {
    return Unknown(input, InputUnknown::kNotDrawn);
  }
  input.state = InputWaitState::kNone;
  input.share = share(sums.unknown + sums.read + sums.input) + not_drawn;
  return input;
}

std::string InputWaitText(const InputWait& input) {
  const std::string unknown = absl::StrFormat("%.0f %%", input.unknown_share * 100);
  switch (input.state) {
    case InputWaitState::kMeasured:
      return absl::StrFormat("input wait %.0f %% of the step (%s)%s", input.share * 100, input.loader,
                             input.unknown_share < kMuchWaiting
                                 ? ""
                                 : StrCat("; ", unknown, " in waits for an unknown purpose: ", NamesOf(input)));
    case InputWaitState::kNone:
      return absl::StrFormat("no wait for input seen: at most %.1f %% of the step (no loader is known)",
                             input.share * 100);
    case InputWaitState::kUnknown:
      break;
  }
  switch (input.cause) {
    case InputUnknown::kNoSteps:
      return "";
    case InputUnknown::kNotRecorded:
      return "input wait unknown: waits were not recorded (--trace, or `tbprof attach`)";
    case InputUnknown::kNotDrawn:
      return "input wait unknown: many waits are too short to be drawn";
    case InputUnknown::kInFunction:
      return "input wait unknown: batches are taken within a TensorFlow function";
    case InputUnknown::kWaits:
      return StrCat("input wait unknown: ", unknown, " of the step waits in ", NamesOf(input));
    case InputUnknown::kReads:
      return absl::StrFormat("input wait unknown: %.0f %% of the steps read data themselves", input.read_steps * 100);
  }
  return "";
}

}  // namespace tbprof
