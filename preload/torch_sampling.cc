// SPDX-License-Identifier: Apache-2.0
// Rules: RULES.md.
#include "preload/torch_sampling.h"

namespace tbprof {
namespace {

constexpr uint64_t kMostPercent = 1;
constexpr uint64_t kBurstNs = 10'000'000;  // of cost, that may come at once
// PyTorch's list of observers is changed at most twice in a unit, a few microseconds each: steps shorter than this are
// joined.
constexpr uint64_t kShortestUnitNs = 2'000'000;
// A unit without a border of a step ends after as many operations as so many usual ones have (not by time: a step that
// the machine keeps waiting is no other), or, where none are known, after a random length of time, of which each is
// twice as long and half as likely as the one before.
constexpr uint64_t kUsualSteps = 4;
constexpr uint64_t kFewestOperations = 1024;
constexpr uint64_t kLongestOfStepsNs = 10'000'000'000;
constexpr uint64_t kShortestLimitNs = 1'000'000;
constexpr uint32_t kLimits = 4;
constexpr uint32_t kFewestSteps = 2;
// A step may cost more than the burst to be recorded wholly.
constexpr uint64_t kMostOfStepNs = 4 * kBurstNs, kMostWithoutStepsNs = kBurstNs;
// A block makes up for this part of what was spent beyond or below the budget.
constexpr int64_t kCorrection = 8;
constexpr uint32_t kMostUnits = 1u << 20;
// Where steps are no longer than this, one unit in so many is counted, after the first ones.
constexpr uint64_t kShortStepNs = 10'000'000;
constexpr uint32_t kCountedOneIn = 8, kFirstCounted = 32;
// A unit in which the thread works so many times as long as the usual one takes may hold what should have ended it.
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

// Of a unit that steps end.
uint64_t UsualUnitNs(const TorchSampling& sampling) {
  return sampling.step_ns * (sampling.most_steps > 0 ? sampling.most_steps : 1);
}

void SetLimit(TorchSampling* sampling) {
  if (KnowsSteps(*sampling)) {
    // By number, not by time: recording makes steps longer, and a unit is to hold the same whether it is recorded or
    // not.
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

// Towards the median: the way that more of them lie.
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

// Of counts that chance has made too large or too small; one that is far larger counts as large.
uint64_t MeanOfUsual(uint64_t mean, uint64_t value) {
  const uint64_t most = kUsualSteps * (mean + kFewestOperations);
  return mean - mean / 16 + (value < most ? value : most) / 16;
}

uint64_t Mean(uint64_t mean, uint64_t value) { return mean == 0 ? value : mean - mean / 8 + value / 8; }

// So many that one of them, recorded, costs what all of them earn; a fraction by chance.
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

// Of the unit that ends. Those that a step ends by their length to the usual one, a power of two each; what recording
// adds is taken off again.
uint32_t ClassOf(const TorchSampling& sampling, const TorchProgress& at, bool step) {
  constexpr uint32_t kOfSteps = 12, kUsual = 6;
  if (!step || sampling.step_ns == 0) return kOfSteps;
  const uint64_t usual = UsualUnitNs(sampling);
  uint64_t length = at.now - sampling.unit_since;
  const uint64_t added = sampling.recording ? (at.cost - sampling.cost_at_unit) / 2 : 0;
  length -= added < length / 2 ? added : length / 2;
  // Around the usual length is the middle of a class: a third less to a third more.
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

// Of the thread, in the unit that ends; by the clock alone a stalled machine would look like operations.
uint64_t WorkOfUnit(const TorchSampling& sampling, const TorchProgress& at) {
  if (at.busy < sampling.busy_at_unit) return 0;  // another thread has begun it
  const uint64_t work = at.busy - sampling.busy_at_unit, length = at.now - sampling.unit_since;
  return work < length ? work : length;
}

// What was passed over in the unit that ends.
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

// `step`: one ends the unit. Units that operations end (rollouts, evaluations) come again, so from the first on all are
// counted. One that was not counted and has much work in it may be such: that is found out, each time in vain for half
// as long.
void WatchForLongUnits(TorchSampling* sampling, const TorchProgress& at, bool step) {
  const uint64_t usual = UsualUnitNs(*sampling);
  if (!step) {
    // What is usual is not known at first.
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
  // Operations are counted by lots, larger than a short step.
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
