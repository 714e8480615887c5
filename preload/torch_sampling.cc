// SPDX-License-Identifier: Apache-2.0
// Rules: RULES.md.
#include "preload/torch_sampling.h"

namespace tbprof {
namespace {

constexpr uint64_t kMostPercent = 1;
constexpr uint64_t kBurstNs = 10'000'000;  // cost that may be spent at once
// Shorter steps are joined into one unit: PyTorch's list of observers changes at most twice in a unit, and each change
// takes a few microseconds.
constexpr uint64_t kShortestUnitNs = 2'000'000;
// A unit without a step's border ends after as many operations as kUsualSteps usual units have (not by time: a step
// that the machine delays is the same step). If no steps are known, it ends after a random length of time: one of
// kLimits lengths, each twice as long and half as likely as the one before.
constexpr uint64_t kUsualSteps = 4;
constexpr uint64_t kFewestOperations = 1024;
constexpr uint64_t kLongestOfStepsNs = 10'000'000'000;
constexpr uint64_t kShortestLimitNs = 1'000'000;
constexpr uint32_t kLimits = 4;
constexpr uint32_t kFewestSteps = 2;
// A step may cost more than the burst, so that it is recorded completely.
constexpr uint64_t kMostOfStepNs = 4 * kBurstNs, kMostWithoutStepsNs = kBurstNs;
// A block compensates for 1/kCorrection of the cost that was spent beyond or below the budget.
constexpr int64_t kCorrection = 8;
constexpr uint32_t kMostUnits = 1u << 20;
// If steps are not longer than this, one unit in kCountedOneIn is counted, after the first kFirstCounted ones.
constexpr uint64_t kShortStepNs = 10'000'000;
constexpr uint32_t kCountedOneIn = 8, kFirstCounted = 32;
// If the thread works this many times as long as the usual unit takes, the unit may have reached the limit of
// operations that should have ended it.
constexpr uint64_t kLongUnit = 4;
constexpr uint64_t kLeastCountingNs = 250'000'000, kMostCountingNs = 100'000'000'000;
constexpr uint32_t kMostInVain = 10;

uint64_t Random(TorchSampling* sampling) {
  // xorshift64*.
  sampling->random ^= sampling->random >> 12;
  sampling->random ^= sampling->random << 25;
  sampling->random ^= sampling->random >> 27;
  return sampling->random * 0x2545f4914f6cdd1d;
}

uint32_t RandomBelow(TorchSampling* sampling, uint32_t end) {
  return static_cast<uint32_t>(((Random(sampling) >> 32) * end) >> 32);
}

bool KnowsSteps(const TorchSampling& sampling) { return sampling.steps >= kFewestSteps; }

// Usual length of a unit that is ended by steps.
uint64_t UsualUnitNs(const TorchSampling& sampling) {
  return sampling.step_ns * (sampling.most_steps > 0 ? sampling.most_steps : 1);
}

void SetLimit(TorchSampling* sampling) {
  if (KnowsSteps(*sampling)) {
    // The limit is a number of operations, not a time: recording makes steps longer, and a unit must contain the same
    // whether or not it is recorded.
    sampling->most_steps = static_cast<uint32_t>(1 + (kShortestUnitNs - 1) / (sampling->step_ns + 1));
    const uint64_t most = kUsualSteps * sampling->step_operations * sampling->most_steps;
    sampling->most_operations = most < kFewestOperations ? kFewestOperations : most;
    sampling->limit = kLongestOfStepsNs;
    return;
  }
  sampling->most_steps = 0;
  sampling->most_operations = ~uint64_t{0};
  sampling->limit = kShortestLimitNs;
  for (uint32_t i = 1; i < kLimits && (Random(sampling) >> 63) != 0; ++i) sampling->limit *= 2;
}

// Moves the estimate towards the median: to the side on which more values lie.
uint64_t Median(uint64_t median, uint64_t value) {
  return value > median ? median + median / 8 + 1 : value < median ? median - median / 8 : median;
}

void LearnStep(TorchSampling* sampling, const TorchProgress& at) {
  const uint64_t length = at.now - sampling->last_step, operations = at.operations - sampling->operations_at_step;
  const bool known = sampling->last_step != 0;
  sampling->last_step = at.now;
  sampling->operations_at_step = at.operations;
  if (!known) return;
  const bool shortest = sampling->steps == 0 || length < sampling->step_ns;
  if (sampling->steps >= kFewestSteps) {
    sampling->step_ns = Median(sampling->step_ns, length);
    return;
  }
  ++sampling->steps;
  if (!shortest) return;
  sampling->step_ns = length;
  sampling->step_operations = operations;
}

// Mean of counts that are too large or too small by chance. A count that is far larger than the mean is limited.
uint64_t MeanOfUsual(uint64_t mean, uint64_t value) {
  const uint64_t most = kUsualSteps * (mean + kFewestOperations);
  return mean - mean / 16 + (value < most ? value : most) / 16;
}

uint64_t Mean(uint64_t mean, uint64_t value) { return mean == 0 ? value : mean - mean / 8 + value / 8; }

// Number of units in the next block: recording one of them costs what all of them earn. A fraction is rounded at
// random.
uint32_t UnitsOfBlock(TorchSampling* sampling, uint64_t now, uint64_t cost) {
  const uint64_t spent = cost - sampling->cost_at_since, earned = (now - sampling->since) / 100 * kMostPercent;
  if (spent <= earned) {
    sampling->since = now;
    sampling->cost_at_since = cost;
  }
  const auto beyond = static_cast<int64_t>(spent > earned ? spent - earned : 0) - static_cast<int64_t>(kBurstNs);
  const int64_t wanted = static_cast<int64_t>(sampling->unit_cost) + beyond / kCorrection;
  if (wanted <= 0) return 1;
  const uint64_t unit_earns = sampling->unit_ns / 100 * kMostPercent + 1;
  const uint64_t units = static_cast<uint64_t>(wanted) / unit_earns;
  if (units >= kMostUnits) return kMostUnits;
  const uint64_t rest = static_cast<uint64_t>(wanted) % unit_earns;
  const uint32_t more = rest > 0 && Random(sampling) % unit_earns < rest ? 1 : 0;
  const auto whole = static_cast<uint32_t>(units) + more;
  return whole == 0 ? 1 : whole;
}

// Class of the unit that ends. Units that a step ends are classed by their length relative to the usual one, in powers
// of two; the time that recording adds is subtracted.
uint32_t ClassOf(const TorchSampling& sampling, const TorchProgress& at, bool step) {
  constexpr uint32_t kOfSteps = 12, kUsual = 6;
  if (!step || sampling.step_ns == 0) return kOfSteps;
  const uint64_t usual = UsualUnitNs(sampling);
  uint64_t length = at.now - sampling.unit_since;
  const uint64_t added = sampling.recording ? (at.cost - sampling.cost_at_unit) / 2 : 0;
  length -= added < length / 2 ? added : length / 2;
  // The class of the usual length reaches from a third less to a third more.
  uint32_t number = kUsual;
  uint64_t border = usual / 3 * 2;
  while (number > 0 && length < border) {
    --number;
    border /= 2;
  }
  if (number < kUsual) return number;
  border = usual / 3 * 4;
  while (number + 1 < kOfSteps && length >= border) {
    ++number;
    border *= 2;
  }
  return number;
}

uint64_t Sum(const uint64_t (&numbers)[kTorchUnitClasses]) {
  uint64_t sum = 0;
  for (const uint64_t number : numbers) sum += number;
  return sum;
}

// CPU time of the thread in the unit that ends. By elapsed time alone, a stalled machine would look like operations.
uint64_t WorkOfUnit(const TorchSampling& sampling, const TorchProgress& at) {
  if (at.busy < sampling.busy_at_unit) return 0;  // another thread has begun it
  const uint64_t work = at.busy - sampling.busy_at_unit, length = at.now - sampling.unit_since;
  return work < length ? work : length;
}

// Learns the operations of the unit that ends if they were counted, else estimates them.
void LearnOperations(TorchSampling* sampling, const TorchProgress& at) {
  sampling->estimated = 0;
  if (sampling->recording) return;
  const uint64_t length = WorkOfUnit(*sampling, at), operations = at.operations - sampling->operations_at_unit;
  uint64_t* const of_ns = &sampling->class_ns[sampling->ended_class];
  uint64_t* const of_operations = &sampling->class_operations[sampling->ended_class];
  if (sampling->counted) {
    *of_ns += length - *of_ns / 16;
    *of_operations += operations - *of_operations / 16;
    if (sampling->first_counted < kFirstCounted) ++sampling->first_counted;
    return;
  }
  const uint64_t all_ns = *of_ns > 0 ? *of_ns : Sum(sampling->class_ns);
  const uint64_t all_operations = *of_ns > 0 ? *of_operations : Sum(sampling->class_operations);
  if (all_ns == 0) return;
  sampling->estimated = static_cast<uint64_t>(static_cast<double>(length) * static_cast<double>(all_operations) /
                                              static_cast<double>(all_ns));
}

void CountFor(TorchSampling* sampling, uint64_t now, uint32_t shift) {
  uint64_t since = now - sampling->counted_since;
  since = since < kLeastCountingNs ? kLeastCountingNs : since > kMostCountingNs ? kMostCountingNs : since;
  sampling->counted_since = now;
  const uint64_t until = now + (4 * since >> shift);
  if (until > sampling->count_until) sampling->count_until = until;
}

// `step`: a step ends the unit. Units that end by operations (rollouts, evaluations) come again, so after the first one
// all units are counted for a time. An uncounted unit with much work may be such a unit: all units are counted to find
// out, and after each wrong suspicion for half as long.
void WatchForLongUnits(TorchSampling* sampling, const TorchProgress& at, bool step) {
  const uint64_t usual = UsualUnitNs(*sampling);
  if (!step) {
    // At first the usual number of operations is not known.
    const bool by_operations = at.operations - sampling->operations_at_unit >= sampling->most_operations;
    if (!by_operations || sampling->first_counted < kFirstCounted) return;
    sampling->doubted = false;
    sampling->in_vain = 0;
    CountFor(sampling, at.now, 0);
  } else if (!sampling->recording && !sampling->counted && WorkOfUnit(*sampling, at) > kLongUnit * usual) {
    sampling->doubted = true;
    CountFor(sampling, at.now, 1 + sampling->in_vain);
  } else if (sampling->doubted && at.now >= sampling->count_until) {
    sampling->doubted = false;
    if (sampling->in_vain < kMostInVain) ++sampling->in_vain;
  }
}

bool IsToBeCounted(TorchSampling* sampling, uint64_t now) {
  return !KnowsSteps(*sampling) || sampling->step_ns > kShortStepNs || sampling->first_counted < kFirstCounted ||
         now < sampling->count_until || RandomBelow(sampling, kCountedOneIn) == 0;
}

}  // namespace

void StartSampling(TorchSampling* sampling, const TorchProgress& at, uint64_t seed) {
  static constexpr TorchSampling kFresh;
  *sampling = kFresh;
  sampling->random ^= seed;
  if (sampling->random == 0) sampling->random = 1;
  sampling->since = sampling->unit_since = sampling->counted_since = at.now;
  sampling->cost_at_since = sampling->cost_at_unit = at.cost;
  sampling->operations_at_unit = at.operations;
  SetLimit(sampling);
}

bool IsOver(const TorchSampling& sampling, const TorchProgress& at) {
  const uint64_t most_cost = KnowsSteps(sampling) ? kMostOfStepNs : kMostWithoutStepsNs;
  return at.now - sampling.unit_since >= sampling.limit ||
         at.operations - sampling.operations_at_unit >= sampling.most_operations ||
         (sampling.recording && at.cost - sampling.cost_at_unit >= most_cost);
}

bool EndsUnit(TorchSampling* sampling, const TorchProgress& at, bool step) {
  if (!step) return IsOver(*sampling, at);
  ++sampling->unit_steps;
  LearnStep(sampling, at);
  const bool ends = sampling->most_steps > 0 ? sampling->unit_steps >= sampling->most_steps
                                             : at.now - sampling->unit_since >= kShortestUnitNs;
  if (!ends) return false;
  // Operations are counted in lots that are larger than a short step.
  if (KnowsSteps(*sampling) && (sampling->recording || sampling->counted)) {
    const uint64_t operations = (at.operations - sampling->operations_at_unit) / sampling->unit_steps;
    sampling->step_operations = MeanOfUsual(sampling->step_operations, operations);
  }
  return true;
}

bool BeginUnit(TorchSampling* sampling, const TorchProgress& at, bool step) {
  sampling->ended_class = ClassOf(*sampling, at, step);
  if (at.now > sampling->unit_since) {
    sampling->unit_ns = Mean(sampling->unit_ns, at.now - sampling->unit_since);
    if (sampling->recording) sampling->unit_cost = Mean(sampling->unit_cost, at.cost - sampling->cost_at_unit);
    LearnOperations(sampling, at);
    if (KnowsSteps(*sampling)) WatchForLongUnits(sampling, at, step);
  }
  sampling->counted = IsToBeCounted(sampling, at.now);
  if (++sampling->position >= sampling->units) {
    sampling->units = UnitsOfBlock(sampling, at.now, at.cost);
    sampling->position = 0;
    sampling->chosen = RandomBelow(sampling, sampling->units);
  }
  sampling->unit_since = at.now;
  sampling->cost_at_unit = at.cost;
  sampling->operations_at_unit = at.operations;
  sampling->busy_at_unit = at.busy;
  sampling->unit_steps = 0;
  SetLimit(sampling);
  sampling->recording = sampling->position == sampling->chosen;
  if (sampling->recording) sampling->weight = sampling->units;
  return sampling->recording;
}

void SkipCost(TorchSampling* sampling, const TorchProgress& at, uint64_t before) {
  sampling->cost_at_since += at.cost - before;
  sampling->unit_since = at.now;
  sampling->position = sampling->units;
}

}  // namespace tbprof
