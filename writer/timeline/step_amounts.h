// SPDX-License-Identifier: Apache-2.0
//
// The amounts of work of a run, to be divided by its steps, and its machine: the data by which runs are compared. Times
// and indexes as in timeline.h.
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

// An amount of the whole run, including start-up: work that is the same in each run of a program shows there, too.
struct StepCount {
  std::string_view name;  // `kernels`, ...: refers to a permanent text
  double total = 0;
};

// An operation of a framework, by name.
struct StepOperation {
  StringId name = 0;
  double calls = 0;     // of the whole run
  int64_t self_ps = 0;  // of the whole run, without nested operations
};

struct StepAmounts {
  uint64_t steps = 0;  // with irregular ones, which a busy machine causes; 0: not known, and the rest is empty
  std::vector<StepCount> counts;
  std::vector<StepOperation> operations;  // by time, longest first
};

struct Machine {
  std::string cpu_model, kernel;  // empty: not known
  int cpus = 0;                   // 0: not known
  uint64_t memory_bytes = 0;      // 0: not known
  int64_t page_ps = 0;            // measured time of the first use of a page of memory; 0: not known
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_TIMELINE_STEP_AMOUNTS_H_
