// SPDX-License-Identifier: Apache-2.0
//
// What a run did for each of its steps, and the machine on which it did: what runs are compared by. Times and indexes
// as in timeline.h.
//
// Process: the converter.
#ifndef TBPROF_WRITER_TIMELINE_STEP_AMOUNTS_H_
#define TBPROF_WRITER_TIMELINE_STEP_AMOUNTS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tbprof {

using StringId = uint32_t;

// Of the whole run, start-up included: what is the same in each run of a program shows there, too.
struct StepCount {
  std::string_view name;  // `kernels`, ...: a text that lives on
  double total = 0;
};

// Of a framework, by name.
struct StepOperation {
  StringId name = 0;
  double calls = 0;     // of the whole run
  int64_t self_ps = 0;  // likewise, without the operations inside it
};

struct StepAmounts {
  uint64_t steps = 0;  // irregular ones, too: a busy machine makes others so; 0: not known, and all else is empty
  std::vector<StepCount> counts;
  std::vector<StepOperation> operations;  // by time, longest first
};

struct Machine {
  std::string cpu_model, kernel;  // empty: not known
  int cpus = 0;                   // 0: not known
  uint64_t memory_bytes = 0;      // likewise
  int64_t page_ps = 0;            // measured: the first use of a page of memory; 0: not known
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_TIMELINE_STEP_AMOUNTS_H_
