// SPDX-License-Identifier: Apache-2.0
#include "writer/steps/operation_steps.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "writer/base/median.h"
#include "writer/base/stable_hash.h"
#include "writer/timeline/torch_names.h"

namespace tbprof {
namespace {

// The detector was made for launches. Operations on the CPU repeat as exactly, but do not show when a step's work ends.
constexpr double kMostFromOperations = 0.8;
// In real trainings the period was always right, but the cut was a third of a step off if no optimizer marked it.
constexpr double kMostWithoutCut = 0.65;
// Number and length are right, but the begins are some percent off: Keras waits for input within its function.
constexpr double kMostFromFunctions = 0.7;
// The many executions may still be layers of a step that has no other mark.
constexpr double kPerhapsEpochs = 0.7;
constexpr size_t kWarmUpSteps = 3;
constexpr int64_t kFewestSteps = 5;

// Splits the launches at long gaps and returns the part with the most launches: the time between making a model and
// using it is not part of a loop, but would count as a step.
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

bool IsWholeOptimizer(std::string_view operation) { return operation.starts_with("ResourceApply"); }

// Operations that optimizers without a kernel of their own call, and little else. `has_whole`: the program has
// TensorFlow's optimizers as single operations; then AssignSubVariableOp does not count, since batch normalisation also
// updates its averages with it.
bool IsOfAnOptimizer(std::string_view operation, bool has_whole) {
  return operation == "aten::addcdiv_" || operation == "aten::addcmul_" || IsWholeOptimizer(operation) ||
         (operation == "AssignSubVariableOp" && !has_whole) || NameLooksLikeOptimizer(operation);
}

bool IsOfABackwardPass(const EventType& type) {
  if (type.origin == RangeOrigin::kTorchBackward) return true;
  return type.origin == RangeOrigin::kTensorFlow &&
         (absl::StrContains(type.name, "Grad") || absl::StrContains(type.name, "Backprop"));
}

// Ends of the times in which operations were not recorded, since recording them cost too much.
std::vector<int64_t> EndsOfPauses(const Timeline& timeline, uint32_t process) {
  std::vector<int64_t> ends;
  for (const Thread& thread : timeline.threads) {
    if (thread.process != process) continue;
    for (const Event& event : thread.events) {
      if (IsTorchPause(timeline.types[event.type])) ends.push_back(event.start_ps + event.duration_ps);
    }
  }
  std::ranges::sort(ends);
  return ends;
}

// The outermost PyTorch or TensorFlow operations of the busiest thread, for programs that launch nothing.
struct Operations {
  uint32_t thread = 0;
  std::vector<StepLaunch> all;
  // TensorFlow only: times when a loop requests its next batch, and times when a loop over a dataset begins.
  std::vector<int64_t> batches, iterators;
};

Operations OperationsOf(const Timeline& timeline, uint32_t process) {
  const std::vector<int64_t> pauses = EndsOfPauses(timeline, process);
  const bool has_whole = std::ranges::any_of(timeline.types, [](const EventType& type) {
    return type.origin == RangeOrigin::kTensorFlow && IsWholeOptimizer(type.name);
  });
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
      StepLaunch& launch = operations.all.emplace_back(StepLaunch{event.start_ps, end, StableHash(event.type), 0});
      if (!TensorFlowFunction(type.name).empty()) launch.flags |= StepLaunch::kExecutable;
      if (IsOfAnOptimizer(type.name, has_whole)) launch.flags |= StepLaunch::kOptimizer;
      if (IsOfABackwardPass(type)) launch.flags |= StepLaunch::kBackward;
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

// Classifies the steps again, after their lengths have changed.
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
      // The step was regular before the wait was added.
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

// A step ends behind its optimizer. If the thread then waits before the first operation of the next step, it waits for
// the input of the next step: moves the border to the begin of the wait.
void BeginWithTheWait(const std::vector<Event>& events, const Timeline& timeline,
                      const std::vector<StepLaunch>& operations, StepDetection* found) {
  constexpr int64_t kLeastShareOfStep = 100;
  const auto earlier = [&](int64_t time) {
    const auto next = std::ranges::lower_bound(operations, time, {}, &StepLaunch::start_ps);
    // A step that ends with the recording has no operation behind it. Before the first operation there is no optimizer.
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

// The operations that begin in [from, to).
std::span<const StepLaunch> Between(const std::vector<StepLaunch>& operations, int64_t from, int64_t to) {
  const auto first = std::ranges::lower_bound(operations, from, {}, &StepLaunch::start_ps);
  return {first, std::ranges::lower_bound(first, operations.end(), to, {}, &StepLaunch::start_ps)};
}

bool HasOptimizer(std::span<const StepLaunch> operations) {
  return std::ranges::any_of(
      operations, [](const StepLaunch& operation) { return (operation.flags & StepLaunch::kOptimizer) != 0; });
}

// Returns steps that begin at `starts`, which are in order. If a start is late, the time behind the previous step's
// usual length is another phase of the program, unless the whole interval has no more operations than a usual step.
std::vector<DetectedStep> StepsThatBegin(const std::vector<int64_t>& starts,
                                         const std::vector<StepLaunch>& operations) {
  std::vector<double> lengths;
  std::vector<int64_t> counts;
  for (size_t i = 1; i < starts.size(); ++i) {
    lengths.push_back(static_cast<double>(starts[i] - starts[i - 1]));
    counts.push_back(std::ssize(Between(operations, starts[i - 1], starts[i])));
  }
  std::vector<DetectedStep> steps;
  if (lengths.empty()) return steps;
  const UsualLengths usual = UsualLengthsOf(lengths);
  const int64_t usual_count = Median(counts);
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
    if (others && !last && counts[i] <= usual_count) {
      steps.push_back({step.start_ps, next, DetectedStep::Kind::kIrregular, DetectedStep::Cause::kPause});
      continue;
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
}

// Returns whether a loop requests a batch directly before this operation.
bool HasBatch(const Operations& operations, size_t at) {
  return at > 0 && std::ranges::binary_search(operations.batches, operations.all[at - 1].start_ps);
}

// Returns the executions of a function that begin a step: all of them, or, if an optimizer follows every Nth execution,
// the first one behind the optimizer. That one must have a batch: otherwise the operations before it may belong to the
// step, too.
std::vector<size_t> ThoseThatBegin(const std::vector<size_t>& at, const Operations& operations) {
  std::vector<size_t> first = {at[0]};
  std::vector<int64_t> parts;
  size_t begun = 0;
  for (size_t i = 1; i < at.size(); ++i) {
    if (!HasOptimizer(std::span(operations.all).subspan(at[i - 1], at[i] - at[i - 1]))) continue;
    if (!HasBatch(operations, at[i])) return at;
    parts.push_back(static_cast<int64_t>(i - begun));
    first.push_back(at[i]);
    begun = i;
  }
  if (parts.empty()) return at;
  const int64_t usual = Median(parts);
  if (usual < 2 || std::ranges::count(parts, usual) * 10 < std::ssize(parts) * 9) return at;
  if (parts.front() < usual) first.erase(first.begin());
  return first;
}

// Finds steps by repeated executions of one function (tf.function) with the same operations between them. Takes the
// function with the most time. Operations between two executions belong to the later one: its input, and the calls of
// Keras around it.
StepDetection FromOneFunction(const Operations& operations) {
  struct Executions {
    std::vector<size_t> at;  // indexes of operations
    double duration_ps = 0;
    std::vector<int64_t> durations;
  };
  absl::flat_hash_map<uint64_t, Executions> functions;
  // The product of a median and a count may exceed any integer.
  double of_functions = 0, of_all = 0;
  const Executions* most = nullptr;
  for (size_t i = 0; i < operations.all.size(); ++i) {
    const StepLaunch& operation = operations.all[i];
    const int64_t duration_ps = operation.end_ps - operation.start_ps;
    if ((operation.flags & StepLaunch::kExecutable) == 0) {
      // Making an iterator starts the loader's threads; it is not work of a step.
      const bool makes_iterator = std::ranges::binary_search(operations.iterators, operation.start_ps);
      if (!makes_iterator) of_all += static_cast<double>(duration_ps);
      continue;
    }
    Executions& function = functions[operation.symbol];
    function.at.push_back(i);
    function.durations.push_back(duration_ps);
  }
  for (auto& [symbol, function] : functions) {
    // The first execution may take a hundred times as long, since it builds what the others run: uses the median.
    function.duration_ps =
        static_cast<double>(Median(function.durations)) * static_cast<double>(function.durations.size());
    of_functions += function.duration_ps;
    of_all += function.duration_ps;
    // Ties are broken by position: the iteration order of a hash table is not deterministic.
    if (most == nullptr ||
        std::pair(function.duration_ps, most->at[0]) > std::pair(most->duration_ps, function.at[0])) {
      most = &function;
    }
  }
  StepDetection found;
  if (most == nullptr || most->at.size() < kFewestLaunches) return found;
  const std::vector<size_t> begins = ThoseThatBegin(most->at, operations);
  std::vector<int64_t> starts;
  absl::flat_hash_map<uint64_t, size_t> contents;
  size_t alike = 0, batches = 0;
  for (size_t i = 0; i < begins.size(); ++i) {
    const size_t at = begins[i];
    const StepLaunch& before = operations.all[at == 0 ? 0 : at - 1];
    const bool has_batch = HasBatch(operations, at);
    batches += has_batch;
    starts.push_back(at == 0 || has_batch ? before.start_ps : before.end_ps);
    if (i + 1 == begins.size()) break;
    uint64_t content = 0;
    for (size_t k = at + 1; k < begins[i + 1]; ++k) content = StableHash(content, operations.all[k].symbol);
    alike = std::max(alike, ++contents[content]);
  }
  BeginAt(starts, operations.all, &found);
  const auto count = static_cast<double>(starts.size());
  const auto regular =
      static_cast<double>(std::ranges::count(found.steps, DetectedStep::Kind::kRegular, &DetectedStep::kind));
  const double work = most->duration_ps;
  found.confidence = (1 - std::exp(-count / 4)) *
                     std::min({1.0, regular / count, static_cast<double>(alike) / (count - 1)}) *
                     (work / std::max(of_functions, 1.0)) * std::min(1.0, 2 * work / std::max(of_all, 1.0));
  found.cut_known = batches * 10 >= starts.size() * 9;
  if (found.period_ps < kShortestStepPs) found.steps.clear();
  return found;
}

// Returns whether at least `share` of the regular steps have an operation of an optimizer.
bool HasOptimizerInEach(const StepDetection& found, const std::vector<StepLaunch>& operations, double share) {
  size_t regular = 0, with_optimizer = 0;
  for (const DetectedStep& step : found.steps) {
    if (step.kind != DetectedStep::Kind::kRegular) continue;
    ++regular;
    with_optimizer += HasOptimizer(Between(operations, step.start_ps, step.end_ps));
  }
  return regular > 0 && static_cast<double>(with_optimizer) >= share * static_cast<double>(regular);
}

// Returns whether the functions are parts of the found steps: a step with an optimizer calls a function repeatedly, for
// accumulated gradients, the cell of a recurrent network, or a block.
bool AreParts(const StepDetection& functions, const StepDetection& found, const Operations& operations) {
  return HasOptimizerInEach(found, operations.all, 0.9) && !HasOptimizerInEach(functions, operations.all, 0.5);
}

// Returns whether most regular steps of `one` begin outside of the regular steps of `other`: the two belong to
// different phases of the program, such as training and evaluation.
bool AreElsewhere(const StepDetection& one, const StepDetection& other) {
  size_t regular = 0, inside = 0;
  auto around = other.steps.begin();
  for (const DetectedStep& step : one.steps) {
    if (step.kind != DetectedStep::Kind::kRegular) continue;
    ++regular;
    while (around != other.steps.end() && around->end_ps <= step.start_ps) ++around;
    inside += around != other.steps.end() && around->start_ps <= step.start_ps &&
              around->kind == DetectedStep::Kind::kRegular;
  }
  return inside * 2 < regular;
}

// Returns whether the found steps are epochs. Epochs also repeat, and the operations at the begin of each stand out
// more than one repeated function. kYes: most of the found steps begin to go through their data anew.
enum class Epochs : uint8_t { kNo, kMaybe, kYes };
Epochs AreEpochs(const StepDetection& found, const StepDetection& functions, const Operations& operations) {
  const auto made = std::ranges::count_if(found.steps, [&](const DetectedStep& step) {
    const auto next = std::ranges::lower_bound(operations.iterators, step.start_ps);
    return next != operations.iterators.end() && *next < step.end_ps;
  });
  if (static_cast<size_t>(made) * 10 >= found.steps.size() * 7) return Epochs::kYes;
  if (AreParts(functions, found, operations)) return Epochs::kNo;
  // + 1: the work behind the last part.
  return found.period_ps / (kMostPartsOfStep + 1) > functions.period_ps ? Epochs::kMaybe : Epochs::kNo;
}

// Returns the factor for the confidence of the functions if they are better than the found steps; 0: they are not.
double RatherFunctions(const StepDetection& functions, const StepDetection& found, const Operations& operations) {
  if (!Holds(functions)) return 0;
  // A shorter found step is a part of the function, or other work of the program. Exception: if the found step has the
  // optimizer, the function is the other work, such as an evaluation.
  if (Holds(found) && found.period_ps < functions.period_ps / 4 * 3 && found.confidence > functions.confidence &&
      HasOptimizerInEach(found, operations.all, 0.9)) {
    return 0;
  }
  if (!Holds(found) || found.period_ps / 3 < functions.period_ps / 2 || AreElsewhere(functions, found)) return 1;
  switch (AreEpochs(found, functions, operations)) {
    case Epochs::kNo:
      return 0;
    case Epochs::kMaybe:
      return kPerhapsEpochs;
    case Epochs::kYes:
      break;
  }
  return 1;
}

// A turn of a loop over a dataset begins with a request for its batch. Returns for each step the request that begins
// it. If a step accumulates several batches, that is the request with the most operations before it.
std::vector<int64_t> BatchesThatBegin(const StepDetection& found, const Operations& operations) {
  std::vector<int64_t> starts;
  size_t steps = 0, with_batch = 0;
  for (const DetectedStep& step : found.steps) {
    const auto first = std::ranges::lower_bound(operations.batches, step.start_ps);
    ptrdiff_t most = -1;
    int64_t begin = 0;
    for (auto batch = first; batch != operations.batches.end() && *batch < step.end_ps; ++batch) {
      const ptrdiff_t before =
          batch == operations.batches.begin() ? 0 : std::ssize(Between(operations.all, *std::prev(batch), *batch));
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
  // The first step was detected behind its batch: adds that batch.
  const auto first = std::ranges::lower_bound(operations.batches, found.steps.front().start_ps);
  if (first != operations.batches.begin() && *std::prev(first) > found.steps.front().start_ps - found.period_ps &&
      starts.front() - *std::prev(first) > found.period_ps / 2) {
    starts.insert(starts.begin(), *std::prev(first));
  }
  return starts;
}

}  // namespace

OperationSteps StepsOfOperations(const Timeline& timeline, uint32_t process) {
  const Operations operations = OperationsOf(timeline, process);
  OperationSteps steps;
  steps.thread = operations.thread;
  StepDetection& found = steps.found;
  found = DetectLongSteps(operations.all);
  StepDetection functions = FromOneFunction(operations);
  if (const double share = RatherFunctions(functions, found, operations); share > 0) {
    const double ratio = static_cast<double>(found.period_ps) / static_cast<double>(functions.period_ps);
    if (share < 1) {
      functions.alternative = ratio;
    } else if (Holds(found) && ratio > 0.75 && ratio < 1.5) {
      // Both methods found the same steps, so the same doubt remains.
      functions.alternative = found.alternative;
    }
    found = std::move(functions);
    double most = found.cut_known ? kMostFromOperations : kMostFromFunctions;
    if (found.alternative > 1 && found.alternative <= kMostPartsOfStep) most = kMostWithoutCut;
    found.confidence = std::min(share * found.confidence, most);
    return steps;
  }
  double most_with_cut = functions.steps.empty() ? kMostFromOperations : kMostFromFunctions;
  if (Holds(functions) && functions.period_ps < found.period_ps / 3 * 2 && !AreParts(functions, found, operations)) {
    // Several executions in each found step: the step accumulates them, or they are the steps, with occasional other
    // work.
    most_with_cut = kMostWithoutCut;
    if (found.alternative == 0) {
      found.alternative = static_cast<double>(functions.period_ps) / static_cast<double>(found.period_ps);
    }
  }
  double most = kMostWithoutCut;
  if (const std::vector<int64_t> starts = BatchesThatBegin(found, operations); !starts.empty()) {
    BeginAt(starts, operations.all, &found);
    found.cut_known = true;
    most = most_with_cut;
  } else if (found.cut_known) {
    most = most_with_cut;
    BeginWithTheWait(timeline.threads[steps.thread].events, timeline, operations.all, &found);
  }
  found.confidence = std::min(found.confidence, most);
  return steps;
}

}  // namespace tbprof
