// SPDX-License-Identifier: Apache-2.0
//
// Which of a program's operations are recorded, where all of them would cost more than a share of the time. The run is
// cut into units, from one border to the next: a step where PyTorch reports any, else a random length of time. Units
// form blocks, and of each block one unit is recorded wholly, chosen at random before the block begins: whatever a unit
// holds, its chance is one in the block's length, by which its operations are multiplied in the totals.
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
  uint64_t cost = 0;        // ns, of all that was recorded so far
  uint64_t operations = 0;  // so far, those that were passed over and counted among them, about
  uint64_t busy = 0;        // ns of the calling thread's CPU time, where a unit begins
};

struct TorchSampling {
  uint64_t random = 0x9e3779b97f4a7c15;
  // The budget: what was spent since, of what has been earned since. What is not used is not saved up.
  uint64_t since = 0, cost_at_since = 0;
  // The unit that is going on.
  uint64_t unit_since = 0, cost_at_unit = 0, operations_at_unit = 0;
  uint64_t busy_at_unit = 0;
  uint32_t unit_steps = 0;  // that have ended in it
  // How long it may last without a step's border, and how many operations it may have.
  uint64_t limit = 0, most_operations = 0;
  uint32_t most_steps = 0;  // after which it ends; 0: not known yet, by time
  bool recording = true;
  uint32_t weight = 1;  // how many units one that is recorded stands for
  // The block that it is in: how many units, which is recorded, which is going on.
  uint32_t units = 1, chosen = 0, position = 0;
  // Means of the last units, and the median of the steps.
  uint64_t unit_ns = 0, unit_cost = 0, step_ns = 0, step_operations = 0;
  uint64_t last_step = 0, operations_at_step = 0;
  uint32_t steps = 0;
  // Of the unit that has ended: units alike, by how long they were and whether a step ended them. The converter adds up
  // what was passed over by them, so that chance decides about a class, and not between classes.
  uint32_t ended_class = 0;
  // Whether PyTorch counts what is passed over in this unit. Where steps are short, that alone costs a few percent of
  // the time: there it counts in one of several units, and the others are taken to be like those of their class.
  bool counted = true;
  uint32_t first_counted = 0;  // units that were, at the start
  // What was not counted in the unit that has ended.
  uint64_t estimated = 0;
  // Until when all units are counted, and since when: some may end by operations, which only a count shows.
  uint64_t count_until = 0, counted_since = 0;
  bool doubted = false;  // whether there are such was not seen yet
  uint32_t in_vain = 0;  // times that there were none
  // Of the last units of each class that were counted: the thread's work, and the operations.
  uint64_t class_ns[kTorchUnitClasses] = {}, class_operations[kTorchUnitClasses] = {};
};

// Starts anew: all is recorded until the burst is used up.
void StartSampling(TorchSampling* sampling, const TorchProgress& at, uint64_t seed);

// Whether the unit has lasted as long as it may without a step's border.
bool IsOver(const TorchSampling& sampling, const TorchProgress& at);

// Whether the unit ends here. `step`: one step of the program ends and another begins.
bool EndsUnit(TorchSampling* sampling, const TorchProgress& at, bool step);

// The next unit; whether it is recorded. `step`: as given to EndsUnit.
bool BeginUnit(TorchSampling* sampling, const TorchProgress& at, bool step);

// What was recorded since the cost was `before` is not of the budget, nor of a unit: the next one is of a new block.
void SkipCost(TorchSampling* sampling, const TorchProgress& at, uint64_t before);

}  // namespace tbprof

#endif  // TBPROF_PRELOAD_TORCH_SAMPLING_H_
