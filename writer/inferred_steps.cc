// SPDX-License-Identifier: Apache-2.0
#include "writer/inferred_steps.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "absl/strings/str_format.h"
#include "wire/records.h"
#include "writer/median.h"
#include "writer/step_activity.h"
#include "writer/step_detector.h"
#include "writer/text.h"
#include "writer/torch_names.h"
#include "writer/utf8.h"

namespace tbprof {
namespace {

// The detector was made for launches. Operations on the CPU repeat as exactly, but nothing tells how long each step's
// work goes on; what a thread waits for repeats less exactly, and an inner loop may wait, too.
constexpr double kMostFromOperations = 0.8, kMostFromCalls = 0.65;
// Of real trainings the period was right each time, and the cut a third of a step away where no optimizer told it.
constexpr double kMostWithoutCut = 0.65;
// Right in number and length, and some percent off in where they begin: Keras waits for input in its function.
constexpr double kMostFromFunctions = 0.7;
// The many may still be layers of a step that nothing else tells.
constexpr double kPerhapsEpochs = 0.7;
// With records lost somewhere the counts are not to be trusted as much.
constexpr double kAfterLossFactor = 0.5;
constexpr size_t kFewestLaunches = 12;
constexpr size_t kWarmUpSteps = 3;
constexpr int64_t kFewestSteps = 5;
// What comes around faster is a loop in a step, or a benchmark.
constexpr int64_t kShortestStepPs = 50'000'000;
// Calls that come around faster load the modules of an interpreter.
constexpr int64_t kShortestFromCallsPs = 2'000'000'000;
constexpr double kLeastFromCalls = 0.5;

// What a call caused on a device.
struct Work {
  const GpuEvent* first = nullptr;
  int64_t device_ps = 0;
};
using WorkOfCalls = absl::flat_hash_map<uint64_t, Work>;

WorkOfCalls WorkByCall(const Timeline& timeline, uint32_t process) {
  WorkOfCalls work;
  for (const GpuStream& stream : timeline.gpu_streams) {
    if (stream.process != process) continue;
    for (const GpuEvent& event : stream.events) {
      Work& of_call = work[event.correlation];
      if (of_call.first == nullptr) of_call.first = &event;
      of_call.device_ps += event.duration_ps;
    }
  }
  return work;
}

StepLaunch LaunchOf(const Timeline& timeline, const Event& call, const GpuEvent& work) {
  StepLaunch launch;
  launch.start_ps = call.start_ps;
  launch.end_ps = call.start_ps + call.duration_ps;
  if (work.graph != 0) {
    launch.symbol = absl::HashOf(call.type, work.graph);
    launch.flags = StepLaunch::kExecutable;
    return launch;
  }
  if (work.kind == GpuEventKind::kKernel) {
    launch.symbol = absl::HashOf(call.type, work.name);
    if (NameLooksLikeOptimizer(timeline.strings.Get(work.name))) launch.flags |= StepLaunch::kOptimizer;
  } else {
    // Batches differ by a few bytes.
    launch.symbol = absl::HashOf(call.type, static_cast<int>(work.kind), work.copy_kind, std::bit_width(work.value));
    if (work.asynchronous == 0) launch.flags |= StepLaunch::kBlocking;
  }
  return launch;
}

// Of the thread that keeps the devices busiest.
std::vector<StepLaunch> Launches(const Timeline& timeline, uint32_t process, uint32_t* thread) {
  const WorkOfCalls work = WorkByCall(timeline, process);
  if (work.empty()) return {};
  const auto work_of = [&](const Event& event) -> const Work* {
    if (timeline.types[event.type].value != ValueKind::kCorrelation || event.value == 0) return nullptr;
    const auto found = work.find(static_cast<uint64_t>(event.value));
    return found == work.end() ? nullptr : &found->second;
  };
  int64_t most = 0;
  bool any = false;
  for (uint32_t i = 0; i < timeline.threads.size(); ++i) {
    if (timeline.threads[i].process != process) continue;
    int64_t device_ps = 0;
    for (const Event& event : timeline.threads[i].events) {
      if (const Work* of_call = work_of(event); of_call != nullptr) device_ps += of_call->device_ps;
    }
    if (device_ps > most) {
      most = device_ps;
      *thread = i;
      any = true;
    }
  }
  std::vector<StepLaunch> launches;
  if (!any) return launches;
  for (const Event& event : timeline.threads[*thread].events) {
    if (const Work* of_call = work_of(event); of_call != nullptr) {
      launches.push_back(LaunchOf(timeline, event, *of_call->first));
    } else if (timeline.types[event.type].family == EventFamily::kGpu &&
               timeline.types[event.type].name.find("Synchronize") != std::string::npos) {
      launches.push_back(
          {event.start_ps, event.start_ps + event.duration_ps, absl::HashOf(event.type), StepLaunch::kBlocking});
    }
  }
  return launches;
}

// Where they are densest: the time between making a model and using it is no part of a loop, and would count for one.
std::vector<StepLaunch> WithoutLongGaps(const std::vector<StepLaunch>& launches) {
  if (launches.empty()) return {};
  const int64_t longest = (launches.back().end_ps - launches.front().start_ps) / kFewestSteps;
  size_t best = 0, most = 0, first = 0;
  for (size_t i = 1; i <= launches.size(); ++i) {
    if (i < launches.size() && launches[i].start_ps - launches[i - 1].end_ps < longest) continue;
    if (i - first > most) {
      most = i - first;
      best = first;
    }
    first = i;
  }
  return {launches.begin() + static_cast<ptrdiff_t>(best), launches.begin() + static_cast<ptrdiff_t>(best + most)};
}

// What optimizers call where they have no kernel of their own, and little else does.
bool IsOfAnOptimizer(std::string_view operation) {
  return operation == "aten::addcdiv_" || operation == "aten::addcmul_" || operation == "AssignSubVariableOp" ||
         operation.starts_with("ResourceApply") || NameLooksLikeOptimizer(operation);
}

// Ends of the stretches that operations were left out in, since they cost too much.
std::vector<int64_t> EndsOfPauses(const Timeline& timeline, uint32_t process) {
  std::vector<int64_t> ends;
  for (const Thread& thread : timeline.threads) {
    if (thread.process != process) continue;
    for (const Event& event : thread.events) {
      const EventType& type = timeline.types[event.type];
      if (type.origin == RangeOrigin::kTorchUser && type.name == kTorchPause) {
        ends.push_back(event.start_ps + event.duration_ps);
      }
    }
  }
  std::ranges::sort(ends);
  return ends;
}

// What the thread that works most calls of PyTorch or TensorFlow, where nothing is launched: the outermost of each
// nest.
struct Operations {
  uint32_t thread = 0;
  std::vector<StepLaunch> all;
  // Of TensorFlow: when a loop asks for its next batch, and when one begins to go through its data.
  std::vector<int64_t> batches, iterators;
};

Operations OperationsOf(const Timeline& timeline, uint32_t process) {
  const std::vector<int64_t> pauses = EndsOfPauses(timeline, process);
  Operations most;
  int64_t longest = 0;
  for (uint32_t i = 0; i < timeline.threads.size(); ++i) {
    if (timeline.threads[i].process != process) continue;
    auto pause = pauses.begin();
    Operations operations;
    operations.thread = i;
    int64_t busy = 0, end = 0;
    for (const Event& event : timeline.threads[i].events) {
      const EventType& type = timeline.types[event.type];
      if (event.start_ps < end || !IsFrameworkWork(type)) continue;
      end = event.start_ps + event.duration_ps;
      busy += event.duration_ps;
      StepLaunch& launch = operations.all.emplace_back(StepLaunch{event.start_ps, end, absl::HashOf(event.type), 0});
      if (!TensorFlowFunction(type.name).empty()) launch.flags |= StepLaunch::kExecutable;
      if (IsOfAnOptimizer(type.name)) launch.flags |= StepLaunch::kOptimizer;
      if (IsDatasetNext(type)) operations.batches.push_back(event.start_ps);
      if (type.origin == RangeOrigin::kTensorFlow && type.name == "MakeIterator") {
        operations.iterators.push_back(event.start_ps);
      }
      if (pause != pauses.end() && *pause <= event.start_ps) {
        launch.flags |= StepLaunch::kAfterLoss;
        while (pause != pauses.end() && *pause <= event.start_ps) ++pause;
      }
    }
    if (busy <= longest) continue;
    longest = busy;
    most = std::move(operations);
  }
  most.all = WithoutLongGaps(most.all);
  return most;
}

// What the main thread calls and waits for, where nothing is launched.
std::vector<StepLaunch> Calls(const Timeline& timeline, uint32_t process, uint32_t* thread) {
  std::vector<StepLaunch> calls;
  for (uint32_t i = 0; i < timeline.threads.size(); ++i) {
    if (timeline.threads[i].process != process || !timeline.threads[i].is_main) continue;
    *thread = i;
    for (const Event& event : timeline.threads[i].events) {
      if (timeline.types[event.type].family == EventFamily::kAnnotation) continue;
      calls.push_back(
          {event.start_ps, event.start_ps + event.duration_ps, absl::HashOf(event.type, event.call_site), 0});
    }
    break;
  }
  return calls;
}

std::string_view TitleOf(const DetectedStep& step) {
  switch (step.kind) {
    case DetectedStep::Kind::kRegular:
      return "step";
    case DetectedStep::Kind::kWarmUp:
      return "warm-up";
    case DetectedStep::Kind::kIrregular:
      break;
  }
  switch (step.cause) {
    case DetectedStep::Cause::kPause:
      return "irregular: a pause";
    case DetectedStep::Cause::kCopies:
      return "irregular: copies";
    case DetectedStep::Cause::kMoreWork:
      return "irregular: other work";
    case DetectedStep::Cause::kLoss:
      return "irregular: records lost";
    case DetectedStep::Cause::kNone:
      break;
  }
  return "irregular";
}

// What was found, and by what.
struct Source {
  StepDetection found;
  uint32_t thread = 0;
  std::string name;
};

Source FromLaunches(const std::vector<StepLaunch>& launches, uint32_t thread) {
  Source source;
  source.thread = thread;
  if (launches.size() < kFewestLaunches) return source;
  source.found = DetectSteps(launches);
  if (source.found.period_ps < kShortestStepPs) source.found.steps.clear();
  source.name = source.found.source;
  return source;
}

// By lengths that are others than those that the kinds were told by.
void Relabel(StepDetection* found) {
  std::vector<double> lengths;
  for (const DetectedStep& step : found->steps) {
    if (step.kind == DetectedStep::Kind::kRegular) lengths.push_back(static_cast<double>(step.end_ps - step.start_ps));
  }
  if (lengths.empty()) return;
  const UsualLengths usual = UsualLengthsOf(lengths);
  std::vector<int64_t> regular;
  for (DetectedStep& step : found->steps) {
    const int64_t length = step.end_ps - step.start_ps;
    const auto duration = static_cast<double>(length);
    const bool unusual = duration > usual.most || duration < usual.least;
    if (step.kind == DetectedStep::Kind::kRegular && unusual) {
      // It was usual without the wait.
      step.kind = DetectedStep::Kind::kIrregular;
      step.cause = DetectedStep::Cause::kPause;
    } else if (step.kind != DetectedStep::Kind::kRegular && !unusual && step.cause != DetectedStep::Cause::kLoss) {
      step.kind = DetectedStep::Kind::kRegular;
      step.cause = DetectedStep::Cause::kNone;
    }
    if (step.kind == DetectedStep::Kind::kRegular) regular.push_back(length);
  }
  if (!regular.empty()) found->period_ps = Median(std::move(regular));
}

// Behind an optimizer a step is over: where the thread then waits before the first operation of the next, that is
// for the next one's input.
void BeginWithTheWait(const std::vector<Event>& events, const Timeline& timeline,
                      const std::vector<StepLaunch>& operations, StepDetection* found) {
  constexpr int64_t kLeastShareOfStep = 100;
  const auto earlier = [&](int64_t time) {
    const auto next = std::ranges::lower_bound(operations, time, {}, &StepLaunch::start_ps);
    // What ends with the recording has no operation behind it, and before the first there is no optimizer.
    if (next == operations.begin() || next == operations.end() || next->start_ps != time) return time;
    auto event = std::ranges::lower_bound(events, std::prev(next)->end_ps, {}, &Event::start_ps);
    for (; event != events.end() && event->start_ps < time; ++event) {
      const EventFamily family = timeline.types[event->type].family;
      const bool waits = family == EventFamily::kLock || family == EventFamily::kIo || family == EventFamily::kSleep;
      if (waits && event->duration_ps >= found->period_ps / kLeastShareOfStep) return event->start_ps;
    }
    return time;
  };
  for (size_t i = 0; i < found->steps.size(); ++i) {
    DetectedStep& step = found->steps[i];
    if (i > 0) step.start_ps = earlier(step.start_ps);
    step.end_ps = earlier(step.end_ps);
  }
  Relabel(found);
}

// Steps that begin at `starts`, which are in order. What lies between one that is over and a start that is late is no
// part of it: another phase of the program.
std::vector<DetectedStep> StepsThatBegin(const std::vector<int64_t>& starts,
                                         const std::vector<StepLaunch>& operations) {
  std::vector<double> lengths;
  for (size_t i = 1; i < starts.size(); ++i) lengths.push_back(static_cast<double>(starts[i] - starts[i - 1]));
  std::vector<DetectedStep> steps;
  if (lengths.empty()) return steps;
  const UsualLengths usual = UsualLengthsOf(lengths);
  for (size_t i = 0; i < starts.size(); ++i) {
    const bool last = i + 1 == starts.size();
    DetectedStep step{.start_ps = starts[i], .end_ps = last ? starts[i] : starts[i + 1]};
    const auto length = static_cast<double>(step.end_ps - step.start_ps);
    const bool warms_up = i < kWarmUpSteps && length > 2 * usual.median;
    if (!last && (length <= usual.most || warms_up)) {
      if (length < usual.least) step.kind = DetectedStep::Kind::kIrregular;
      if (warms_up) step.kind = DetectedStep::Kind::kWarmUp;
      steps.push_back(step);
      continue;
    }
    const auto first = std::ranges::lower_bound(operations, starts[i], {}, &StepLaunch::start_ps);
    const int64_t next = step.end_ps;
    step.end_ps = step.start_ps;
    bool others = false;
    for (auto operation = first; operation != operations.end() && (last || operation->start_ps < next); ++operation) {
      if (static_cast<double>(operation->end_ps - step.start_ps) > usual.median) {
        others = true;
        break;
      }
      step.end_ps = operation->end_ps;
    }
    if (step.end_ps == step.start_ps && first != operations.end()) step.end_ps = first->end_ps;  // one long operation
    if (!last) step.end_ps = std::min(step.end_ps, next);
    const auto done = static_cast<double>(step.end_ps - step.start_ps);
    if (done < usual.least || done > usual.most) step.kind = DetectedStep::Kind::kIrregular;
    if (step.end_ps > step.start_ps) steps.push_back(step);
    if (last || step.end_ps == next) continue;
    steps.push_back({step.end_ps, next, DetectedStep::Kind::kIrregular,
                     others ? DetectedStep::Cause::kMoreWork : DetectedStep::Cause::kPause});
  }
  return steps;
}

void BeginAt(const std::vector<int64_t>& starts, const std::vector<StepLaunch>& operations, StepDetection* found) {
  found->steps = StepsThatBegin(starts, operations);
  std::vector<int64_t> lengths;
  for (const DetectedStep& step : found->steps) {
    if (step.kind == DetectedStep::Kind::kRegular) lengths.push_back(step.end_ps - step.start_ps);
  }
  found->period_ps = lengths.empty() ? 0 : Median(std::move(lengths));
  found->cut_known = true;
}

// One function (tf.function) again and again, with the same between its executions: the one that most of the functions'
// time goes into. What comes between the work of one and the next is for the next: its input, what Keras calls before
// and behind it.
StepDetection FromOneFunction(const Operations& operations) {
  struct Executions {
    std::vector<size_t> at;  // of the operations
    int64_t duration_ps = 0;
  };
  absl::flat_hash_map<uint64_t, Executions> functions;
  int64_t of_functions = 0, of_all = 0;
  const Executions* most = nullptr;
  for (size_t i = 0; i < operations.all.size(); ++i) {
    const StepLaunch& operation = operations.all[i];
    const int64_t duration_ps = operation.end_ps - operation.start_ps;
    // Making an iterator starts the loader's threads, and is no work of a step.
    if (!std::ranges::binary_search(operations.iterators, operation.start_ps)) of_all += duration_ps;
    if ((operation.flags & StepLaunch::kExecutable) == 0) continue;
    Executions& function = functions[operation.symbol];
    function.at.push_back(i);
    function.duration_ps += duration_ps;
    of_functions += duration_ps;
  }
  for (const auto& [symbol, function] : functions) {
    // The order of a hash table is no reason.
    if (most == nullptr ||
        std::pair(function.duration_ps, most->at[0]) > std::pair(most->duration_ps, function.at[0])) {
      most = &function;
    }
  }
  StepDetection found;
  if (most == nullptr || most->at.size() < kFewestLaunches) return found;
  std::vector<int64_t> starts;
  absl::flat_hash_map<uint64_t, size_t> contents;
  size_t alike = 0, batches = 0;
  for (size_t i = 0; i < most->at.size(); ++i) {
    const size_t at = most->at[i];
    const StepLaunch& before = operations.all[at == 0 ? 0 : at - 1];
    const bool has_batch = std::ranges::binary_search(operations.batches, before.start_ps);
    batches += has_batch;
    starts.push_back(at == 0 || has_batch ? before.start_ps : before.end_ps);
    if (i + 1 == most->at.size()) break;
    uint64_t content = 0;
    for (size_t k = at + 1; k < most->at[i + 1]; ++k) content = absl::HashOf(content, operations.all[k].symbol);
    alike = std::max(alike, ++contents[content]);
  }
  BeginAt(starts, operations.all, &found);
  const auto count = static_cast<double>(starts.size());
  const auto regular =
      static_cast<double>(std::ranges::count(found.steps, DetectedStep::Kind::kRegular, &DetectedStep::kind));
  const auto work = static_cast<double>(most->duration_ps);
  found.confidence = (1 - std::exp(-count / 4)) *
                     std::min({1.0, regular / count, static_cast<double>(alike) / (count - 1)}) *
                     (work / static_cast<double>(std::max<int64_t>(of_functions, 1))) *
                     std::min(1.0, 2 * work / static_cast<double>(std::max<int64_t>(of_all, 1)));
  found.cut_known = batches * 10 >= starts.size() * 9;
  if (found.period_ps < kShortestStepPs) found.steps.clear();
  return found;
}

bool Holds(const StepDetection& found) { return !found.steps.empty() && found.confidence >= kLeastConfidence; }

// What was found may be epochs: they come around as well, and all that is made anew for each stands out more than one
// function again and again. Sure where each goes through its data anew.
enum class Epochs : uint8_t { kNo, kMaybe, kYes };
Epochs AreEpochs(const StepDetection& found, const StepDetection& functions, const std::vector<int64_t>& iterators) {
  const auto made = std::ranges::count_if(found.steps, [&](const DetectedStep& step) {
    const auto next = std::ranges::lower_bound(iterators, step.start_ps);
    return next != iterators.end() && *next < step.end_ps;
  });
  if (static_cast<size_t>(made) * 10 >= found.steps.size() * 7) return Epochs::kYes;
  return found.period_ps / kMostPartsOfStep > functions.period_ps ? Epochs::kMaybe : Epochs::kNo;
}

// Whether executions of a function are rather the steps than what was found: by how much they are to be believed.
double RatherFunctions(const StepDetection& functions, const StepDetection& found,
                       const std::vector<int64_t>& iterators) {
  if (!Holds(functions)) return 0;
  // What is shorter is a part of it, or what else the program does.
  if (!Holds(found) || found.period_ps / 3 < functions.period_ps / 2) return 1;
  switch (AreEpochs(found, functions, iterators)) {
    case Epochs::kNo:
      return 0;
    case Epochs::kMaybe:
      return kPerhapsEpochs;
    case Epochs::kYes:
      break;
  }
  return 1;
}

// A loop over a dataset begins with asking for its batch: for each step the batch that begins it, if there is one. Of
// those that it accumulates, that is the first behind what only one of them has.
std::vector<int64_t> BatchesThatBegin(const StepDetection& found, const Operations& operations) {
  std::vector<int64_t> starts;
  size_t steps = 0, with_batch = 0;
  const auto operations_in = [&](int64_t from, int64_t to) {
    return std::ranges::lower_bound(operations.all, to, {}, &StepLaunch::start_ps) -
           std::ranges::lower_bound(operations.all, from, {}, &StepLaunch::start_ps);
  };
  for (const DetectedStep& step : found.steps) {
    const auto first = std::ranges::lower_bound(operations.batches, step.start_ps);
    ptrdiff_t most = -1;
    int64_t begin = 0;
    for (auto batch = first; batch != operations.batches.end() && *batch < step.end_ps; ++batch) {
      const ptrdiff_t before = batch == operations.batches.begin() ? 0 : operations_in(*std::prev(batch), *batch);
      if (before <= most) continue;
      most = before;
      begin = *batch;
    }
    if (most >= 0) starts.push_back(begin);
    if (step.kind != DetectedStep::Kind::kRegular) continue;
    ++steps;
    with_batch += most >= 0;
  }
  if (starts.empty() || with_batch * 10 < steps * 9) return {};
  // The first step was found by what comes behind its batch.
  const auto first = std::ranges::lower_bound(operations.batches, found.steps.front().start_ps);
  if (first != operations.batches.begin() && *std::prev(first) > found.steps.front().start_ps - found.period_ps &&
      starts.front() - *std::prev(first) > found.period_ps / 2) {
    starts.insert(starts.begin(), *std::prev(first));
  }
  return starts;
}

Source FromOperations(const Timeline& timeline, uint32_t process) {
  const Operations operations = OperationsOf(timeline, process);
  Source source = FromLaunches(operations.all, operations.thread);
  source.name = "repeated operations";
  StepDetection functions = FromOneFunction(operations);
  StepDetection& found = source.found;
  if (const double share = RatherFunctions(functions, found, operations.iterators); share > 0) {
    if (share < 1) {
      functions.alternative = static_cast<double>(found.period_ps) / static_cast<double>(functions.period_ps);
    }
    found = std::move(functions);
    found.confidence = std::min(share * found.confidence, found.cut_known ? kMostFromOperations : kMostFromFunctions);
    return source;
  }
  // Several executions: what a step accumulates, or steps with something else now and then.
  const double most_with_cut = functions.steps.empty() ? kMostFromOperations : kMostFromFunctions;
  double most = kMostWithoutCut;
  if (const std::vector<int64_t> starts = BatchesThatBegin(found, operations); !starts.empty()) {
    BeginAt(starts, operations.all, &found);
    most = most_with_cut;
  } else if (found.cut_known) {
    most = most_with_cut;
    BeginWithTheWait(timeline.threads[source.thread].events, timeline, operations.all, &found);
  }
  found.confidence = std::min(found.confidence, most);
  return source;
}

// Where nothing is launched, and nothing is named: the main thread's calls, else those of all threads, else when they
// come.
Source FromCalls(const Timeline& timeline, uint32_t process) {
  Source source;
  const std::vector<StepLaunch> calls = Calls(timeline, process, &source.thread);
  const uint32_t main_thread = source.thread;
  const auto holds = [&](double least) {
    return !source.found.steps.empty() && source.found.period_ps >= kShortestFromCallsPs &&
           source.found.confidence >= least;
  };
  source = FromLaunches(calls, main_thread);
  source.found.confidence = std::min(source.found.confidence, kMostFromCalls);
  source.name = StrCat("calls: ", source.found.source);
  if (holds(kLeastFromCalls)) return source;
  source.found = DetectStepsInBursts(timeline, process);
  source.name = source.found.source;
  if (holds(kLeastConfidence)) return source;
  source.found = DetectStepsOfThreads(timeline, process);
  source.name = source.found.source;
  if (!holds(kLeastConfidence)) source.found.steps.clear();
  return source;
}

}  // namespace

InferredSteps InferSteps(const Timeline& timeline, uint32_t process) {
  InferredSteps inferred;
  if (process >= timeline.processes.size()) return inferred;
  uint32_t thread = 0;
  const std::vector<StepLaunch> launches = Launches(timeline, process, &thread);
  Source source;
  if (!launches.empty()) {
    source = FromLaunches(launches, thread);
  } else {
    source = FromOperations(timeline, process);
    if (source.found.steps.empty() || source.found.confidence < kLeastConfidence) {
      source = FromCalls(timeline, process);
    }
  }
  const StepDetection& found = source.found;
  if (found.steps.empty()) return inferred;
  inferred.confidence = found.confidence;
  if (!timeline.drops.empty() || timeline.processes[process].gpu.dropped > 0) inferred.confidence *= kAfterLossFactor;
  if (inferred.confidence < kLeastConfidence) return inferred;
  inferred.source = std::move(source.name);
  if (found.alternative > 0) {
    inferred.alternative = absl::StrFormat("one of %.3g times that length may be the true one", found.alternative);
  }
  int64_t number = 0;
  for (const DetectedStep& detected : found.steps) {
    Step step;
    step.start_ps = std::clamp<int64_t>(detected.start_ps, 0, timeline.duration_ps);
    step.end_ps = std::clamp<int64_t>(detected.end_ps, 0, timeline.duration_ps);
    step.number = number++;
    step.name = TitleOf(detected);
    step.thread = source.thread;
    step.is_regular = detected.kind == DetectedStep::Kind::kRegular;
    inferred.steps.push_back(std::move(step));
  }
  return inferred;
}

}  // namespace tbprof
