// SPDX-License-Identifier: Apache-2.0
//
// Decides which of a program's operations are recorded if recording all of them would cost more than a share of the
// time. The run is divided into units, from one border to the next: steps if PyTorch reports any, else random lengths
// of time. Units form blocks. In each block one unit, chosen at random before the block begins, is recorded completely:
// each unit has a chance of one in the block's length, whatever it contains, and in the totals its operations are
// multiplied by that length.
//
//   if (EndsUnit(&sampling, at, /*step=*/true)) {
//     const bool record = BeginUnit(&sampling, at, /*step=*/true);   // its weight: sampling.weight
//
// Pure functions: no clock, no lock, nothing of PyTorch. Process: target. Rules: RULES.md.
#ifndef TBPROF_PRELOAD_TORCH_SAMPLING_H_
#define TBPROF_PRELOAD_TORCH_SAMPLING_H_

#include <stdint.h>

namespace tbprof {

inline constexpr uint32_t kTorchUnitClasses = 16;

struct TorchProgress {
  uint64_t now = 0;         // ns of any clock that runs forward
  uint64_t cost = 0;        // ns, of everything that was recorded so far
  uint64_t operations = 0;  // approximate number so far, including skipped operations that were counted
  uint64_t busy = 0;        // CPU time of the calling thread in ns, set where a unit begins
};

struct TorchSampling {
  uint64_t random = 0x9e3779b97f4a7c15;
  // The budget: the cost since `since` is compared with the time since `since`. Unused budget is not saved up.
  uint64_t since = 0, cost_at_since = 0;
  // The current unit.
  uint64_t unit_since = 0, cost_at_unit = 0, operations_at_unit = 0;
  uint64_t busy_at_unit = 0;
  uint32_t unit_steps = 0;  // steps that have ended in it
  // The longest time that the unit may last without a step's border, and the most operations that it may have.
  uint64_t limit = 0, most_operations = 0;
  uint32_t most_steps = 0;  // number of steps after which the unit ends; 0: not known yet, it ends by time
  bool recording = true;
  uint32_t weight = 1;  // how many units the recorded unit stands for
  // The current block: its number of units, the index of the recorded unit, the index of the current unit.
  uint32_t units = 1, chosen = 0, position = 0;
  // Means of the last units, and the median of the steps.
  uint64_t unit_ns = 0, unit_cost = 0, step_ns = 0, step_operations = 0;
  uint64_t last_step = 0, operations_at_step = 0;
  uint32_t steps = 0;
  // Class of the unit that has ended, by its length and whether a step ended it. The converter adds up the skipped
  // operations of each class, so that chance decides within a class, and not between classes.
  uint32_t ended_class = 0;
  // Whether PyTorch counts the skipped operations of this unit. If steps are short, counting alone costs a few percent
  // of the time: then only one of several units is counted, and the other units are assumed to be like the counted ones
  // of their class.
  bool counted = true;
  uint32_t first_counted = 0;  // number of counted units at the start
  // Estimated number of operations of the unit that has ended, if they were not counted.
  uint64_t estimated = 0;
  // The time until which all units are counted, and the time when that was decided: some units may end by operations,
  // which only a count shows.
  uint64_t count_until = 0, counted_since = 0;
  bool doubted = false;  // such a unit is suspected, but was not seen yet
  uint32_t in_vain = 0;  // number of suspicions that were wrong
  // For each class, from its last counted units: the thread's work in ns, and the operations.
  uint64_t class_ns[kTorchUnitClasses] = {}, class_operations[kTorchUnitClasses] = {};
};

// Starts anew: everything is recorded until the burst is used up.
void StartSampling(TorchSampling* sampling, const TorchProgress& at, uint64_t seed);

// Whether the unit has reached a limit, so that it ends without a step's border.
bool IsOver(const TorchSampling& sampling, const TorchProgress& at);

// Whether the unit ends here. `step`: one step of the program ends and another begins.
bool EndsUnit(TorchSampling* sampling, const TorchProgress& at, bool step);

// Begins the next unit. Returns whether it is recorded. `step`: as given to EndsUnit.
bool BeginUnit(TorchSampling* sampling, const TorchProgress& at, bool step);

// Excludes the cost that was added since it was `before` from the budget and from the units. The next unit begins a new
// block.
void SkipCost(TorchSampling* sampling, const TorchProgress& at, uint64_t before);

}  // namespace tbprof

#endif  // TBPROF_PRELOAD_TORCH_SAMPLING_H_
