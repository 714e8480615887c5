// SPDX-License-Identifier: Apache-2.0
//
// Reads counts and amounts per step from a summary.json.
//
// Process: launcher, for `tbprof compare`, `ab`, `baseline` and `run --baseline`. Input is untrusted; `Fields` reports
// faults.
#ifndef TBPROF_LAUNCHER_GATE_RUN_AMOUNTS_H_
#define TBPROF_LAUNCHER_GATE_RUN_AMOUNTS_H_

#include "launcher/gate/run_numbers.h"
#include "launcher/report/report_fields.h"

namespace tbprof {

// Sets `counts`, `no_counts`, `amounts` and `split_step_s`, and of a window `shares`. Needs `numbers->steps`.
void ReadCounts(const Fields& root, RunNumbers* numbers);
void ReadAmounts(const Fields& root, RunNumbers* numbers);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_GATE_RUN_AMOUNTS_H_
