// SPDX-License-Identifier: Apache-2.0
//
// The remedy for a cause, where the cause alone does not determine it.
//
// Process: converter. A pure function of the timeline.
#ifndef TBPROF_WRITER_VERDICT_ADVICE_CHOICE_H_
#define TBPROF_WRITER_VERDICT_ADVICE_CHOICE_H_

#include <cstdint>
#include <vector>

#include "writer/timeline/timeline.h"
#include "writer/verdict/account.h"

namespace tbprof {

struct AdviceInputs {
  Cause cause = Cause::kUnknown;
  std::vector<AccountRow> rows;  // of the cause, largest first
  uint32_t process = 0;          // the judged one
  uint64_t steps = 0;            // 0: not known
  bool has_blocker = false;      // and it has a place
  bool workers_want_gil = false;
  bool has_large_wait = false;  // of any cause
  bool compiles_to_the_end = false;
  bool workers_start = false;    // most of the wait is the start of the processes that are waited for
  bool of_stdin = false;         // most of the time is in reads of standard input
  std::vector<WaitSlice> waits;  // of the rows
};

Advice ChooseAdvice(const Timeline& timeline, const AdviceInputs& inputs);

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_ADVICE_CHOICE_H_
