// SPDX-License-Identifier: Apache-2.0
//
// Which of the causes takes the largest share of the steps, with the lines and numbers that show it.
//
// Process: converter.
#ifndef TBPROF_WRITER_VERDICT_CAUSE_CHOICE_H_
#define TBPROF_WRITER_VERDICT_CAUSE_CHOICE_H_

#include "writer/verdict/account.h"
#include "writer/verdict/cpu_split.h"
#include "writer/verdict/gpu_time.h"
#include "writer/verdict/step_span.h"
#include "writer/verdict/verdict.h"

namespace tbprof {

// A problem is named from this share of the steps on.
inline constexpr double kLeastShareOfCause = 0.22;

struct CauseInputs {
  const Timeline& timeline;
  const PythonTags& tags;
  const WaitClasses& classes;
  const StepSpan& span;
  const ThreadTime& time;
  const GpuTime& gpu;
  const UsageInSpans& usage;
  const Account& account;
};

// Fills cause, part, share, where, facts and reason. `verdict` has the split.
void ChooseCause(const CauseInputs& inputs, Verdict* verdict);

// Processes of a job that wait for each other at barriers or in collectives: how unevenly.
struct Stragglers {
  bool found = false;
  uint32_t slow_thread = 0;  // main thread of the process that waits least
  size_t processes = 0;
  double others_wait = 0;  // of the spans, what another one waits
  double slow_waits = 0;
};
// Of the time that the one waits that waits most, and least.
bool IsStraggler(double most, double least);
Stragglers FindStragglers(const CauseInputs& inputs);

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_CAUSE_CHOICE_H_
