// SPDX-License-Identifier: Apache-2.0
//
// Counts and amounts per step in a summary.json.
//
// Process: launcher, for `tbprof compare` and its kin. Content is taken as hostile; faults come out of `Fields`.
#ifndef TBPROF_LAUNCHER_GATE_RUN_AMOUNTS_H_
#define TBPROF_LAUNCHER_GATE_RUN_AMOUNTS_H_

#include "launcher/gate/run_numbers.h"
#include "launcher/report/report_fields.h"

namespace tbprof {

// `numbers->steps` is known; fills in `counts`, `no_counts`, `amounts` and `split_step_s`.
void ReadCounts(const Fields& root, RunNumbers* numbers);
void ReadAmounts(const Fields& root, RunNumbers* numbers);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_GATE_RUN_AMOUNTS_H_
